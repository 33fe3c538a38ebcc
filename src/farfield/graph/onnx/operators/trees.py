"""Ensembles of decision trees.

The specification leaves open what two classes with one column of weights, or with base values,
mean; what is read here is what onnxruntime does, and where it does something that nobody can have
meant, the file is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from farfield.errors import CaptureError
from farfield.graph.onnx.node import LEARNED, Node, operator
from farfield.graph.onnx.trace import Data, ProgramBuilder, Refusal
from farfield.graph.onnx.tree_layouts import (
    Damaged,
    Floats,
    Layout,
    floats,
    read_listed,
    read_rooted,
)
from farfield.graph.onnx.tree_splits import Splits, build, gives_shares
from farfield.graph.stepwise import apply_row, take_steps
from farfield.graph.trees.traverse import pack

aten = torch.ops.aten
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


def _says_where(read: Callable[[ProgramBuilder, Node], Any]) -> Callable[..., Any]:
    """Turn what is wrong with a file's trees into one line that names the node."""

    def reading(trace: ProgramBuilder, node: Node) -> Any:
        try:
            return read(trace, node)
        except Damaged as error:
            raise CaptureError(f"{trace.source} {error}; the file is damaged") from error
        except CaptureError as error:
            raise CaptureError(f"{trace.source}: {error}; the file is damaged") from error

    return reading


@operator("TreeEnsembleClassifier", domain=LEARNED)
@_says_where
def classifier(trace: ProgramBuilder, node: Node) -> Any:
    """Scores of the classes, or probabilities."""
    classes = max(len(node.attributes.get(f"classlabels_{k}", [])) for k in ("int64s", "strings"))
    if classes < 2:
        raise Refusal(f"has {classes} classes")
    layout = read_listed(node, "class")
    base = _base(node)
    form = node.text("post_transform", "NONE")
    used = set(layout.target.tolist())
    if not used <= set(range(classes)):
        raise Damaged(f"has weights for other outputs than its {classes}")
    if classes > 2:
        if len(base) not in (0, classes):
            raise Refusal(f"has {len(base)} base values for {classes} classes")
        scores = _sum(trace, node, layout, base if len(base) else np.zeros(classes))
    elif len(used) == 1:
        return None, _two_classes(trace, node, layout, base, form)
    else:
        if len(base) or not layout.always(1):
            raise Refusal("has two columns of scores of which one may be absent, or base values")
        scores = _sum(trace, node, layout, np.zeros(2))
    return None, _transformed(trace, scores, form)


def _two_classes(
    trace: ProgramBuilder, node: Node, layout: Layout, base: Floats, form: str
) -> Data:
    """The scores of two classes that share one column of weights."""
    first = bool((layout.target == 0).all())
    if len(base) > int(first):
        raise Refusal(f"has {len(base)} base values for one column of weights")
    one = replace(layout, target=np.zeros_like(layout.target))
    score = _sum(trace, node, one, base if len(base) else np.zeros(1))
    if not first:
        both = trace.emit(aten.cat.default, [trace.emit(aten.mul.Tensor, score, 0.0), score], 1)
        if form == "LOGISTIC":
            raise Refusal("gives the sigmoid of its second class and a half for the first")
        return _transformed(trace, both, form)
    if form == "LOGISTIC":
        score = trace.emit(aten.sigmoid.default, score)
    elif form != "NONE":
        raise Refusal(f"turns one column of scores into probabilities by {form}")
    if form == "LOGISTIC" or bool((layout.weight >= 0).all()):
        other = trace.emit(aten.rsub.Scalar, score, 1.0)
    else:
        other = trace.emit(aten.neg.default, score)
    return trace.emit(aten.cat.default, [other, score], 1)


@operator("TreeEnsembleRegressor", domain=LEARNED)
@_says_where
def regressor(trace: ProgramBuilder, node: Node) -> Any:
    """The sum or the mean of the leaves."""
    targets = node.whole("n_targets", 1)
    layout = read_listed(node, "target")
    base = _base(node)
    if targets < 1 or len(base) not in (0, targets):
        raise Refusal(f"has {len(base)} base values for {targets} targets")
    scale = _scale(node.text("aggregate_function", "SUM"), layout)
    if targets > 1 and len(base) and not all(map(layout.always, range(targets))):
        raise Refusal("has base values that count only for rows whose leaves name the target")
    trace.spend(0, 8 * targets)
    scores = _sum(trace, node, layout, base if len(base) else np.zeros(targets), scale)
    return _transformed(trace, scores, node.text("post_transform", "NONE"))


@operator("TreeEnsemble", domain=LEARNED)
@_says_where
def ensemble(trace: ProgramBuilder, node: Node) -> Any:
    """The sum or the mean of the leaves, from version 5 on."""
    targets = node.whole("n_targets", 1)
    layout = read_rooted(node)
    number = node.whole("aggregate_function", 1)
    scale = _scale(AGGREGATES[number] if 0 <= number < 4 else str(number), layout)
    if targets < 1:
        raise Refusal(f"has {targets} targets")
    trace.spend(0, 8 * targets)
    scores = _sum(trace, node, layout, np.zeros(targets), scale)
    if node.whole("post_transform", 0) != 0:
        # The specification counts SOFTMAX before LOGISTIC; onnxruntime counts them the other way.
        raise Refusal(
            "has a post_transform, which onnxruntime reads otherwise than it is specified"
        )
    return scores


def _base(node: Node) -> Floats:
    has = any(name.startswith("base_values") for name in node.attributes)
    base = floats(node, "base_values") if has else np.zeros(0)
    if not np.isfinite(base).all():
        raise Damaged("has base values that are not finite")
    return base


def _scale(name: str, layout: Layout) -> float:
    """What every weight is multiplied by."""
    if name not in ("SUM", "AVERAGE"):
        raise Refusal(f"takes the {name} over trees, not their sum")
    return 1.0 if name == "SUM" else 1.0 / (len(layout.starts) - 1)


def _sum(
    trace: ProgramBuilder, node: Node, layout: Layout, base: Floats, scale: float = 1.0
) -> Data:
    """Write the sum over trees, ``(rows, outputs)``."""
    value = node.data()
    if len(value.shape) != 2:
        raise Refusal(f"is applied to an array of {len(value.shape)} dimensions")
    nodes = len(layout.mode)
    # The file holds every node: what they may take grows with them.
    trace.allow(8 * (nodes + len(layout.weight)))
    trace.spend(nodes, 8 * nodes * (8 + len(base)))
    splits = Splits(value.shape[1], value.single)
    found = build(layout, splits, base, scale)
    equal = splits.equalities()
    if equal is not None:
        beside = trace.write(take_steps, value, equal, width=len(equal))
        value = trace.emit(aten.cat.default, [value, beside], 1)
    steps, packed = pack(found)
    packed = replace(packed, shares=gives_shares(layout, base, scale))
    codes = trace.write(take_steps, value, steps, width=len(steps))
    return trace.write(apply_row, codes, packed, width=len(base))


def _transformed(trace: ProgramBuilder, scores: Data, form: str) -> Data:
    """Scores as they are, or their softmax."""
    if form == "NONE":
        return scores
    if form != "SOFTMAX" or scores.shape[1] < 2:
        raise Refusal(f"turns {scores.shape[1]} scores into probabilities by {form}")
    return trace.emit(aten.softmax.int, scores, 1)
