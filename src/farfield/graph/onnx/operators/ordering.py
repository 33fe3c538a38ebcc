"""Values in order, sums of all before, and triangles."""

from __future__ import annotations

from typing import Any

import torch

from farfield.graph.onnx.node import Node, operator
from farfield.graph.onnx.operators.selecting import place
from farfield.graph.onnx.trace import ROWS, Known, ProgramBuilder, Refusal, Value, plain
from farfield.graph.positions import MOST_COMPARED, places_in_order

aten = torch.ops.aten
# What it takes to put one of many values in order.
PER_VALUE = 2**12


@operator("TopK")
def top(trace: ProgramBuilder, node: Node) -> Any:
    """The largest or smallest values in order, and their positions."""
    value = node.data()
    counts = node.integers("k", 1) or []
    axis = place(node.whole("axis", -1), value)
    length = value.shape[axis]
    if len(counts) != 1 or not 1 <= counts[0] <= length or length == ROWS:
        raise Refusal(f"takes {counts} of a dimension of length {length}")
    if not node.whole("sorted", 1):
        raise Refusal("leaves the order of the values open")
    trace.spend(PER_VALUE * length)
    largest = bool(node.whole("largest", 1))
    values = trace.first(aten.topk.default, value, counts[0], axis, largest, True)
    if node.outputs < 2 or length > MOST_COMPARED:
        return values, None
    return values, trace.emit(places_in_order, value, counts[0], axis, 1 if largest else -1)


@operator("CumSum")
def running_sum(trace: ProgramBuilder, node: Node) -> Any:
    """Sums of all values so far, from either end, with the last one or without."""
    value = node[0]
    axis = place(int(plain(node[1], "axis")[0]), value)
    if value.shape[axis] == ROWS:
        raise Refusal("adds the rows of the batch up")
    turned = bool(node.whole("reverse", 0))
    inner: Value = trace.apply(aten.flip.default, value, [axis]) if turned else value
    total: Value = trace.apply(aten.cumsum.default, inner, axis)
    if node.whole("exclusive", 0):
        total = trace.apply(aten.sub.Tensor, total, inner)
    return trace.apply(aten.flip.default, total, [axis]) if turned else total


@operator("Trilu")
def triangle(trace: ProgramBuilder, node: Node) -> Any:
    """The values on one side of a diagonal, zeros on the other."""
    value = node[0]
    if len(value.shape) < 2 or ROWS in value.shape[-2:]:
        raise Refusal("cuts the rows of the batch")
    given = node.optional(1)
    diagonal = 0 if given is None else int(plain(given, "diagonal")[0])
    cut = torch.triu if node.whole("upper", 1) else torch.tril
    trace.spend(value.shape[-1] * value.shape[-2])
    kept = cut(torch.ones(value.shape[-2:], dtype=torch.float64), diagonal)
    return trace.apply(aten.mul.Tensor, value, Known(kept))
