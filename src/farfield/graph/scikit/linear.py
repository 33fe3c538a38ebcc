"""Linear classifiers: logistic regression, linear discriminants, and what has scores only."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from farfield.errors import NotFollowed
from farfield.graph.reading import Wire, Writer
from farfield.graph.scikit.foreign import dense
from farfield.graph.scikit.registry import ClassScores, Table, classifier, decision
from farfield.graph.scikit.softmax import NORMALISED

aten = torch.ops.aten
SCORES_ONLY = (
    "Perceptron",
    "RidgeClassifier",
    "RidgeClassifierCV",
    "LinearSVC",
    "PassiveAggressiveClassifier",
)


@decision(
    "LogisticRegression",
    "LogisticRegressionCV",
    "LinearDiscriminantAnalysis",
    "SGDClassifier",
    *SCORES_ONLY,
)
def linear_scores(writer: Writer, table: Table, model: Any) -> Wire:
    """``coef_ @ x + intercept_``: one number for two classes, else one for each."""
    weight = np.atleast_2d(dense(model.coef_))
    return writer.linear(table.value, weight, np.ravel(model.intercept_))


@classifier("LogisticRegression", "LogisticRegressionCV")
def _logistic(writer: Writer, table: Table, model: Any) -> ClassScores:
    scores = linear_scores(writer, table, model)
    scheme = _scheme(model)
    if scheme == "rest" and scores.width > 1:
        return _against_the_rest(writer, scores)
    if scheme == "multinomial" and scores.width == 1:
        # The two logits (-f, f): one logit of twice the size.
        return ClassScores(writer.scale(scores, [2.0]), "softmax")
    return ClassScores(scores, "softmax")


def _scheme(model: Any) -> str:
    """How probabilities of several classes are made: older versions have a choice."""
    stated = getattr(model, "multi_class", "deprecated")
    if stated in ("ovr", "multinomial"):
        return "rest" if stated == "ovr" else "multinomial"
    if len(model.classes_) > 2 and model.solver == "liblinear":
        return "rest"
    return "auto"


def _against_the_rest(writer: Writer, scores: Wire) -> ClassScores:
    """Sigmoids divided by their sum: the softmax of their logarithms."""
    return ClassScores(writer.step(aten.log_sigmoid.default, scores), "softmax")


@classifier("LinearDiscriminantAnalysis")
def _discriminant(writer: Writer, table: Table, model: Any) -> ClassScores:
    return ClassScores(linear_scores(writer, table, model), "softmax")


@classifier("SGDClassifier")
def _descent(writer: Writer, table: Table, model: Any) -> ClassScores:
    if model.loss not in ("log_loss", "modified_huber"):
        _without_probabilities(writer, table, model)
    scores = linear_scores(writer, table, model)
    if model.loss == "log_loss":
        if scores.width == 1:
            return ClassScores(scores, "softmax")
        return _against_the_rest(writer, scores)
    clipped = writer.step(aten.clamp.default, scores, -1.0, 1.0)
    if scores.width == 1:
        return ClassScores(writer.linear(clipped, [[-0.5], [0.5]], [0.5, 0.5]), "identity")
    shares = writer.shift(clipped, np.ones(scores.width))
    return ClassScores(writer.apply(shares, NORMALISED, scores.width), "identity")


@classifier("NearestCentroid")
def _nearest_centroid(writer: Writer, table: Table, model: Any) -> ClassScores:
    """Squared distances, whose squares of the row are the same for all classes."""
    if model.metric != "euclidean":
        raise NotFollowed(
            f"NearestCentroid has no probabilities with the metric {model.metric!r}; use "
            "'euclidean'.",
            advice="",
        )
    spread = np.where(model.within_class_std_dev_ == 0, 1.0, model.within_class_std_dev_)
    centres = dense(model.centroids_) / spread
    offsets = 2.0 * np.log(model.class_prior_) - (centres**2).sum(axis=1)
    return ClassScores(writer.linear(table.value, 2.0 * centres / spread, offsets), "softmax")


@classifier(*SCORES_ONLY)
def _without_probabilities(_: Writer, __: Table, model: Any) -> ClassScores:
    raise NotFollowed(
        f"{type(model).__name__} has no probabilities; calibrate it by CalibratedClassifierCV.",
        advice="",
    )
