"""Calibrated classifiers: curves on the scores of others, averaged over folds."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.errors import NotFollowed
from farfield.graph.reading import Wire, Writer
from farfield.graph.rules import Pieces, RowFunction
from farfield.graph.scikit.registry import (
    ClassScores,
    Table,
    classifier,
    classify,
    decide,
    decision,
    probabilities,
)
from farfield.graph.scikit.softmax import NORMALISED, NORMALISED_CURVES, SOFTMAX

aten = torch.ops.aten
# A line through two points loses digits where it is steep and they are far from zero.
STEEP = 1e6


class Interpolation(RowFunction):
    """A line through points, flat beyond the first and the last.

    Args:
        at: ``(points,)``, increasing.
        heights: ``(points,)``.
    """

    arrives = True
    continuous = True
    by_order = True

    def __init__(self, at: Any, heights: Any) -> None:
        self.at, self.heights = (np.array(each, dtype=np.float64) for each in (at, heights))

    def __call__(self, rows: Tensor) -> Tensor:
        """Evaluate."""
        values = np.interp(rows.detach().cpu().double().numpy(), self.at, self.heights)
        return torch.from_numpy(np.asarray(values)).to(rows)

    def limit(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """The end that it moves to."""
        ends = torch.where(slope > 0, float(self.heights[-1]), float(self.heights[0])).to(slope)
        return torch.where(slope == 0, self(intercept), ends)

    def settles(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Where it leaves the points behind."""
        ends = torch.where(slope > 0, float(self.at[-1]), float(self.at[0])).to(slope)
        crossing = ((ends - intercept) / slope).masked_fill(slope == 0, 0.0)
        return crossing.amax(dim=1).clamp(min=0.0)

    def pieces(self) -> Pieces | None:
        """The same as pieces, unless these would lose digits."""
        slopes = np.diff(self.heights) / np.diff(self.at)
        if not np.all(np.abs(slopes) * np.abs(self.at).max() < STEEP):
            return None
        intercepts = self.heights[:-1] - slopes * self.at[:-1]
        return Pieces(
            tuple(self.at.tolist()),
            (0.0, *slopes.tolist(), 0.0),
            (float(self.heights[0]), *intercepts.tolist(), float(self.heights[-1])),
        )


class Tempered(RowFunction):
    """The softmax of the logarithms of probabilities, times a number. Asked at rest alone."""

    continuous = True

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, rows: Tensor) -> Tensor:
        """Evaluate."""
        return torch.softmax(self.factor * torch.log(rows + 1e-12), dim=-1)


@decision("GradientBoostingClassifier", "HistGradientBoostingClassifier")
def _margins(writer: Writer, table: Table, model: Any) -> Wire:
    """What boosting adds up, as it is."""
    if model.loss != "log_loss":
        raise NotFollowed(f"decisions of boosting with the loss {model.loss!r} are not followed.")
    return classify(writer, table, model).value


@classifier("CalibratedClassifierCV")
def _calibrated(writer: Writer, table: Table, model: Any) -> ClassScores:
    """The mean over folds."""
    folds = [
        _fold(writer, table, fold, f"fold {number}")
        for number, fold in enumerate(model.calibrated_classifiers_)
    ]
    if len(folds) == 1:
        return ClassScores(folds[0], "identity")
    together = writer.concatenate(*folds)
    mean = np.tile(np.eye(folds[0].width), len(folds)) / len(folds)
    return ClassScores(writer.linear(together, mean), "identity")


def _fold(writer: Writer, table: Table, fold: Any, name: str) -> Wire:
    classes = len(fold.classes)
    if fold.method == "temperature":
        return _tempered(writer, table, fold, name)
    scores = _response(writer, table, fold, name)
    known = np.searchsorted(fold.classes, fold.estimator.classes_)
    if classes == 2:
        own = _curve(writer, scores, fold.calibrators[0])
        return writer.linear(own, [[-1.0], [1.0]], [1.0, 0.0])
    curves = [
        _curve(writer, writer.select(scores, [place]), calibrator)
        for place, calibrator in enumerate(fold.calibrators)
    ]
    values = writer.concatenate(*curves)
    if len(known) < classes:
        # A fold that never saw a class gives it nothing; of two that it saw, the first gets all.
        values = writer.linear(values, np.eye(classes)[:, known[: values.width]])
    shared = NORMALISED_CURVES if fold.method == "isotonic" else NORMALISED
    return writer.apply(values, shared, classes)


def _response(writer: Writer, table: Table, fold: Any, name: str) -> Wire:
    """What is calibrated: decisions if there are any, else probabilities, of the second of two."""
    inner = fold.estimator
    if hasattr(inner, "decision_function"):
        return decide(writer, table, inner, name)
    value = probabilities(writer, table, inner, name)
    return writer.select(value, [1]) if value.width == 2 else value


def _curve(writer: Writer, score: Wire, calibrator: Any) -> Wire:
    """One calibrator on one column."""
    kind = type(calibrator).__name__
    if kind == "_SigmoidCalibration":
        logit = writer.linear(score, [[-float(calibrator.a_)]], [-float(calibrator.b_)])
        return writer.step(aten.sigmoid.default, logit)
    if kind != "IsotonicRegression" or calibrator.out_of_bounds != "clip":
        raise NotFollowed(f"the calibrator {kind} is not followed; use sigmoid or isotonic.")
    at, heights = calibrator.X_thresholds_, calibrator.y_thresholds_
    if len(at) == 1:
        return writer.linear(score, [[0.0]], [float(heights[0])])
    curve = Interpolation(at, heights)
    pieces = curve.pieces()
    return writer.apply(score, curve, 1) if pieces is None else writer.bend(score, pieces)


def _tempered(writer: Writer, table: Table, fold: Any, name: str) -> Wire:
    """The softmax of all logits times one number."""
    factor = float(fold.calibrators[0].beta_)
    inner = fold.estimator
    if not hasattr(inner, "decision_function"):
        value = probabilities(writer, table, inner, name)
        return writer.apply(value, Tempered(factor), value.width)
    logits = decide(writer, table, inner, name)
    if logits.width == 1:
        logits = writer.linear(logits, [[-factor], [factor]])
    else:
        logits = writer.scale(logits, np.full(logits.width, factor))
    return writer.apply(logits, SOFTMAX, logits.width)
