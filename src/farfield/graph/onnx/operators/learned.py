"""Operators of ``ai.onnx.ml``, as scikit-learn's converter writes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from farfield.graph.heads import is_distribution
from farfield.graph.onnx.node import LEARNED, Node, operator
from farfield.graph.onnx.operators.arithmetic import divide
from farfield.graph.onnx.operators.selecting import join, pick
from farfield.graph.onnx.trace import Known, ProgramBuilder, Refusal, plain
from farfield.graph.rules import Pieces
from farfield.graph.stepwise import bend

aten = torch.ops.aten
ORDERS = {"L1": 1, "L2": 2}


@operator("Scaler", domain=LEARNED)
def scaler(trace: ProgramBuilder, node: Node) -> Any:
    """``(x - offset) * scale`` per feature."""
    value: Any = replace(node.data(), single=True)
    for name, target in (("offset", aten.sub.Tensor), ("scale", aten.mul.Tensor)):
        numbers = node.numbers(name)
        if len(numbers) == 1:
            value = trace.apply(target, value, numbers[0])
        elif numbers:
            if len(numbers) != value.shape[-1]:
                raise Refusal(f"has {len(numbers)} numbers for {value.shape[-1]} features")
            value = trace.apply(target, value, Known(_row(numbers)))
    return value


@operator("Imputer", domain=LEARNED)
def imputer(_: ProgramBuilder, node: Node) -> Any:
    """Unchanged: every number is there."""
    replaced = node.attributes.get("replaced_value_float", float("nan"))
    if replaced == replaced or "imputed_value_floats" not in node.attributes:
        raise Refusal(f"replaces the number {replaced}, which is not piecewise affine")
    return node[0]


@operator("ArrayFeatureExtractor", domain=LEARNED)
def extract(trace: ProgramBuilder, node: Node) -> Any:
    """Some of the features."""
    positions = [int(item) for item in plain(node[1], "positions")]
    return pick(trace, node[0], len(node[0].shape) - 1, positions)


@operator("FeatureVectorizer", domain=LEARNED)
def vectorize(trace: ProgramBuilder, node: Node) -> Any:
    """Several groups of features side by side."""
    return join(trace, node.all(), 1)


@operator("Normalizer", domain=LEARNED)
def normalizer(trace: ProgramBuilder, node: Node) -> Any:
    """Every row by its norm; unchanged if it is a distribution, as behind a linear classifier."""
    value, norm = node.data(), node.text("norm", "MAX")
    if norm == "L1" and is_distribution(trace.program(value), trace.constants):
        return value
    if norm not in ORDERS or len(value.shape) != 2:
        raise Refusal(f"divides each row by its {norm} norm; L1 and L2 are read")
    size = trace.apply(aten.linalg_vector_norm.default, value, ORDERS[norm], [1], True)
    # A row of zeros stays as it is.
    divisor = trace.apply(bend, size, Pieces((0.0,), (0.0, 1.0), (1.0, 0.0)))
    return divide(trace, value, divisor)


@operator("LinearClassifier", domain=LEARNED)
def linear_classifier(trace: ProgramBuilder, node: Node) -> Any:
    """Linear scores, then softmax or, for two classes, a sigmoid."""
    value = node.data()
    weights, offsets = node.numbers("coefficients"), node.numbers("intercepts")
    features = value.shape[-1]
    count = len(weights) // max(features, 1)
    if len(value.shape) != 2 or count < 1 or count * features != len(weights):
        raise Refusal(f"has {len(weights)} coefficients for {features} features")
    if offsets and len(offsets) != count:
        raise Refusal(f"has {len(offsets)} intercepts for {count} rows of coefficients")
    weight, offset = _row(weights).reshape(count, features), _row(offsets or [0.0] * count)
    form = node.text("post_transform", "NONE")
    if form == "LOGISTIC":
        if count == 2 and torch.equal(weight[0], -weight[1]) and bool(offset[0] == -offset[1]):
            weight, offset, count = weight[1:], offset[1:], 1
        if count != 1:
            raise Refusal(f"ends in {count} independent sigmoids")
    elif form not in ("NONE", "SOFTMAX") or count < 2:
        raise Refusal(f"turns {count} scores into probabilities by {form}")
    scores = trace.emit(aten.linear.default, value, Known(weight), Known(offset))
    if form == "SOFTMAX":
        scores = trace.emit(aten.softmax.int, scores, 1)
    elif form == "LOGISTIC":
        scores = trace.emit(aten.sigmoid.default, scores)
        rest = trace.emit(aten.rsub.Scalar, scores, 1.0)
        scores = trace.emit(aten.cat.default, [rest, scores], 1)
    return None, scores


def _row(numbers: list[float]) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)
