"""The shape of what an operation makes, without making it.

PyTorch can run most operations on tensors without storage. For functions of single elements it
does so in Python, and the first such call imports its compiler, which takes seconds; their shapes
are the broadcast shapes of their inputs, so they are written down here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor

from farfield.graph.program import tensors_in

aten = torch.ops.aten
ELEMENTWISE = frozenset(
    (
        aten._prelu_kernel.default,
        aten.abs.default,
        aten.add.Tensor,
        aten.ceil.default,
        aten.celu.default,
        aten.clamp.default,
        aten.div.Tensor,
        aten.div.Tensor_mode,
        aten.elu.default,
        aten.eq.Tensor,
        aten.erf.default,
        aten.exp.default,
        aten.floor.default,
        aten.fmod.Tensor,
        aten.ge.Tensor,
        aten.gelu.default,
        aten.gt.Tensor,
        aten.hardsigmoid.default,
        aten.hardswish.default,
        aten.le.Tensor,
        aten.leaky_relu.default,
        aten.log.default,
        aten.log_softmax.int,
        aten.logical_and.default,
        aten.logical_not.default,
        aten.logical_or.default,
        aten.logical_xor.default,
        aten.lt.Tensor,
        aten.maximum.default,
        aten.minimum.default,
        aten.mish.default,
        aten.mul.Tensor,
        aten.neg.default,
        aten.pow.Tensor_Scalar,
        aten.pow.Tensor_Tensor,
        aten.reciprocal.default,
        aten.relu.default,
        aten.remainder.Tensor,
        aten.rsub.Scalar,
        aten.selu.default,
        aten.sigmoid.default,
        aten.sign.default,
        aten.silu.default,
        aten.softmax.int,
        aten.softplus.default,
        aten.sqrt.default,
        aten.sub.Tensor,
        aten.tanh.default,
        aten.threshold.default,
        aten.where.self,
        F.softsign,
    )
)


def outline(target: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
    """The result of an operation as a tensor without storage.

    Raises:
        ValueError: If the inputs do not fit; PyTorch raises errors of its own kinds as well.
    """
    if target in ELEMENTWISE:
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
}
