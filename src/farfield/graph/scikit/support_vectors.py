"""Support vector machines with Platt's probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import NotFollowed
from farfield.graph.reading import Value, Writer
from farfield.graph.rules import RowFunction
from farfield.graph.scikit.coupling import PairwiseCoupling
from farfield.graph.scikit.registry import Scores, Table, classifier, decision

aten = torch.ops.aten
Floats = NDArray[np.float64]


class GaussianSums(RowFunction):
    """``weight @ exp(-gamma |x - centre|^2) + bias``: the bias alone, far from all centres.

    Args:
        centres: ``(centres, columns)``.
        gamma: More than zero.
        weight: ``(outputs, centres)``.
        bias: ``(outputs,)``.
        scale: ``(columns,)`` the unit of distance along each column.
    """

    def __init__(self, centres: Any, gamma: float, weight: Any, bias: Any, scale: Any = 1.0):
        self.scale = torch.from_numpy(np.array(scale, dtype=np.float64))
        self.centres, self.weight, self.bias = (
            torch.from_numpy(np.array(each, dtype=np.float64)) for each in (centres, weight, bias)
        )
        self.gamma = float(gamma)

    def __call__(self, rows: Tensor) -> Tensor:
        """Evaluate."""
        apart = torch.cdist(
            rows.double() / self.scale,
            self.centres / self.scale,
            compute_mode="donot_use_mm_for_euclid_dist",
        )
        kernel = torch.exp(-self.gamma * apart.square())
        return (kernel @ self.weight.T + self.bias).to(rows)

    def limit(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Every kernel vanishes as soon as one column moves."""
        return self.bias.to(slope).expand(len(slope), -1)


@classifier("SVC", "NuSVC")
def _machine(writer: Writer, table: Table, model: Any) -> Scores:
    slopes, offsets = np.asarray(model.probA_), np.asarray(model.probB_)
    if model.probability in (False, "deprecated") or not len(slopes):
        raise NotFollowed(
            f"{type(model).__name__} has no probabilities; fit it with probability=True or calibrate "
            "it by CalibratedClassifierCV.",
            advice="",
        )
    pairs = _pairs(writer, table, model)
    coupling = PairwiseCoupling(slopes, offsets, len(model.classes_))
    return Scores(writer.apply(pairs, coupling, len(model.classes_)), "identity")


@decision("SVC", "NuSVC")
def _decide(writer: Writer, table: Table, model: Any) -> Value:
    pairs = _pairs(writer, table, model)
    if len(model.classes_) == 2:
        return writer.scale(pairs, [-1.0])
    if model.decision_function_shape == "ovo":
        return pairs
    raise NotFollowed(
        "the votes of SVC(decision_function_shape='ovr') are not followed; use 'ovo' or "
        "LinearSVC."
    )


def _pairs(writer: Writer, table: Table, model: Any) -> Value:
    """The decision values of all pairs of classes, in libsvm's order and with its signs."""
    weight, bias = _weights(model)
    vectors = model.support_vectors_
    vectors = vectors.toarray() if hasattr(vectors, "toarray") else np.asarray(vectors)
    gamma = float(model._gamma)
    if model.kernel == "linear":
        return writer.linear(table.value, weight @ vectors, bias)
    if model.kernel == "rbf" and gamma > 0:
        return writer.apply(table.value, GaussianSums(vectors, gamma, weight, bias), len(bias))
    if model.kernel == "sigmoid":
        inner = writer.linear(table.value, gamma * vectors, np.full(len(vectors), model.coef0))
        return writer.linear(writer.step(aten.tanh.default, inner), weight, bias)
    raise NotFollowed(
        f"{type(model).__name__} has the kernel {model.kernel!r}; known are linear, rbf and "
        "sigmoid."
    )


def _weights(model: Any) -> tuple[Floats, Floats]:
    """``(pairs, vectors)`` the weight of each support vector in each pair, and the offsets."""
    counts = np.asarray(model._n_support)
    starts = np.concatenate([[0], np.cumsum(counts)])
    dual = model._dual_coef_
    dual = dual.toarray() if hasattr(dual, "toarray") else np.asarray(dual)
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
