"""Shapes and shape chains: the same values in another shape, and constants that exporters write."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from farfield.graph.onnx.node import Node, as_float, operator
from farfield.graph.onnx.trace import (
    MOST_ELEMENTS,
    ROWS,
    Data,
    Known,
    ProgramBuilder,
    Refusal,
    Value,
    plain,
    shape_of,
    sizes_of,
)

aten = torch.ops.aten
# TensorProto.DataType of what a value may be converted to.
FLOATS, INTEGERS, BOOL, DOUBLE = (1, 10, 11, 16), (2, 3, 4, 5, 6, 7, 12, 13), 9, 11


@operator("Identity", "Dropout")
def unchanged(_: ProgramBuilder, node: Node) -> Any:
    """The same value; dropout as in evaluation."""
    training = node.optional(2)
    if node.operator == "Dropout" and training is not None and any(plain(training, "mode")):
        raise Refusal("is in training mode; export the model in evaluation mode")
    return node[0]


@operator("Constant")
def constant(trace: ProgramBuilder, node: Node) -> Any:
    """A value that the file holds."""
    given = node.attributes
    if isinstance(given.get("value"), Known):
        return trace.weight(given["value"].tensor)
    for name, dtype in (("value_float", torch.float64), ("value_int", torch.int64)):
        for key in (name, f"{name}s"):
            if key in given:
                return Known(torch.tensor(given[key], dtype=dtype))
    raise Refusal("holds a constant that is not a dense array of numbers")


@operator("ConstantOfShape")
def constant_of_shape(trace: ProgramBuilder, node: Node) -> Any:
    """One number in a given shape."""
    value = node.attributes.get("value", Known(torch.zeros(1, dtype=torch.float64)))
    if not isinstance(value, Known) or value.tensor.numel() != 1:
        raise Refusal("does not repeat one number")
    sizes = sizes_of(node[0], "shape")
    if any(size < 0 for size in sizes):
        raise Refusal(f"asks for the shape {sizes}")
    return trace.expand(trace.view(value, [1] * len(sizes)), sizes) if sizes else value


@operator("Range")
def arange(trace: ProgramBuilder, node: Node) -> Any:
    """Evenly spaced constants."""
    start, stop, step = (plain(node[place], "limits")[0] for place in range(3))
    if step == 0 or (stop - start) / step > MOST_ELEMENTS:
        raise Refusal(f"asks for the numbers from {start} to {stop} by {step}")
    return trace.apply(torch.arange, start, stop, step)


@operator("Shape")
def shape(_: ProgramBuilder, node: Node) -> Any:
    """A value's shape, or part of it."""
    whole = shape_of(node[0])
    rank = len(node[0].shape)
    part = slice(node.whole("start", 0), node.whole("end", rank))
    other = None if whole.other is None else whole.other[part]
    first = whole.tensor[part]
    return Known(first, None if other is None or torch.equal(first, other) else other)


@operator("Size")
def size(_: ProgramBuilder, node: Node) -> Any:
    """How many elements a value has."""
    whole = shape_of(node[0])
    other = None if whole.other is None else whole.other.prod()
    return Known(whole.tensor.prod(), other)


@operator("Cast", "CastLike")
def cast(trace: ProgramBuilder, node: Node) -> Any:
    """Between types; from data only to floating-point types."""
    value = node[0]
    if node.operator == "CastLike":
        like = node[1]
        to_float = isinstance(like, Data) or like.tensor.is_floating_point()
        kind = 1 if to_float else 7
    else:
        kind = node.whole("to", 0)
    if kind in FLOATS:
        if isinstance(value, Known):
            return as_float(value)
        return value if kind == DOUBLE else replace(value, single=True)
    if kind not in INTEGERS and kind != BOOL:
        raise Refusal("converts to something that is not a number")
    dtype = torch.bool if kind == BOOL else torch.int64
    return trace.apply(aten._to_copy.default, value, dtype=dtype)


@operator("Reshape")
def reshape(trace: ProgramBuilder, node: Node) -> Any:
    """The same values in another shape."""
    value = node[0]
    sizes = node.integers("shape") or sizes_of(node[1], "shape")
    if not node.whole("allowzero", 0):
        lengths = value.shape
        if any(size == 0 and place >= len(lengths) for place, size in enumerate(sizes)):
            raise Refusal(f"copies lengths that its input does not have: {sizes}")
        sizes = [size or lengths[place] for place, size in enumerate(sizes)]
    return trace.view(value, free_rows(trace, value, sizes))


def free_rows(trace: ProgramBuilder, value: Value, sizes: list[int]) -> list[int]:
    """Free the number of rows in a shape that the exporter wrote with a fixed one."""
    by_rows = isinstance(value, Data) and value.shape[:1] == (ROWS,)
    if by_rows and trace.fixed_rows and sizes[:1] == [trace.fixed_rows]:
        return [ROWS, *sizes[1:]]
    return sizes


@operator("Flatten")
def flatten(trace: ProgramBuilder, node: Node) -> Any:
    """Two dimensions: those before an axis, and those from it on."""
    value = node[0]
    axis = node.whole("axis", 1)
    rank = len(value.shape)
    if not -rank <= axis <= rank:
        raise Refusal(f"splits {rank} dimensions at {axis}")
    axis = axis + rank if axis < 0 else axis
    return trace.view(value, [math.prod(value.shape[:axis]), math.prod(value.shape[axis:])])


@operator("Squeeze")
def squeeze(trace: ProgramBuilder, node: Node) -> Any:
    """Without dimensions of length 1."""
    value = node[0]
    rank = len(value.shape)
    axes = node.integers("axes", 1)
    if axes is None:
        axes = [place for place, length in enumerate(value.shape) if length == 1]
    if any(not -rank <= axis < rank or value.shape[axis] != 1 for axis in axes):
        raise Refusal(f"drops the dimensions {axes} of {rank}, which are not all of length 1")
    places = {axis % rank for axis in axes}
    return trace.view(value, [n for place, n in enumerate(value.shape) if place not in places])


@operator("Unsqueeze")
def unsqueeze(trace: ProgramBuilder, node: Node) -> Any:
    """With further dimensions of length 1."""
    value = node[0]
    axes = node.integers("axes", 1) or []
    rank = len(value.shape) + len(axes)
    places = {axis % rank for axis in axes if -rank <= axis < rank}
    if len(places) != len(axes):
        raise Refusal(f"adds the dimensions {axes} to {len(value.shape)}")
    lengths = iter(value.shape)
    return trace.view(value, [1 if place in places else next(lengths) for place in range(rank)])


@operator("Transpose")
def transpose(trace: ProgramBuilder, node: Node) -> Any:
    """The same values with their dimensions in another order."""
    value = node[0]
    order = node.integers("perm") or list(reversed(range(len(value.shape))))
    if len(order) != len(value.shape):
        raise Refusal(f"reorders {len(value.shape)} dimensions by {order}")
    moved = trace.apply(aten.permute.default, value, order)
    return trace.apply(aten.clone.default, moved, memory_format=torch.contiguous_format)


@operator("Expand")
def expand(trace: ProgramBuilder, node: Node) -> Any:
    """Repeated along dimensions of length 1."""
    return trace.expand(node[0], free_rows(trace, node[0], sizes_of(node[1], "shape")))


@operator("Tile")
def tile(trace: ProgramBuilder, node: Node) -> Any:
    """Repeated along each dimension."""
    repeats = [int(times) for times in plain(node[1], "repeats")]
    if len(repeats) != len(node[0].shape) or min(repeats, default=1) < 0:
        raise Refusal(f"repeats {len(node[0].shape)} dimensions by {repeats}")
    return trace.apply(aten.repeat.default, node[0], repeats)
