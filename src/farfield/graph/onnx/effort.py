"""How much work an operation is: what a file may ask for is bounded by its size.

The unit is one operation on one number, a nanosecond or so. Products inside of matrices are
cheaper; every candidate of a maximum is a step of its own in the walk, and dearer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from farfield.graph.padded_pooling import padded_max_pool
from farfield.graph.pooling import MAX_POOLS, per_dimension
from farfield.graph.program import tensors_in

aten = torch.ops.aten
STEP, CANDIDATE, PRODUCTS = 2**6, 2**12, 8
MEAN_POOLS = (aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default)
EXTREMES = (aten.amax.default, aten.amin.default)


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
        return STEP + read + made + _contracted(args[0], args[1], rows) // PRODUCTS
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


def _contracted(equation: str, operands: Sequence[Tensor], rows: int) -> int:
    """How many products a sum over indices takes; an ellipsis stands for all that is left."""
    lengths: dict[str, int] = {}
    spare = 1
    for letters, tensor in zip(equation.split("->")[0].split(","), operands, strict=False):
        plain = letters.replace(" ", "").replace("...", "")
        if len(plain) != tensor.ndim:
            spare = max(spare, _size(tensor, rows))
        lengths.update(zip(plain, tensor.shape, strict=False))
    return spare * math.prod(length for length in lengths.values() if length != rows)


def _size(tensor: Tensor, rows: int) -> int:
    return math.prod(length for length in tensor.shape if length != rows)
