"""What an operation makes and how much work it is, without doing it.

PyTorch can run most operations on tensors without storage. For functions of single elements it
does so in Python, and the first such call imports its compiler, which takes seconds; their shapes
are the broadcast shapes of their inputs.

What a file may ask for is bounded by its size. The unit is one operation on one number, a
nanosecond or so. Products inside of matrices are cheaper; every candidate of a maximum is a step
of its own in the walk, and dearer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor

from farfield.graph.contraction import products
from farfield.graph.padded_pooling import padded_max_pool
from farfield.graph.pooling import MAX_POOLS, per_dimension
from farfield.graph.program import tensors_in

aten = torch.ops.aten
# Of all operations that act on single elements, those that PyTorch does not mark as such.
ELEMENTWISE = (aten._prelu_kernel.default, aten.hardswish.default, F.softsign)
# What one operation takes at least, what each candidate of a maximum does, and how many products
# inside of matrices count as one operation.
STEP, CANDIDATE, PRODUCTS = 2**6, 2**12, 8
MEAN_POOLS = (aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default)
EXTREMES = (aten.amax.default, aten.amin.default)


def outline(target: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
    """The result of an operation as a tensor without storage.

    Raises:
        ValueError: If the inputs do not fit; PyTorch raises errors of its own kinds as well.
    """
    if target in ELEMENTWISE or torch.Tag.pointwise in getattr(target, "tags", ()):
        shapes = {tuple(tensor.shape) for tensor in tensors_in(args)}
        return _empty(shapes.pop() if len(shapes) == 1 else torch.broadcast_shapes(*shapes))
    if target in _SHAPES:
        return _empty(_SHAPES[target](*args))
    if target is aten.mean.dim:
        target = aten.sum.dim_IntList
    result: Tensor = target(*args, **kwargs)
    return result


def _empty(shape: Sequence[int]) -> Tensor:
    return torch.empty(tuple(shape), dtype=torch.float64, device="meta")


def _linear(value: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[int, ...]:
    if weight.ndim != 2 or value.ndim < 1 or value.shape[-1] != weight.shape[1]:
        raise ValueError(f"a weight of shape {tuple(weight.shape)} does not fit {_free(value)}")
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise ValueError(f"an offset of shape {tuple(bias.shape)} does not fit {weight.shape[0]}")
    return (*value.shape[:-1], weight.shape[0])


def _batch_norm(value: Tensor, *statistics: Any) -> tuple[int, ...]:
    channels = value.shape[1] if value.ndim > 1 else -1
    for tensor in tensors_in(statistics):
        if tuple(tensor.shape) != (channels,):
            raise ValueError(f"statistics of shape {tuple(tensor.shape)} do not fit {_free(value)}")
    return tuple(value.shape)


def _same(value: Tensor, *_: Any) -> tuple[int, ...]:
    return tuple(value.shape)


def _cat(values: Sequence[Tensor], axis: int) -> tuple[int, ...]:
    first = values[0]
    if not -first.ndim <= axis < first.ndim:
        raise ValueError(f"there is no dimension {axis} in {_free(first)}")
    axis %= first.ndim
    shapes = [list(value.shape) for value in values]
    rests = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(rests) > 1 or any(len(shape) != first.ndim for shape in shapes):
        raise ValueError(f"{_free(first)} and others do not fit beside one another")
    total = list(shapes[0])
    total[axis] = sum(shape[axis] for shape in shapes)
    return tuple(total)


def _free(value: Tensor) -> str:
    """A shape for a message, without the number that stands for the rows."""
    return f"an input with rows of shape {tuple(value.shape[1:])}"


_SHAPES: dict[Any, Callable[..., tuple[int, ...]]] = {
    aten.linear.default: _linear,
    aten.batch_norm.default: _batch_norm,
    aten.cat.default: _cat,
    aten.group_norm.default: _same,
    aten.instance_norm.default: _same,
    aten.layer_norm.default: _same,
    aten.rms_norm.default: _same,
    aten.softmax.int: _same,
    aten.log_softmax.int: _same,
}


def effort(target: Callable[..., Any], args: Sequence[Any], result: Tensor, rows: int) -> int:
    """Count the operations that one row takes.

    Args:
        target: The operation.
        args: Its arguments; tensors may be without storage.
        result: Its result, likewise.
        rows: The length that stands for the number of rows.
    """
    made = _size(result, rows)
    read = sum(_size(tensor, rows) for tensor in tensors_in(args))
    if target is aten.convolution.default:
        per_weight = _size(args[0], rows) if args[6] else made
        taps = int(args[1].numel()) // max(1, int(args[1].shape[0]))
        return STEP + read + made + per_weight * taps // PRODUCTS
    if target in (aten.linear.default, aten.matmul.default):
        return STEP + read + made + made * int(args[0].shape[-1]) // PRODUCTS
    if target is aten.einsum.default:
        shapes = [[1 if each == rows else each for each in tensor.shape] for tensor in args[1]]
        return STEP + read + made + products(args[0], shapes) * len(shapes) // PRODUCTS
    windows = _windows(target, args, made, read)
    return STEP + read + made * (1 + windows) + CANDIDATE * windows


def _windows(target: Callable[..., Any], args: Sequence[Any], made: int, read: int) -> int:
    """How many candidates each result of a pool is chosen from; 0 for anything else."""
    if target in EXTREMES:
        return read // max(1, made)
    if target is padded_max_pool:
        return math.prod(args[2])
    if target in MAX_POOLS:
        return math.prod(per_dimension(args[1], MAX_POOLS[target]))
    return math.prod(args[1]) if target in MEAN_POOLS else 0


def _size(tensor: Tensor, rows: int) -> int:
    return math.prod(length for length in tensor.shape if length != rows)
