"""The demo: models on half-moons, audited all the way out; six that fail, and two that do not.

The six are those of Know Your Limits. An RBF network knows that it does not know, by Theorem 3.2 of
Hein et al., and the last is the first network once more, behind a guard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from farfield.audit.record import Audit, parse
from farfield.audit.run import audit
from farfield.datasets import half_moons
from farfield.datasets.synthetic import SyntheticData
from farfield.estimators import RBFClassifier
from farfield.graph import capture
from farfield.guard.model import GuardedModel
from farfield.guard.protect import guard
from farfield.report.disc import draw_discs
from farfield.report.figure import save_figure
from farfield.report.html.comparison import write_comparison
from farfield.reproduce.drawing import disc_of
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage, step_per_model
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable, Value
from farfield.reproduce.models import make_model
from farfield.reproduce.surfaces import polar_surfaces

NAME = "demo"
TITLE = "Half-moons, out to infinity: eight models audited side by side"
SOURCE = "Ulmer and Cinà, Know Your Limits, Theorem 1 and Figure 3; Hein et al., Theorem 3.2"
NEEDS: tuple[str, ...] = ()
SCORE = "one_minus_max_probability"
# A ring around the data, three to four times as far out as the data reaches.
RING = (8.0, 10.0)
# The paper's architecture with one logit; Bayes by backprop works with fewer layers.
HIDDEN = {"Bayes by backprop": (25,)}
ALONE, GUARDED, RBF = "One ReLU network", "One ReLU network, guarded", "RBF network"
MODELS = (
    ALONE, "Temperature scaling", "MC dropout", "Ensemble of ten",
    "Anchored ensemble", "Bayes by backprop", RBF, GUARDED,
)  # fmt: skip


def settings(quick: bool, seed: int) -> Settings:
    """All models; fewer directions and rows of distances in quick mode."""
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
    model = _train(title, moons, seed)
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
    network = model if isinstance(model, GuardedModel) else capture(model)
    polar = polar_surfaces(network, [SCORE], centre, directions=settings["directions"], rings=120)
    predicted = model.predict_proba(moons.X_validation).argmax(axis=1)
    return {
        "audit": found.to_json(),
        "accuracy": float(np.mean(predicted == moons.y_validation)),
        "blind": _blind(model, found),
        **{key.removesuffix(f" {SCORE}"): values for key, values in polar.items()},
    }


def _train(title: str, moons: SyntheticData, seed: int) -> Any:
    """Train a model; the guarded one is the first model with a guard around it."""
    constants = {"hidden": HIDDEN.get(title, (25, 25, 25)), "logits": "one", "random_state": seed}
    model = make_model(ALONE if title == GUARDED else title, constants).fit(moons.X, moons.y)
    if title != GUARDED:
        return model
    return guard(model, moons.X, labels=moons.y, random_state=seed)


def _blind(model: Any, found: Audit) -> float:
    """The exact share of directions: as arcs of the circle, or none by a proof."""
    if found.model_is_guarded:
        return found.verdict.blind
    if isinstance(model, RBFClassifier):
        # Beyond this distance, in whatever direction, no class has more than 0.9.
        assert np.isfinite(model.certificate_radius(0.4))
        return 0.0
    circle = next(family for family in found.families if family.name == "circle")
    return float(circle.share)  # type: ignore[arg-type]  # exact, so no estimate


def _ring(centre: Any, seed: int) -> Any:
    """Points that no model was trained on, and none should be sure of."""
    rng = np.random.default_rng(seed)
    angles, radii = rng.uniform(0, 2 * np.pi, 500), rng.uniform(*RING, 500)
    return centre + radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1)


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """One row and one disc for each model."""
    columns = [
        "model", "accuracy (training)", "accuracy (held out)", "blind (exact)",
        "confidence (at infinity)", "finds ring (entropy, AUROC)",
    ]  # fmt: skip
    rows = [_row(title, _audit(title, each), each) for title, each in results.items()]
    return Findings(
        [
            "Blind: the share of all directions in which the model ends up 99% sure or more; "
            "computed exactly, as arcs of the circle, or none by a proof. The ring lies three to "
            "four times as far out as the data."
        ],
        [_compare(title, each["blind"]) for title, each in results.items()],
        [ResultTable("models", TITLE, columns, rows)],
        [Figure("far-field", _CAPTION, draw(settings, results))],
    )


_CAPTION = (
    "The whole plane as a disc whose rim is infinity: how sure each model is. Distance is "
    "compressed, the dotted circles are at 1 and 10, and the ring outside of the disc is exact."
)


def _audit(title: str, result: Result) -> Audit:
    return parse(result["audit"].encode(), title)


def _row(title: str, found: Audit, result: Result) -> list[Value]:
    trained = None if found.health is None else found.health.numbers["accuracy"].value
    sure = 1 - result["limit"]
    at_infinity = f"{sure.min():.2f} to {sure.max():.2f}"
    blind = f"{result['blind']:.1%}"
    return [title, trained, result["accuracy"], blind, at_infinity, _ring_found(found)]


def _ring_found(found: Audit) -> float:
    """How well the ring is told from the data; of two classes every score of one answer agrees."""
    if found.guard is not None and found.model_is_guarded:
        return found.guard.rows["AUROC: ring"][1]
    return next(row for row in found.detection if row.score == "predictive_entropy").auroc.value


def _compare(title: str, share: float) -> PaperComparison:
    """The theorems are about one network; a vote of several that disagree is not certain."""
    claimed, source = _CLAIMS.get(title, (None, "Section 4"))
    right = {"all": share > 0.999, "not all": share < 0.999, "none": share == 0}
    return PaperComparison(
        f"{title}: share of directions that end 99% sure",
        claimed,
        share,
        source,
        "The theorem assumes more of the network than this one fulfils.",
        agrees=None if claimed is None else right[claimed],
    )


_CLAIMS = {
    ALONE: ("all", "Theorem 1"),
    "Temperature scaling": ("all", "Theorem 1"),
    "Ensemble of ten": ("not all", "Section 4"),
    "Anchored ensemble": ("not all", "Section 4"),
    RBF: ("none", "Hein et al., Theorem 3.2"),
    GUARDED: ("none", "the guard's certificate"),
}


def draw(settings: Settings, results: Mapping[str, Result]) -> Any:
    """One disc for each model, four in a row."""
    moons = half_moons(settings["seed"])
    scale = float(moons.X.std(axis=0).max())
    return draw_discs(
        {title: disc_of(each, scale) for title, each in results.items()},
        moons.X - moons.X.mean(axis=0),
        moons.y,
        notes={title: f"certain in {_percent(each['blind'])}" for title, each in results.items()},
    )


def _percent(share: float) -> str:
    return f"{share:.0%} of directions"


def write_reports(settings: Settings, results: Mapping[str, Result], out: Path) -> Path:
    """Write the picture, the report of every model, and a page that compares them.

    Returns:
        The page.
    """
    audits = {title: _audit(title, each) for title, each in results.items()}
    shown = {}
    for title, found in audits.items():
        name = title.lower().replace(",", "").replace(" ", "-")
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
