"""Picking and placing: some of the values, values of several, values with others around them."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from farfield.graph.onnx.node import Node, as_float, operator
from farfield.graph.onnx.operators.arithmetic import operand
from farfield.graph.onnx.operators.padding import last_first
from farfield.graph.onnx.trace import ROWS, Data, Known, ProgramBuilder, Refusal, Value, plain

aten = torch.ops.aten
FAR = 2**62
EDGE = (
    aten.replication_pad1d.default,
    aten.replication_pad2d.default,
    aten.replication_pad3d.default,
)
MIRROR = (
    aten.reflection_pad1d.default,
    aten.reflection_pad2d.default,
    aten.reflection_pad3d.default,
)


def place(axis: int, value: Value) -> int:
    """An axis counted from the front."""
    rank = len(value.shape)
    if not -rank <= axis < rank:
        raise Refusal(f"names dimension {axis} of {rank}")
    return axis % rank


def pick(trace: ProgramBuilder, value: Value, axis: int, positions: list[int]) -> Any:
    """The values at some positions along an axis."""
    length = value.shape[axis]
    if any(not -length <= position < length for position in positions):
        raise Refusal(f"picks positions outside a dimension of length {length}")
    if length == ROWS:
        raise Refusal("picks rows of the batch")
    index = torch.tensor([position % length for position in positions], dtype=torch.int64)
    return trace.apply(aten.index_select.default, value, axis, Known(index))


def looked_up(trace: ProgramBuilder, table: Value, axis: int, positions: Data) -> Any:
    """Rows of a table of constants: a product with a row of zeros and a one."""
    if isinstance(table, Data) or axis or table.tensor.ndim != 2:
        raise Refusal("looks values up by the input")
    rows = as_float(table)
    codes = trace.code(positions) if trace.is_column(positions) else positions
    mask = is_each(trace, codes, rows.shape[0])
    numbers = trace.emit(aten._to_copy.default, mask, dtype=torch.float64)
    return trace.emit(aten.linear.default, numbers, trace.apply(aten.t.default, rows))


def is_each(trace: ProgramBuilder, positions: Data, count: int) -> Data:
    """Whether a position is 0, 1, 2 and so on, along a new last dimension."""
    trace.spend(count, 8 * count)
    column = trace.emit(aten.unsqueeze.default, positions, -1)
    return trace.emit(aten.eq.Tensor, column, Known(torch.arange(count, dtype=torch.float64)))


@operator("Gather")
def gather(trace: ProgramBuilder, node: Node) -> Any:
    """Values at constant positions, and rows of a table by what depends on the input."""
    value, positions = node[0], node[1]
    axis = place(node.whole("axis", 0), value)
    if isinstance(positions, Data):
        return looked_up(trace, value, axis, positions)
    if positions.tensor.ndim == 0 and value.shape[axis] != ROWS:
        return trace.apply(aten.select.int, value, axis, plain(positions, "positions")[0])
    picked = pick(trace, value, axis, plain(positions, "positions"))
    shape = [*value.shape[:axis], *positions.shape, *value.shape[axis + 1 :]]
    return picked if positions.tensor.ndim == 1 else trace.view(picked, shape)


@operator("Slice")
def cut(trace: ProgramBuilder, node: Node) -> Any:
    """Evenly spaced values along some dimensions."""
    value = node[0]
    starts, ends = node.integers("starts", 1) or [], node.integers("ends", 2) or []
    axes = node.integers("axes", 3) or list(range(len(starts)))
    steps = node.integers("steps", 4) or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise Refusal(f"cuts {axes} from {starts} to {ends} by {steps}")
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = place(axis, value)
        length = value.shape[at]
        if length == ROWS:
            if (start, step) == (0, 1) and end >= 2**31 - 1:
                continue
            raise Refusal("cuts the rows of the batch")
        if step > 0:
            value = trace.apply(aten.slice.Tensor, value, at, start, min(end, FAR), step)
        else:
            positions = range(length)[slice(start, None if end < -length else end, step)]
            value = pick(trace, value, at, list(positions))
    return value


@operator("Split")
def split(trace: ProgramBuilder, node: Node) -> Any:
    """Consecutive parts."""
    value = node[0]
    axis = place(node.whole("axis", 0), value)
    length = value.shape[axis]
    sizes = node.integers("split", 1)
    if sizes is None:
        count = node.whole("num_outputs", node.outputs)
        part = -(-length // count) if count > 0 else 0
        sizes = [min(part, length - start) for start in range(0, length, part)] if part else []
    if sum(sizes) != length or min(sizes, default=-1) < 0 or length == ROWS:
        raise Refusal(f"splits a dimension of length {length} into {sizes}")
    ends = list(itertools.accumulate(sizes))
    return tuple(
        trace.apply(aten.slice.Tensor, value, axis, end - size, end)
        for end, size in zip(ends, sizes, strict=True)
    )


@operator("Concat")
def concat(trace: ProgramBuilder, node: Node) -> Any:
    """Several values one after another; constants may be among them."""
    return join(trace, node.all(), node.whole("axis", 1))


def join(trace: ProgramBuilder, values: list[Value], axis: int) -> Any:
    """Put values together along an axis; constants are repeated for every row."""
    if not any(isinstance(value, Data) for value in values):
        return trace.apply(aten.cat.default, values, axis)
    axis = place(axis, values[0])
    if axis > 0:
        values = [
            trace.expand(value, [trace.batch, *value.shape[1:]])
            if value.shape[:1] == (1,)
            else value
            for value in map(operand, values)
        ]
    return trace.emit(aten.cat.default, values, axis)


@operator("Pad")
def pad(trace: ProgramBuilder, node: Node) -> Any:
    """Values with others around them: a constant, the edge, a mirror image, the other end."""
    value = node[0]
    rank = len(value.shape)
    pads = node.integers("pads", 1) or []
    axes = node.integers("axes", 3)
    places = list(range(rank)) if axes is None else [place(axis, value) for axis in axes]
    if len(pads) != 2 * len(places):
        raise Refusal(f"has {len(pads)} pads for {len(places)} dimensions")
    sides = [(0, 0)] * rank
    for at, before, after in zip(places, pads[: len(places)], pads[len(places) :], strict=True):
        sides[at] = (before, after)
    if isinstance(value, Data) and sides[0] != (0, 0):
        raise Refusal("adds rows to the batch")
    mode = node.text("mode", "constant")
    if mode == "constant":
        return trace.apply(aten.constant_pad_nd.default, value, last_first(sides), _fill(node))
    if mode == "wrap":
        return _wrapped(trace, value, sides)
    if mode not in ("edge", "reflect"):
        raise Refusal(f"pads by the mode {mode!r}")
    dims = rank - 2
    if not 1 <= dims <= 3 or sides[1] != (0, 0):
        raise Refusal(f"pads {rank} dimensions by {sides} in the mode {mode!r}")
    target = (EDGE if mode == "edge" else MIRROR)[dims - 1]
    return trace.apply(target, value, last_first(sides[2:]))


def _wrapped(trace: ProgramBuilder, value: Value, sides: list[tuple[int, int]]) -> Value:
    """Values with those of the other end around them."""
    for axis, (before, after) in enumerate(sides):
        length = value.shape[axis]
        if (before, after) == (0, 0):
            continue
        if min(before, after) < 0 or length == 0:
            raise Refusal(f"pads a dimension of length {length} by {before} and {after}")
        trace.spend(before + after + length)
        places = [position % length for position in range(-before, length + after)]
        value = pick(trace, value, axis, places)
    return value


def _fill(node: Node) -> float:
    given = node.optional(2)
    if given is None:
        fill = node.attributes.get("value", 0.0)
        return float("-inf") if fill == float("-inf") else node.number("value", 0.0)
    numbers = plain(given, "padding values")
    fill = float(numbers[0]) if len(numbers) == 1 else float("nan")
    if not fill < float("inf"):
        raise Refusal("pads with something that is not one number below infinity")
    return fill


@operator("DepthToSpace", "SpaceToDepth")
def rearrange(trace: ProgramBuilder, node: Node) -> Any:
    """Between channels and places."""
    value = node[0]
    block = node.whole("blocksize", 0)
    if len(value.shape) != 4 or block < 1:
        raise Refusal(f"rearranges {len(value.shape)} dimensions by blocks of {block}")
    rows, channels, height, width = value.shape
    if node.operator == "SpaceToDepth":
        shape = [rows, channels, height // block, block, width // block, block]
        order = [0, 3, 5, 1, 2, 4]
        final = [rows, channels * block**2, height // block, width // block]
    else:
        small = channels // block**2
        deep = node.text("mode", "DCR") == "DCR"
        front = [block, block, small] if deep else [small, block, block]
        shape = [rows, *front, height, width]
        order = [0, 3, 4, 1, 5, 2] if deep else [0, 1, 4, 2, 5, 3]
        final = [rows, small, height * block, width * block]
    moved = trace.apply(aten.permute.default, trace.view(value, shape), order)
    return trace.view(moved, final)
