"""Support vector machines with Platt's probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.errors import NotFollowed
from farfield.graph.radial import RadialSums
from farfield.graph.reading import Wire, Writer
from farfield.graph.scikit.coupling import PairwiseCoupling
from farfield.graph.scikit.foreign import dense
from farfield.graph.scikit.pairs import scores_of_pairs
from farfield.graph.scikit.registry import ClassScores, Table, classifier, decision

aten = torch.ops.aten
Floats = NDArray[np.float64]


@classifier("SVC", "NuSVC")
def _machine(writer: Writer, table: Table, model: Any) -> ClassScores:
    slopes, offsets = np.asarray(model.probA_), np.asarray(model.probB_)
    if model.probability in (False, "deprecated") or not len(slopes):
        raise NotFollowed(
            f"{type(model).__name__} has no probabilities; fit it with probability=True or "
            "calibrate it by CalibratedClassifierCV.",
            advice="",
        )
    pairs = _pairs(writer, table, model)
    coupling = PairwiseCoupling(slopes, offsets, len(model.classes_))
    return ClassScores(writer.apply(pairs, coupling, len(model.classes_)), "identity")


@decision("SVC", "NuSVC")
def _decide(writer: Writer, table: Table, model: Any) -> Wire:
    pairs = _pairs(writer, table, model)
    if len(model.classes_) == 2:
        return writer.scale(pairs, [-1.0])
    if model.decision_function_shape == "ovo":
        return pairs
    return scores_of_pairs(writer, pairs, len(model.classes_))


def _pairs(writer: Writer, table: Table, model: Any) -> Wire:
    """The decision values of all pairs of classes, in libsvm's order and with its signs."""
    weight, bias = _weights(model)
    vectors = dense(model.support_vectors_)
    gamma = float(model._gamma)
    if model.kernel == "linear":
        return writer.linear(table.value, _slopes(writer, weight, vectors), bias)
    if model.kernel == "rbf" and gamma > 0:
        return writer.apply(table.value, RadialSums(vectors, gamma, weight, bias), len(bias))
    if model.kernel == "sigmoid":
        inner = writer.linear(table.value, gamma * vectors, np.full(len(vectors), model.coef0))
        return writer.linear(writer.step(aten.tanh.default, inner), weight, bias)
    raise NotFollowed(
        f"{type(model).__name__} has the kernel {model.kernel!r}; known are linear, rbf and "
        "sigmoid."
    )


def _slopes(writer: Writer, weight: Floats, vectors: Floats) -> Floats:
    """``weight @ vectors``, zero where it cannot be told from zero.

    Weights of a pair add up to zero, so a column that is the same in all vectors cancels; what
    rounding leaves of it would decide at infinity, and nowhere that libsvm can look.
    """
    slopes = weight @ vectors
    doubt = len(vectors) * np.finfo(np.float64).eps * (np.abs(weight) @ np.abs(vectors))
    noise = (np.abs(slopes) <= doubt) & (slopes != 0.0)
    if noise.any():
        writer.notes.append(
            f"{int(noise.sum())} slopes of the support vector machine are zero up to rounding, and "
            "are taken for zero"
        )
    return np.where(noise, 0.0, slopes)


def _weights(model: Any) -> tuple[Floats, Floats]:
    """``(pairs, vectors)`` the weight of each support vector in each pair, and the offsets."""
    counts = np.asarray(model._n_support)
    starts = np.concatenate([[0], np.cumsum(counts)])
    dual = dense(model._dual_coef_)
    classes = len(counts)
    weights = []
    for first in range(classes):
        for second in range(first + 1, classes):
            row = np.zeros(dual.shape[1])
            for own, other in ((first, second - 1), (second, first)):
                place = slice(starts[own], starts[own + 1])
                row[place] = dual[other, place]
            weights.append(row)
    return np.array(weights), np.asarray(model._intercept_, dtype=np.float64)
