"""Positions of largest values, values in order, sums of all before; picking by positions."""

from __future__ import annotations

from typing import Any

import torch

from farfield.graph.onnx.node import Node, operator
from farfield.graph.onnx.operators.arithmetic import choice, operand
from farfield.graph.onnx.operators.selecting import is_each, place
from farfield.graph.onnx.trace import ROWS, Data, Known, ProgramBuilder, Refusal, Value, plain
from farfield.graph.positions import (
    MOST_COMPARED,
    MOST_PLACES,
    place_of_largest,
    places_in_order,
    put_at,
    take_at,
)
from farfield.graph.refusals import MOVES

aten = torch.ops.aten
# What it takes to put one of many values in order.
PER_VALUE = 2**12


@operator("ArgMax", "ArgMin")
def largest_place(trace: ProgramBuilder, node: Node) -> Any:
    """The position of the first largest or smallest value."""
    value = node.data()
    axis = place(node.whole("axis", 0), value)
    if value.shape[axis] == ROWS:
        raise Refusal(f"{MOVES}: it compares them")
    if node.whole("select_last_index", 0):
        raise Refusal("takes the last of several largest values")
    sign = 1 if node.operator == "ArgMax" else -1
    return trace.emit(place_of_largest, value, axis, bool(node.whole("keepdims", 1)), sign)


def _along(node: Node) -> tuple[Value, int, Value]:
    """What is picked from or put into, along which dimension, and where."""
    value, index = node[0], node[1]
    axis = place(node.whole("axis", 0), value)
    if len(index.shape) != len(value.shape):
        raise Refusal(f"has positions of {len(index.shape)} dimensions for {len(value.shape)}")
    if isinstance(index, Known) and isinstance(value, Data) and value.shape[0] == ROWS:
        raise Refusal(f"{MOVES}: its positions are for a number of rows")
    if value.shape[axis] > MOST_PLACES or value.shape[axis] == ROWS:
        raise Refusal(f"looks up one of {value.shape[axis]} places")
    return value, axis, index


@operator("GatherElements")
def gather_elements(trace: ProgramBuilder, node: Node) -> Any:
    """Values at positions of their own."""
    value, axis, index = _along(node)
    if isinstance(value, Known) and isinstance(index, Known):
        raise Refusal("picks constants")
    return trace.emit(take_at, value, axis, _numbers(index))


@operator("ScatterElements")
def scatter_elements(trace: ProgramBuilder, node: Node) -> Any:
    """Values put at positions of their own."""
    value, axis, index = _along(node)
    if node.text("reduction", "none") != "none":
        raise Refusal(f"puts values by {node.text('reduction', '')!r}")
    return trace.emit(put_at, operand(value), axis, _numbers(index), operand(node[2]))


def _numbers(index: Value) -> Value:
    """Positions as numbers, counted from the front."""
    if isinstance(index, Known) and bool((index.tensor < 0).any()):
        raise Refusal("counts positions from the end")
    return operand(index)


@operator("OneHot")
def one_hot(trace: ProgramBuilder, node: Node) -> Any:
    """One number at a position, another everywhere else."""
    index, count = node.data(), plain(node[1], "depth")
    levels = plain(node[2], "values")
    rank = len(index.shape)
    axis = node.whole("axis", -1)
    if len(count) != 1 or len(levels) != 2 or axis not in (-1, rank):
        raise Refusal(f"makes {count} columns of {levels} along dimension {axis}")
    codes = trace.code(index) if trace.is_column(index) else index
    mask = is_each(trace, codes, int(count[0]))
    off, on = (Known(torch.tensor(float(each), dtype=torch.float64)) for each in levels)
    return choice(trace, mask, on, off)


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
