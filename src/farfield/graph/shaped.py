"""What common layers give to tensors without numbers: the same tensors that PyTorch would.

PyTorch finds the shapes of these in Python, some of them by its compiler, which takes seconds to
load, and norms by running all of their parts. Nothing is said of what is not plain: tensors that
do not lie in order, several types of numbers, sizes that do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from farfield.graph.plain_layers import CURVES, LINEAR, NORM

aten = torch.ops.aten
LAYER_NORM, GROUP_NORM = aten.layer_norm.default, aten.group_norm.default
# One value in, one of the same shape out; every other argument is a number.
LIKE_FIRST = frozenset((*CURVES, aten.clamp.default, aten.pow.Tensor_Scalar))
ARITHMETIC = frozenset((aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor))


def shaped(func: OpOverload, args: Sequence[Any]) -> Tensor | None:
    """What an operation gives; ``None`` where PyTorch is to say it."""
    x = args[0] if args else None
    if not isinstance(x, Tensor) or not x.dtype.is_floating_point:
        return None
    rest = [each for each in args[1:] if isinstance(each, Tensor)]
    if any(each.dtype != x.dtype for each in rest):
        return None
    shape: Sequence[int] | None = _linear(x, args) if func is LINEAR else None
    if shape is None and all(each.is_contiguous() for each in (x, *rest)):
        shape = _in_order(func, x, args)
    return None if shape is None else torch.empty(shape, dtype=x.dtype, device=x.device)


def _in_order(func: OpOverload, x: Tensor, args: Sequence[Any]) -> Sequence[int] | None:
    """The shape of what is made of tensors that lie in order."""
    if func in ARITHMETIC:
        return _together(x, args[1])
    if func is NORM or func is GROUP_NORM or func is LAYER_NORM:
        return x.shape if _norm_fits(func, x, args) else None
    if func not in LIKE_FIRST or not all(_is_number(each) for each in args[1:]):
        return None
    return x.shape


def _together(x: Tensor, other: Any) -> Sequence[int] | None:
    """The shape of two values beside one another, one of which is as large as both."""
    if not isinstance(other, Tensor):
        return x.shape if _is_number(other) else None
    small, large = sorted((x.shape, other.shape), key=len)
    fits = large[len(large) - len(small) :] == small
    return large if fits else None


def _norm_fits(func: OpOverload, x: Tensor, args: Sequence[Any]) -> bool:
    """Whether a norm is told what it needs, in the sizes of its input."""
    if func is LAYER_NORM:
        sizes, known = tuple(args[1]), args[2:4]
        if not sizes or x.shape[-len(sizes) :] != sizes:
            return False
    elif x.ndim < 2:
        return False
    elif func is GROUP_NORM:
        sizes, known = (x.shape[1],), args[2:4]
        if args[1] < 1 or x.shape[1] % args[1]:
            return False
    else:
        sizes, known = (x.shape[1],), args[1:5]
        if len(args) != 9 or args[5] is not False or None in known[2:]:
            return False
    return all(each is None or each.shape == sizes for each in known)


def _linear(x: Tensor, args: Sequence[Any]) -> tuple[int, ...] | None:
    weight, bias = args[1], args[2] if len(args) > 2 else None
    if weight.ndim != 2 or x.ndim < 1 or x.shape[-1] != weight.shape[1]:
        return None
    if bias is not None and bias.shape != weight.shape[:1]:
        return None
    return (*x.shape[:-1], len(weight))


def _is_number(given: Any) -> bool:
    return given is None or isinstance(given, (int, float))
