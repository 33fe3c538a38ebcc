"""Positions of largest values, and picking and putting by positions, constant or not."""

from __future__ import annotations

from typing import Any

import torch

from farfield.graph.onnx.node import Node, operator
from farfield.graph.onnx.operators.arithmetic import choice
from farfield.graph.onnx.operators.selecting import is_each, place
from farfield.graph.onnx.trace import ROWS, Data, Known, ProgramBuilder, Refusal, Value, plain
from farfield.graph.positions import MOST_PLACES, place_of_largest, put_at, take_at
from farfield.graph.refusals import MOVES

aten = torch.ops.aten


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
    return trace.emit(put_at, _floats(value), axis, _numbers(index), _floats(node[2]))


def _numbers(index: Value) -> Value:
    """Positions as numbers, counted from the front."""
    if isinstance(index, Known) and bool((index.tensor < 0).any()):
        raise Refusal("counts positions from the end")
    return _floats(index)


def _floats(value: Value) -> Value:
    return Known(value.tensor.double()) if isinstance(value, Known) else value


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
