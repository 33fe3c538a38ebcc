"""The demo: the models of Know Your Limits on half-moons, audited all the way out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from farfield.audit.record import Audit, parse
from farfield.audit.run import audit
from farfield.datasets import half_moons
from farfield.graph import capture
from farfield.report.figure import CLASSES, save_figure
from farfield.report.html.comparison import write_comparison
from farfield.reproduce.drawing import RANGES, disc_points, draw_disc, panels
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage, step_per_model
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable, Value
from farfield.reproduce.models import make_model
from farfield.reproduce.surfaces import polar_surfaces

NAME = "demo"
TITLE = "Half-moons, out to infinity: six models audited side by side"
SOURCE = "Ulmer and Cinà, Know Your Limits, Theorem 1 and Figure 3"
NEEDS: tuple[str, ...] = ()
SCORE = "one_minus_max_probability"
# A ring around the data, three to four times as far out as the data reaches.
RING = (8.0, 10.0)
# Discs in a row.
COLUMNS = 3
# The paper's architecture with one logit; Bayes by backprop works with fewer layers.
HIDDEN = {"Bayes by backprop": (25,)}
MODELS = (
    "One ReLU network", "Temperature scaling", "MC dropout", "Ensemble of ten",
    "Anchored ensemble", "Bayes by backprop",
)  # fmt: skip


def settings(quick: bool, seed: int) -> Settings:
    """All six models; fewer directions and rows of distances in quick mode."""
    return {
        "seed": seed,
        "directions": 360 if quick else 1440,
        "samples": 100 if quick else 500,
        "models": list(MODELS),
    }


def steps(settings: Settings, _request: RunRequest) -> Sequence[Stage]:
    """One step for each model: train it, audit it, and follow it in all directions."""
    return step_per_model(settings, _follow)


def _follow(title: str, settings: Settings) -> Result:
    seed = settings["seed"]
    moons = half_moons(seed)
    centre = moons.X.mean(axis=0)
    constants = {"hidden": HIDDEN.get(title, (25, 25, 25)), "logits": "one", "random_state": seed}
    model = make_model(title, constants).fit(moons.X, moons.y)
    found = audit(
        model,
        moons.X,
        moons.y,
        features=("x", "y"),
        class_names=("upper moon", "lower moon"),
        ood={"ring": _ring(centre, seed)},
        samples=settings["samples"],
        random_state=seed,
    )
    polar = polar_surfaces(
        capture(model), [SCORE], centre, directions=settings["directions"], rings=120
    )
    return {
        "audit": found.to_json(),
        "accuracy": float(model.score(moons.X_validation, moons.y_validation)),
        **{key.removesuffix(f" {SCORE}"): values for key, values in polar.items()},
    }


def _ring(centre: Any, seed: int) -> Any:
    """Points that no model was trained on, and none should be sure of."""
    rng = np.random.default_rng(seed)
    angles, radii = rng.uniform(0, 2 * np.pi, 500), rng.uniform(*RING, 500)
    return centre + radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1)


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """One row and one disc for each model."""
    audits = _audits(results)
    shares = {title: _circle(found).share for title, found in audits.items()}
    rows = [_row(title, audits[title], results[title]["accuracy"]) for title in results]
    columns = [
        "model", "accuracy (training)", "accuracy (held out)", "blind (exact)",
        "confidence at infinity", "finds ring (entropy, AUROC)",
    ]  # fmt: skip
    return Findings(
        [
            "Blind: the share of all directions in which the model ends up 99% sure or more; "
            "computed exactly, as arcs of the circle. The ring lies three to four times as far out "
            "as the data."
        ],
        [_compare(title, float(share)) for title, share in shares.items()],
        [ResultTable("models", TITLE, columns, rows)],
        [Figure("far-field", _CAPTION, draw(settings, results))],
    )


_CAPTION = (
    "The whole plane as a disc whose rim is infinity: how sure each model is. Distance is "
    "compressed, the dotted circles are at 1 and 10, and the ring outside of the disc is exact."
)


def _audits(results: Mapping[str, Result]) -> dict[str, Audit]:
    return {title: parse(each["audit"].encode(), title) for title, each in results.items()}


def _circle(found: Audit) -> Any:
    return next(family for family in found.families if family.name == "circle")


def _row(title: str, found: Audit, held: float) -> list[Value]:
    circle = _circle(found)
    ring = next(row for row in found.detection if row.score == "predictive_entropy")
    trained = None if found.health is None else found.health.numbers["accuracy"].value
    low, middle, high = circle.confidence[0], circle.confidence[2], circle.confidence[-1]
    at_infinity = f"{middle:.3f} ({low:.3f} to {high:.3f})"
    return [title, trained, held, f"{circle.share:.1%}", at_infinity, ring.auroc.value]


def _compare(title: str, share: float) -> PaperComparison:
    """The theorem is about one network; a vote of several that disagree is not certain."""
    alone = title in ("One ReLU network", "Temperature scaling")
    return PaperComparison(
        f"{title}: share of directions that end 99% sure",
        "all" if alone else "not all" if "nsemble" in title else None,
        share,
        "Theorem 1" if alone else "Section 4",
        "The theorem assumes more of the network than this one fulfils.",
        agrees=share > 0.999 if alone else share < 0.999 if "nsemble" in title else None,
    )


def draw(settings: Settings, results: Mapping[str, Result]) -> Any:
    """One disc for each model, three in a row."""
    moons = half_moons(settings["seed"])
    centre, scale = moons.X.mean(axis=0), float(moons.X.std(axis=0).max())
    places = disc_points(moons.X, centre, scale)
    columns = min(COLUMNS, len(results))
    figure, axes = panels(list(results), (4.6, 5.0), columns, more=(1.1, 0.0), fontsize=12)
    for axis, each in zip(axes, results.values(), strict=True):
        image = draw_disc(axis, each, RANGES[SCORE], scale)
        for label, colour in zip(np.unique(moons.y), CLASSES, strict=False):
            chosen = places[moons.y == label].T
            axis.scatter(*chosen, s=5, color=colour, linewidths=0, label=f"class {label}")
    axes[0].legend(loc="lower left", fontsize=8, frameon=False, bbox_to_anchor=(-0.03, -0.03))
    bar = figure.colorbar(image, ax=axes, shrink=0.8 / -(-len(results) // columns), pad=0.02)
    bar.ax.invert_yaxis()
    ticks = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    bar.set_ticks(ticks, labels=[f"{1 - tick:.1f}" for tick in ticks])
    bar.set_label("confidence")
    return figure


def write_reports(settings: Settings, results: Mapping[str, Result], out: Path) -> Path:
    """Write the picture, the report of every model, and a page that compares them.

    Returns:
        The page.
    """
    audits = _audits(results)
    shown = {}
    for title, found in audits.items():
        name = title.lower().replace(" ", "-")
        found.to_json(out / name / "audit.json")
        found.to_html(out / name / "report.html")
        shown[title] = (f"{name}/report.html", found)
    points = next(iter(audits.values())).data.rows
    return write_comparison(
        shown,
        out / "index.html",
        title="Half-moons, out to infinity",
        rows=f"the {points} points that the models were trained on",
        picture=save_figure(draw(settings, results), out / "far-field.png"),
    )
