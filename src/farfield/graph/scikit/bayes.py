"""Naive Bayes on counts and categories, and the prior alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import NotFollowed
from farfield.graph.reading import Wire, Writer
from farfield.graph.rules import Steps
from farfield.graph.scikit.encoders import encode
from farfield.graph.scikit.registry import ClassScores, Table, classifier
from farfield.graph.scikit.sources import SourceColumn

Floats = NDArray[np.float64]


@classifier("MultinomialNB")
def _multinomial(writer: Writer, table: Table, model: Any) -> ClassScores:
    logits = writer.linear(table.value, model.feature_log_prob_, model.class_log_prior_)
    return ClassScores(logits, "softmax")


@classifier("ComplementNB")
def _complement(writer: Writer, table: Table, model: Any) -> ClassScores:
    return ClassScores(writer.linear(table.value, model.feature_log_prob_), "softmax")


@classifier("BernoulliNB")
def _bernoulli(writer: Writer, table: Table, model: Any) -> ClassScores:
    """Linear in what is above the threshold."""
    value: Wire = table.value
    if model.binarize is not None:
        steps = [
            (place, [float(model.binarize)], [0.0, 1.0], np.nan) for place in range(value.width)
        ]
        value = writer.take_steps(value, Steps.of(steps))
    absent = np.log(1 - np.exp(model.feature_log_prob_))
    bias = model.class_log_prior_ + absent.sum(axis=1)
    return ClassScores(writer.linear(value, model.feature_log_prob_ - absent, bias), "softmax")


@classifier("CategoricalNB")
def _categorical(writer: Writer, table: Table, model: Any) -> ClassScores:
    """A table of logarithms for each column, whose values are whole numbers from zero on."""
    outputs: list[Any] = []
    for place, logs in enumerate(model.feature_log_prob_):
        heights = np.asarray(logs, dtype=np.float64).T
        unknown = np.full(heights.shape[1], np.nan)
        column = table.columns[place]
        if isinstance(column, SourceColumn) and not column.use.numbers:
            outputs += encode(table, place, range(len(heights)), heights, unknown, closed=True)
        else:
            outputs += _truncated(place, np.stack([unknown, *heights, unknown]))
    parts = writer.take_steps(table.held, Steps.of(outputs))
    classes = len(model.classes_)
    sums = np.tile(np.eye(classes), table.width)
    return ClassScores(writer.linear(parts, sums, model.class_log_prior_), "softmax")


def _truncated(place: int, heights: Floats) -> list[Any]:
    """Steps on numbers, whose digits behind the point scikit-learn drops.

    Args:
        place: The column.
        heights: ``(categories + 2, outputs)``; below the first and beyond the last there are none.
    """
    ends = np.nextafter(np.arange(1.0, len(heights) - 1), 0.0)
    return [(place, [-1.0, *ends], each, np.nan) for each in heights.T]


@classifier("DummyClassifier")
def _dummy(writer: Writer, table: Table, model: Any) -> ClassScores:
    if model.strategy == "stratified":
        raise NotFollowed("DummyClassifier(strategy='stratified') draws its answers at random.")
    shares = np.asarray(model.class_prior_, dtype=np.float64)
    if model.strategy == "uniform":
        shares = np.full(len(shares), 1.0 / len(shares))
    elif model.strategy == "most_frequent":
        shares = np.eye(len(shares))[shares.argmax()]
    elif model.strategy == "constant":
        shares = (np.asarray(model.classes_) == model.constant).astype(np.float64)
    same: list[tuple[int, list[float], list[float], float]] = [
        (0, [], [share], share) for share in shares.tolist()
    ]
    return ClassScores(writer.take_steps(table.held, Steps.of(same)), "identity")
