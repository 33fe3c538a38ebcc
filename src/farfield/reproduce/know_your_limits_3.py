"""Figures 3, 5 and 6 of Know Your Limits: every model and metric on half-moons, and infinity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from farfield.datasets import half_moons
from farfield.exact import blind_arcs
from farfield.graph import capture
from farfield.report.disc import draw_disc
from farfield.report.figure import new_figure
from farfield.reproduce.drawing import (
    RANGES,
    TITLES,
    disc_of,
    draw_gradient,
    draw_points,
    draw_surface,
)
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage, step_per_model
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable, Value
from farfield.reproduce.models import SEVERAL, SINGLE, build
from farfield.reproduce.surfaces import (
    SurfaceGrid,
    Window,
    gradient_surfaces,
    polar_surfaces,
    score_in_bits,
    score_surfaces,
)

NAME = "know-your-limits-3"
TITLE = "Half-moons: uncertainty surfaces of all models and metrics, continued to infinity"
SOURCE = "Ulmer and Cinà, Know Your Limits, Figures 3, 5 and 6 (supplement: Figures 2 and 3)"
NEEDS: tuple[str, ...] = ()
WINDOW: Window = (-3.5, 4.5, -3.0, 3.5)
GRADIENT_WINDOW: Window = (-5.5, 6.5, -5.0, 5.5)
OF_ONE = ("predictive_entropy", "one_minus_max_probability")
OF_SEVERAL = ("class_variance", "predictive_entropy", "mutual_information")
FIGURE_3 = (
    ("NN", "one_minus_max_probability"),
    ("MC dropout", "mutual_information"),
    ("ensemble", "class_variance"),
    ("anchored ensemble", "mutual_information"),
)


def settings(quick: bool, seed: int) -> Settings:
    """The paper's grid step of 0.1, or a coarser one."""
    return {
        "seed": seed,
        "step": 0.2 if quick else 0.1,
        "directions": 360 if quick else 1440,
        "members": 10,
        "samples": 50,
        "models": [*SINGLE, *SEVERAL],
    }


def steps(settings: Settings, _request: RunRequest) -> Sequence[Stage]:
    """One step for each model: train it and evaluate all its surfaces."""
    return step_per_model(settings, _evaluate)


def _evaluate(name: str, settings: Settings) -> Result:
    moons = half_moons(settings["seed"])
    model = build(name, settings["seed"], settings["members"], settings["samples"])
    model.fit(moons.X, moons.y, validation=(moons.X_validation, moons.y_validation))
    network = capture(model)
    metrics = _metrics(name)
    few = "dropout" in name or "backprop" in name
    shown = score_surfaces(network, metrics, SurfaceGrid.of(WINDOW, settings["step"]), few)
    slopes = gradient_surfaces(
        network, metrics, SurfaceGrid.of(GRADIENT_WINDOW, settings["step"]), few
    )
    polar = polar_surfaces(
        network, metrics, moons.X.mean(axis=0), directions=settings["directions"], few=few
    )
    positive = model.predict_proba(moons.X_validation)[:, 1]
    p = network.probabilities(moons.X_validation)
    return {
        "auc": float(roc_auc_score(moons.y_validation, positive)),
        "accuracy": float(model.score(moons.X_validation, moons.y_validation)),
        "blind": blind_arcs(network).share,
        "near_scores": {metric: float(score_in_bits(metric, p).mean()) for metric in metrics},
        "authors_mi": _authors_mutual_information(p),
        **polar,
        **{f"score {metric}": values for metric, values in shown.items()},
        **{f"gradient {metric}": values for metric, values in slopes.items()},
    }


def _metrics(name: str) -> tuple[str, ...]:
    return OF_ONE if name in SINGLE else (*OF_SEVERAL, "one_minus_max_probability")


def _authors_mutual_information(p: Any) -> list[float]:
    """What the authors' code computes: the mean runs over classes in place of instances."""
    few = p[:10].double()
    over_classes = few.mean(dim=-1)
    total = -(over_classes * over_classes.log2()).sum(dim=0)
    expected = -(few * few.clamp_min(1e-300).log2()).sum(dim=-1).mean(dim=0)
    values = total - expected
    return [float(values.min()), float(values.max())]


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Draw the paper's figures and the discs."""
    moons = half_moons(settings["seed"])
    data = (moons.X, moons.y)
    single = [name for name in SINGLE if name in results]
    several = [name for name in SEVERAL if name in results]
    pairs = [pair for pair in FIGURE_3 if pair[0] in results]
    pictures = []
    if pairs:
        pictures.append(Figure("figure-3", _CAPTION_3, _columns(pairs, results, data)))
        pictures.append(Figure("figure-3-infinity", _CAPTION_DISC, _discs([pairs], results, data)))
    if single:
        rows = [[(name, metric) for metric in OF_ONE] for name in single]
        pictures.append(Figure("figure-5", _CAPTION_5, _matrix(rows, results, data)))
    if several:
        rows = [[(name, metric) for metric in OF_SEVERAL] for name in several]
        pictures.append(Figure("figure-6", _CAPTION_6, _matrix(rows, results, data)))
        pictures.append(Figure("figure-6-infinity", _CAPTION_DISC, _discs(rows, results, data)))
    return Findings(_summary(results), _compare(results), [_table(results)], pictures)


_CAPTION_3 = (
    "Figure 3. Top: the score, white for certain (1 - max. probability 0 to 0.5, variance 0 to "
    "0.25, mutual information 0 to 1 bit); bottom: magnitude of its gradient in the larger window, "
    "from 0 to the largest, which is written there. AUC: of classifying the validation points."
)
_CAPTION_DISC = (
    "No paper has this panel: the same scores on the whole plane. Distance is compressed, the "
    "dotted circles are at 1 and 10, and the ring outside of the disc is infinity, exact."
)
_CAPTION_5 = "Figure 5 (supplement: 2). Single networks: scores, and magnitudes of their gradients."
_CAPTION_6 = (
    "Figure 6 (supplement: 3). Several instances: scores, and magnitudes of their gradients. "
    "Mutual information is the real one, 0 to 1 bit."
)


def _columns(pairs: Sequence[tuple[str, str]], results: Mapping[str, Result], data: Any) -> Any:
    figure = new_figure(3.1 * len(pairs), 5.4)
    axes = figure.subplots(2, len(pairs), squeeze=False)
    for (top, bottom), (name, metric) in zip(axes.T, pairs, strict=True):
        _panel(top, bottom, results[name], metric, data)
        title = f"{name}, AUC {results[name]['auc']:.3f}\n{TITLES[metric]}"
        top.set_title(title, fontsize=9)
    return figure


def _matrix(
    rows: Sequence[Sequence[tuple[str, str]]], results: Mapping[str, Result], data: Any
) -> Any:
    """Each metric in two columns: score and gradient."""
    metrics = len(rows[0])
    figure = new_figure(2.2 * 2 * metrics + 0.4, 2.0 * len(rows) + 0.3)
    axes = figure.subplots(len(rows), 2 * metrics, squeeze=False)
    for number, (line, row) in enumerate(zip(axes, rows, strict=True)):
        for place, (name, metric) in enumerate(row):
            shown, slope = line[2 * place], line[2 * place + 1]
            _panel(shown, slope, results[name], metric, data)
            if number == 0:
                shown.set_title(TITLES[metric], fontsize=9)
                slope.set_title("gradient magnitude", fontsize=9)
        auc = results[row[0][0]]["auc"]
        line[0].set_ylabel(f"{_short(row[0][0])}\nAUC {auc:.3f}", fontsize=8)
    return figure


def _panel(top: Any, bottom: Any, result: Result, metric: str, data: Any) -> None:
    draw_surface(top, WINDOW, result[f"score {metric}"], RANGES[metric])
    draw_points(top, data[0], data[1], size=1.5)
    draw_gradient(bottom, GRADIENT_WINDOW, result[f"gradient {metric}"])


def _discs(
    rows: Sequence[Sequence[tuple[str, str]]], results: Mapping[str, Result], data: Any
) -> Any:
    figure = new_figure(2.6 * len(rows[0]) + 0.2, 2.85 * len(rows))
    axes = figure.subplots(len(rows), len(rows[0]), squeeze=False)
    X, y = data
    centre, scale = X.mean(axis=0), float(X.std(axis=0).max())
    for line, row in zip(axes, rows, strict=True):
        for axis, (name, metric) in zip(line, row, strict=True):
            disc = disc_of(results[name], scale, metric)
            draw_disc(axis, disc, RANGES[metric])
            draw_points(axis, disc.places(X - centre), y, size=1.0)
            axis.set_title(f"{_short(name)}\n{TITLES[metric]}", fontsize=8)
    return figure


def _short(name: str) -> str:
    return name.replace("Bayes by backprop, ", "Bayes by backprop,\n")


def _table(results: Mapping[str, Result]) -> ResultTable:
    shown = [metric for metric in RANGES if metric != "expected_entropy"]
    rows: list[list[Value]] = []
    for name, result in results.items():
        row: list[Value] = [name, result["auc"], result["accuracy"], result["blind"]]
        for metric in shown:
            limit = result.get(f"limit {metric}")
            row.append(result["near_scores"].get(metric))
            row.append(None if limit is None else float(np.mean(limit)))
        rows.append(row)
    columns = ["model", "AUC", "accuracy", "blind share of directions (exact)"]
    for metric in shown:
        columns += [f"{TITLES[metric]} near (mean)", f"{TITLES[metric]} at infinity (mean)"]
    caption = (
        "Validation points, the mean of each score on them, and what is left of it at infinity; "
        "entropies in bits."
    )
    return ResultTable("models", caption, columns, rows)


def _compare(results: Mapping[str, Result]) -> list[PaperComparison]:
    range_, shown = "4 to 5", "Appendix B, colour range"
    comparisons = []
    several = {name: results[name] for name in SEVERAL if name in results}
    if several:
        pairs = [each["authors_mi"] for each in several.values()]
        low, high = min(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
        comparisons.append(
            PaperComparison(
                "range of mutual information, averaged over classes as in the authors' code",
                range_,
                f"{low:.2f} to {high:.2f}",
                shown,
                "With 10 instances that average gives 10 / 2 minus the expected entropy.",
                agrees=low >= 4 - 1e-9 and high <= 5 + 1e-9,
            )
        )
    why = "The real one lies between 0 and 1 bit; the paper's mean runs over classes."
    for name, each in several.items():
        top = round(float(each["score mutual_information"].max()), 4)
        quantity = f"largest mutual information shown, {name}"
        comparisons.append(PaperComparison(quantity, range_, top, shown, why, agrees=False))
    if "MC dropout" in results:
        comparisons.append(
            PaperComparison(
                "largest class variance shown, MC dropout",
                0.0,
                float(results["MC dropout"]["score class_variance"].max()),
                "Figure 6, first panel",
                "The authors' figures were drawn with dropout switched off; masks are on here.",
            )
        )
    return comparisons


def _summary(results: Mapping[str, Result]) -> list[str]:
    sentences = [
        "The text prints no AUC for these figures (it stands in the pictures), so ours stand alone."
    ]
    blind = {name: result["blind"] for name, result in results.items()}
    sure = [name for name, share in blind.items() if share > 0.999]
    if sure:
        sentences.append(
            "At infinity these are at least 99% sure in every direction, exactly: "
            + ", ".join(sure)
            + "."
        )
    rest = [f"{name} {share:.1%}" for name, share in blind.items() if share <= 0.999]
    if rest:
        sentences.append(
            "Where members disagree about the class at infinity the scores stay at the level of "
            "their vote; the share of blind directions is " + ", ".join(rest) + "."
        )
    return sentences
