"""The practical's classification: three spirals, adversarial training and members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from farfield.datasets import spirals
from farfield.estimators import EnsembleClassifier
from farfield.evaluate import calibration
from farfield.exact import blind_arcs
from farfield.graph import capture
from farfield.levels import BLIND
from farfield.objectives import NLL, Adversarial
from farfield.report.ensembles import draw_decomposition
from farfield.report.figure import new_figure
from farfield.reproduce.drawing import tidy
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable, Value
from farfield.reproduce.surfaces import nearest
from farfield.scores import expected_entropy, mutual_information

NAME = "practical-classification"
TITLE = "Three spirals: accuracy, data and knowledge uncertainty, adversarial training"
SOURCE = "Uncertainty Estimation Practical, Part I: classification on a toy dataset, and questions"
NEEDS: tuple[str, ...] = ()
PUBLISHED_ACCURACY, PUBLISHED_NLL = 0.964, 0.106
MEMBERS = 4
EDGE = 2.0


def settings(quick: bool, seed: int) -> Settings:
    """2-150-150-3, 300 full-batch steps; our rate is for the usual loss (theirs is a third)."""
    return {
        "seed": seed,
        "members": [1, 2, 4] if quick else [1, 2, 4, 8],
        "hidden": [150, 150],
        "steps": 300,
        "learning_rate": 0.02,
        "grid": 100 if quick else 200,
        "epsilons": [0.0, 0.01] if quick else [0.0, 0.01, 0.05],
    }


def steps(settings: Settings, _request: RunRequest) -> Sequence[Stage]:
    """One step for each strength of adversarial training."""
    fixed = {name: value for name, value in settings.items() if name != "epsilons"}
    return [
        Stage(_name(epsilon), {**fixed, "epsilon": epsilon}, partial(_evaluate, epsilon, settings))
        for epsilon in settings["epsilons"]
    ]


def _name(epsilon: float) -> str:
    return f"adversarial, {epsilon:g} of the range" if epsilon else "plain"


def _evaluate(epsilon: float, settings: Settings) -> Result:
    data, fresh = spirals(settings["seed"]), spirals(settings["seed"] + 1)
    model = EnsembleClassifier(
        members=max(settings["members"]),
        hidden=tuple(settings["hidden"]),
        epochs=settings["steps"],
        batch_size=None,
        learning_rate=settings["learning_rate"],
        objective=Adversarial(epsilon) if epsilon else NLL(),
        random_state=settings["seed"],
    ).fit(data.X, data.y)
    train, test = model.predict_instances(data.X), model.predict_instances(fresh.X)
    ticks = np.linspace(-EDGE, EDGE, settings["grid"])
    points = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    shown = model.predict_instances(points)
    rows = []
    for members in settings["members"]:
        arcs = blind_arcs(capture(list(model.instances_[:members]), points[:1]))
        on, off = calibration(train[:members], data.y), calibration(test[:members], fresh.y)
        rows.append([members, on.accuracy, on.nll, off.accuracy, off.nll, off.ece, arcs.share])
    chosen = shown[:MEMBERS]
    return {
        "rows": np.array(rows),
        "mean": chosen.mean(axis=0).astype(np.float32),
        "data": expected_entropy(chosen, unit="bits").astype(np.float32),
        "knowledge": mutual_information(chosen, unit="bits").astype(np.float32),
        "where": _where(points, chosen, data.X),
    }


def _where(points: Any, p: Any, X: Any) -> dict[str, float]:
    """Where uncertainties are high: by distance to the data and to the decision boundary."""
    distance = nearest(X, points)
    ordered = np.sort(p.mean(axis=0), axis=1)
    margin = ordered[:, -1] - ordered[:, -2]
    data, knowledge = expected_entropy(p, unit="bits"), mutual_information(p, unit="bits")
    near, far = distance < 0.1, distance > 0.5
    confidence = p.max(axis=-1)
    return {
        "one_sure_far": float((confidence[0][far] >= BLIND).mean()),
        "mean_sure_far": float((p.mean(axis=0).max(axis=-1)[far] >= BLIND).mean()),
        "data_near": float(data[near].mean()),
        "data_far": float(data[far].mean()),
        "knowledge_near": float(knowledge[near].mean()),
        "knowledge_far": float(knowledge[far].mean()),
        "data_margin": float(spearmanr(data, margin).statistic),
        "knowledge_distance": float(spearmanr(knowledge, distance).statistic),
        "boundary_near": float((margin[near] < 0.5).mean()),
    }


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Tabulate, draw the notebook's figure, answer its questions."""
    data = spirals(settings["seed"])
    plain = results["plain"]
    row = next(each for each in plain["rows"] if each[0] == min(MEMBERS, plain["rows"][-1][0]))
    accuracy = {"accuracy on the training points, 4 members": float(row[1])}
    nll = {"NLL on the training points, 4 members": float(row[2])}
    why = (
        "Our loss is the usual one; the notebook's averages over classes too, so its "
        "un-squared weight decay is three times as strong beside it."
    )
    comparisons = [
        *PaperComparison.each(accuracy, PUBLISHED_ACCURACY, "cell 12", why, tolerance=0.005),
        *PaperComparison.each(nll, PUBLISHED_NLL, "cell 12", why, tolerance=0.01),
        PaperComparison(
            "where members are most diverse",
            "out of distribution: corners, gaps",
            _diversity(plain["where"]),
            "question 3",
            "Far away members disagree in sectors only; elsewhere they agree, and are certain.",
            agrees=plain["where"]["knowledge_far"] > plain["where"]["knowledge_near"],
        ),
    ]
    ticks = np.linspace(-EDGE, EDGE, settings["grid"])
    pictures = [
        Figure(f"figure-{index}", _CAPTION.format(name=name), _figure(each, ticks, data))
        for index, (name, each) in enumerate(results.items())
    ]
    pictures.append(Figure("members", _CAPTION_MEMBERS, _curves(results)))
    return Findings(_answers(results), comparisons, [_table(results)], pictures)


_CAPTION = (
    "The notebook's figure ({name} training, 4 members): data, mean prediction, data and knowledge "
    "uncertainty in bits."
)
_CAPTION_MEMBERS = (
    "Fresh points' NLL and the exact share of directions in which the mean of the members is at "
    "least 99% sure infinitely far out, by number of members."
)


def _diversity(where: Mapping[str, float]) -> str:
    return (
        f"mean mutual information {where['knowledge_far']:.3f} bits further than 0.5 from the "
        f"data, {where['knowledge_near']:.3f} within 0.1"
    )


def _figure(result: Result, ticks: Any, data: Any) -> Any:
    shape = (len(ticks), len(ticks))
    return draw_decomposition(
        (ticks, ticks),
        result["mean"].reshape(*shape, -1).astype(float),
        result["data"].reshape(shape),
        result["knowledge"].reshape(shape),
        data.X,
        data.y,
        unit="bits",
    )


def _table(results: Mapping[str, Result]) -> ResultTable:
    rows: list[list[Value]] = [
        [name, int(row[0]), *map(float, row[1:])]
        for name, result in results.items()
        for row in result["rows"]
    ]
    columns = [
        "training", "members", "accuracy", "NLL", "accuracy, fresh", "NLL, fresh", "ECE, fresh",
        "blind share of directions (exact)",
    ]  # fmt: skip
    return ResultTable(
        "spirals", "Training points, and fresh points of another seed.", columns, rows
    )


def _answers(results: Mapping[str, Result]) -> list[str]:
    """The practical's discussion questions, answered with numbers."""
    plain = results["plain"]
    where, rows = plain["where"], plain["rows"]
    sentences = [
        "Are there regions of overconfidence? Further than 0.5 from all data one network is at "
        f"least 99% sure on {where['one_sure_far']:.0%} of the window and the mean of four on "
        f"{where['mean_sure_far']:.0%}; infinitely far out, exactly: {rows[0][6]:.1%} of all "
        f"directions for one, {rows[-1][6]:.1%} for {int(rows[-1][0])}.",
        "Where is the ensemble most uncertain? Data uncertainty follows the decision boundary: its "
        f"rank correlation with the margin between the two likeliest classes is "
        f"{where['data_margin']:.2f}. Near the data it is {where['data_near']:.3f} bits, far away "
        f"{where['data_far']:.3f}.",
        f"Where are members most diverse? {_diversity(where).capitalize()}; rank correlation of "
        f"knowledge uncertainty with the distance to the data: {where['knowledge_distance']:.2f}.",
    ]
    for name, result in results.items():
        if name == "plain":
            continue
        changed = result["where"]
        nll, near, sure = (
            f"{before:{style}} to {after:{style}}"
            for before, after, style in (
                (rows[-1][4], result["rows"][-1][4], ".3f"),
                (where["boundary_near"], changed["boundary_near"], ".1%"),
                (where["mean_sure_far"], changed["mean_sure_far"], ".0%"),
            )
        )
        sentences.append(
            f"What does adversarial training do ({name})? NLL of {int(rows[-1][0])} members on "
            f"fresh points goes from {nll}; the part of the data's surroundings with a margin "
            f"below 0.5 from {near}; certainty far away (mean of four) from {sure}."
        )
    return sentences


def _curves(results: Mapping[str, Result]) -> Any:
    figure = new_figure(7.6, 2.9)
    left, right = figure.subplots(1, 2)
    colours = ("#54278f", "#d95f02", "#1b9e77")
    for colour, (name, result) in zip(colours, results.items(), strict=False):
        rows = result["rows"]
        left.plot(rows[:, 0], rows[:, 4], "o-", color=colour, lw=1.3, ms=4, label=name)
        right.plot(rows[:, 0], 100 * rows[:, 6], "o-", color=colour, lw=1.3, ms=4, label=name)
    for axis in (left, right):
        axis.set_xticks([int(row[0]) for row in results["plain"]["rows"]])
    left.set(xlabel="members", ylabel="NLL on fresh points")
    right.set(xlabel="members", ylabel="blind directions, %", ylim=(0, 103))
    right.legend(frameon=False, fontsize=8)
    tidy(left, right)
    return figure
