"""Rules for everything linear: copying, weighted sums, averages, scaling and adding."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor

from farfield.graph.contraction import terms
from farfield.graph.convolving import convolve
from farfield.graph.ranges import COUNT, DIVISOR, FINITE, outside
from farfield.graph.rowwise import row_dimensions
from farfield.graph.rules import Affine, Domain, Rule, V, copies, register, rule

aten = torch.ops.aten
ADD = Affine(torch.add, terms=2, magnitude=torch.add, adds=1)
SUBTRACT = Affine(torch.sub, terms=2, magnitude=torch.add, adds=-1)

SAME_SHAPES = "the same values in another shape"
copies(
    aten.view.default,
    aten._unsafe_view.default,
    by=torch.reshape,
    summary=SAME_SHAPES,
)
copies(
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.unsqueeze.default,
    summary=SAME_SHAPES,
)
copies(
    aten.permute.default,
    aten.transpose.int,
    aten.t.default,
    aten.flip.default,
    aten.roll.default,
    aten.pixel_shuffle.default,
    aten.pixel_unshuffle.default,
    aten.channel_shuffle.default,
    summary="the same values in another order",
)
copies(
    aten.slice.Tensor,
    aten.select.int,
    aten.index.Tensor,
    aten.index_select.default,
    summary="some of the values, picked by constant positions",
)
copies(
    aten.expand.default,
    aten.repeat.default,
    aten.upsample_nearest1d.vec,
    aten.upsample_nearest2d.vec,
    aten.upsample_nearest3d.vec,
    aten.reflection_pad1d.default,
    aten.reflection_pad2d.default,
    aten.reflection_pad3d.default,
    aten.replication_pad1d.default,
    aten.replication_pad2d.default,
    aten.replication_pad3d.default,
    summary="the values, some of them several times",
)
copies(
    aten.clone.default,
    aten.alias.default,
    aten.detach.default,
    summary="unchanged",
)


def _is_data(value: Any) -> bool:
    return not isinstance(value, (Tensor, int, float, bool))


def _needs_float(_: Any, *, dtype: torch.dtype | None = None, **__: Any) -> str | None:
    """Refuse conversions that cut off digits."""
    if dtype is not None and not dtype.is_floating_point:
        return f"converts to {dtype}, which is not piecewise affine"
    return None


@rule(aten._to_copy.default, kind="copy", refuse=_needs_float)
def convert(_: Domain[V], value: V, **__: Any) -> V:
    """unchanged: the analysis has one floating-point type of its own."""
    return value


@rule(operator.getitem, kind="copy", data=None)
def getitem(_: Domain[V], values: Sequence[V], index: int) -> V:
    """One of several results."""
    return values[index]


@rule(aten.split.Tensor, kind="copy")
def split(domain: Domain[V], value: Any, size: int, dim: int = 0) -> list[Any]:
    """Consecutive slices."""
    length = value.shape[dim]
    return [
        domain.affine(Affine(lambda t, s=start: t.narrow(dim, s, min(size, length - s))), value)
        for start in range(0, length, size)
    ]


@rule(aten.split_with_sizes.default, kind="copy")
def split_with_sizes(domain: Domain[V], value: V, sizes: list[int], dim: int = 0) -> list[V]:
    """Consecutive slices of given sizes."""
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return [
        domain.affine(Affine(lambda t, e=end, n=size: t.narrow(dim, e - n, n)), value)
        for end, size in zip(ends, sizes, strict=True)
    ]


@rule(aten.unbind.int, kind="copy")
def unbind(domain: Domain[V], value: Any, dim: int = 0) -> list[Any]:
    """The slices along one dimension."""
    return [
        domain.affine(Affine(lambda t, i=i: t.select(dim, i)), value)
        for i in range(value.shape[dim])
    ]


@rule(aten.cat.default, aten.concat.default, kind="copy", together=True)
def cat(domain: Domain[V], values: Sequence[V | Tensor], dim: int = 0) -> V:
    """The values of several one after another; constants may be among them."""
    lifted = [domain.constant(v) if isinstance(v, Tensor) else v for v in values]
    return domain.affine(Affine(lambda *parts: torch.cat(parts, dim)), *lifted)


@rule(aten.stack.default, kind="copy", together=True)
def stack(domain: Domain[V], values: Sequence[V | Tensor], dim: int = 0) -> V:
    """The values of several along a new dimension; constants may be among them."""
    lifted = [domain.constant(v) if isinstance(v, Tensor) else v for v in values]
    return domain.affine(Affine(lambda *parts: torch.stack(parts, dim)), *lifted)


def _needs_finite(_: Any, __: list[int], fill: float = 0.0) -> str | None:
    """Refuse infinities, which are nothing to compute with; max pools have folded theirs."""
    if math.isfinite(fill):
        return None
    return f"pads with {fill}, which only a max pool that sees other values too can follow"


@rule(aten.constant_pad_nd.default, kind="affine", refuse=_needs_finite)
def constant_pad_nd(domain: Domain[V], value: Any, pad: list[int], fill: float = 0.0) -> V:
    """The values with a constant around them."""
    padded: V = domain.affine(Affine(lambda t: F.pad(t, pad)), value)
    if fill == 0:
        return padded
    lead = row_dimensions(value)
    frame = F.pad(value.new_zeros((*(1,) * lead, *value.shape[lead:])), pad, value=fill)
    return domain.affine(Affine(lambda t: t, offset=frame, terms=1), padded)


@rule(aten.neg.default, kind="affine")
def neg(domain: Domain[V], value: V) -> V:
    """Minus."""
    return domain.affine(Affine(torch.neg, magnitude=lambda t: t), value)


@rule(aten.linear.default, kind="affine")
def linear(domain: Domain[V], value: V, weight: Tensor, bias: Tensor | None = None) -> V:
    """``x W' + c``."""
    return domain.affine(Affine(F.linear, (weight,), bias, terms=weight.shape[-1]), value)


@rule(
    aten.addmm.default,
    aten.baddbmm.default,
    kind="affine",
    data=(1,),
    ranges={"beta": FINITE, "alpha": FINITE},
)
def addmm(
    domain: Domain[V],
    bias: Tensor,
    value: Any,
    weight: Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> Any:
    """``beta c + alpha x W``."""
    scaled = value if alpha == 1 else _scaled(domain, value, alpha)
    terms = weight.shape[-2]
    if beta in (0, 1):
        offset = bias if beta else None
        return domain.affine(Affine(torch.matmul, (weight,), offset, terms=terms), scaled)
    product: Any = domain.affine(Affine(torch.matmul, (weight,), terms=terms), scaled)
    return _sum(domain, product, _scaled(domain, _lifted(domain, bias, product.shape), beta), 1)


def _flipped_matmul(rows: Tensor, weight: Tensor) -> Tensor:
    return torch.matmul(weight, rows)


@rule(
    aten.mm.default,
    aten.bmm.default,
    aten.matmul.default,
    aten.mv.default,
    kind="affine",
    data=(0, 1),
)
def matmul(domain: Domain[V], left: Any, right: Any) -> V:
    """``x W`` or ``W x`` with constant W."""
    if _is_data(left):
        terms = left.shape[-1]
        return domain.affine(Affine(torch.matmul, (right,), terms=terms), left)
    return domain.affine(Affine(_flipped_matmul, (left,), terms=left.shape[-1]), right)


@rule(aten.einsum.default, kind="affine", data=(1,))
def einsum(domain: Domain[V], equation: str, operands: Sequence[Any], **_: Any) -> V:
    """A sum of products with constants."""
    place = next(i for i, item in enumerate(operands) if _is_data(item))
    weights = tuple(item for item in operands if not _is_data(item))

    def contract(rows: Tensor, *constants: Tensor) -> Tensor:
        return torch.einsum(equation, *constants[:place], rows, *constants[place:])

    added = terms(equation, [item.shape for item in operands])
    return domain.affine(Affine(contract, weights, terms=added * len(operands)), operands[place])


@rule(aten.convolution.default, kind="affine")
def convolution(
    domain: Domain[V],
    value: Any,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> V:
    """Convolution in 1, 2 or 3 dimensions, transposed or not."""

    def without_bias(rows: Tensor, kernel: Tensor) -> Tensor:
        more = (stride, padding, dilation, transposed, output_padding, groups)
        return convolve(rows, kernel, None, *more)

    taps = math.prod(weight.shape[2:])
    channels = weight.shape[0] // groups if transposed else weight.shape[1]
    offset = None if bias is None else bias.reshape(-1, *[1] * (weight.ndim - 2))
    return domain.affine(Affine(without_bias, (weight,), offset, terms=taps * channels), value)


@functools.lru_cache(maxsize=1024)
def _number(factor: float) -> Tensor:
    """A number as a weight: it takes part in whatever is done with weights."""
    return torch.tensor(factor, dtype=torch.float64)


def _scaled(domain: Domain[V], value: V, factor: Tensor | float) -> V:
    weight = factor if isinstance(factor, Tensor) else _number(float(factor))
    return domain.affine(Affine(torch.mul, (weight,), terms=1), value)


@rule(
    aten.mul.Tensor,
    aten.mul.Scalar,
    kind="affine",
    data=(0, 1),
    ranges={"left": FINITE, "right": FINITE},
)
def mul(domain: Domain[V], left: Any, right: Any) -> V:
    """Times a constant."""
    value, factor = (left, right) if _is_data(left) else (right, left)
    result: V = _scaled(domain, value, factor)
    return result


@rule(aten.div.Tensor, aten.div.Scalar, kind="affine", ranges={"divisor": DIVISOR})
def div(domain: Domain[V], value: V, divisor: Tensor | float) -> V:
    """Times the reciprocal of a constant."""
    if isinstance(divisor, Tensor) and not divisor.is_floating_point():
        divisor = divisor.double()
    return _scaled(domain, value, 1.0 / divisor)


def _lifted(domain: Domain[V], constant: Tensor, shape: Sequence[int]) -> V:
    """A constant as a value with as many rows as others."""
    return domain.constant(constant.expand(torch.broadcast_shapes(constant.shape, tuple(shape))))


def spread_over(domain: Domain[V], value: Any, other: Any) -> Any:
    """A value as large as what it makes together with another value or a constant."""
    lead = row_dimensions(value)
    own = tuple(value.shape[lead:])
    beside = tuple(other.shape[lead:] if len(other.shape) == len(value.shape) else other.shape)
    if beside == own[len(own) - len(beside) :]:
        return value  # PyTorch, asked for shapes together, first loads algebra for a second
    goal = torch.broadcast_shapes(own, beside)
    if tuple(goal) == own:
        return value
    return domain.affine(Affine(lambda t: t.expand(*t.shape[:lead], *goal)), value)


def _sum(domain: Domain[V], left: V, right: V, sign: int) -> V:
    """``left + right`` or ``left - right``."""
    return domain.affine(ADD if sign > 0 else SUBTRACT, left, right)


def _combine(domain: Domain[V], left: Any, right: Any, alpha: float) -> Any:
    """``left + alpha * right`` where either may be a constant."""
    if abs(alpha) != 1:
        if not _is_data(right):
            shape = torch.broadcast_shapes(left.shape, torch.as_tensor(right).shape)
            right = _lifted(domain, torch.as_tensor(right, dtype=torch.float64), shape)
        right, alpha = _scaled(domain, right, alpha), 1
    if _is_data(left) and _is_data(right):
        return _sum(domain, left, right, int(alpha))
    value, constant = (left, right * alpha) if _is_data(left) else (right, left)
    if not _is_data(left) and alpha != 1:
        value = neg(domain, value)
    if isinstance(constant, Tensor):
        value = spread_over(domain, value, constant)
    return domain.affine(Affine(lambda t: t, offset=constant, terms=1), value)


@rule(
    aten.add.Tensor,
    aten.add.Scalar,
    kind="affine",
    data=(0, 1),
    together=True,
    ranges={"left": FINITE, "right": FINITE, "alpha": FINITE},
)
def add(domain: Domain[V], left: Any, right: Any, alpha: float = 1) -> Any:
    """Plus another value or a constant."""
    return _combine(domain, left, right, alpha)


@rule(
    aten.sub.Tensor,
    aten.sub.Scalar,
    kind="affine",
    data=(0, 1),
    together=True,
    ranges={"left": FINITE, "right": FINITE, "alpha": FINITE},
)
def sub(domain: Domain[V], left: Any, right: Any, alpha: float = 1) -> Any:
    """Minus another value or a constant."""
    return _combine(domain, left, right, -alpha)


@rule(
    aten.rsub.Tensor,
    aten.rsub.Scalar,
    kind="affine",
    data=(0, 1),
    together=True,
    ranges={"left": FINITE, "right": FINITE, "alpha": FINITE},
)
def rsub(domain: Domain[V], left: Any, right: Any, alpha: float = 1) -> Any:
    """A value or a constant minus this."""
    return _combine(domain, right, left, -alpha)


def _reduced(shape: Sequence[int], dims: Sequence[int] | int | None) -> int:
    if dims is None or dims == []:
        return math.prod(shape)
    places = [dims] if isinstance(dims, int) else list(dims)
    return math.prod(shape[d] for d in places)


@rule(aten.sum.dim_IntList, kind="affine")
def total(domain: Domain[V], value: Any, dims: Any, keepdim: bool = False, **_: Any) -> V:
    """Sum over dimensions."""
    terms = _reduced(value.shape, dims)
    return domain.affine(Affine(lambda t: t.sum(dims, keepdim), terms=terms, divisor=1), value)


@rule(aten.mean.dim, kind="affine")
def mean(domain: Domain[V], value: Any, dims: Any, keepdim: bool = False, **_: Any) -> V:
    """Mean over dimensions."""
    count = _reduced(value.shape, dims)
    operation = Affine(lambda t: t.mean(dims, keepdim), terms=count, averages=True, divisor=count)
    return domain.affine(operation, value)


def _listed(sizes: Any) -> list[Any]:
    return list(sizes) if isinstance(sizes, (list, tuple)) else [sizes]


def _average_pool(target: Any, dims: int) -> None:
    def lower(
        domain: Domain[V],
        value: V,
        kernel: list[int],
        stride: Sequence[int] = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> V:
        sizes = kernel if len(kernel) == dims else kernel * dims
        options = [stride, padding, ceil_mode, count_include_pad]
        options += [] if divisor_override is None else [divisor_override]
        whole = not ceil_mode and (count_include_pad or not any(_listed(padding)))
        operation = Affine(
            lambda t: target(t, kernel, *options),
            terms=math.prod(sizes),
            averages=True,
            divisor=divisor_override or (math.prod(sizes) if whole else None),
        )
        return domain.affine(operation, value)

    limits = outside(lower, {"divisor_override": COUNT})
    register(target, Rule("affine", lower, "mean over a window", refuse=limits))


def _adaptive_average_pool(target: Any, dims: int) -> None:
    def lower(domain: Domain[V], value: Any, output: Any) -> V:
        sizes = value.shape[-dims:]
        goals = _listed(output) if len(_listed(output)) == dims else _listed(output) * dims
        even = all(goal and size % goal == 0 for size, goal in zip(sizes, goals, strict=True))
        operation = Affine(
            lambda t: target(t, output),
            terms=math.prod(sizes),
            averages=True,
            divisor=math.prod(sizes) // math.prod(goals) if even else None,
        )
        return domain.affine(operation, value)

    register(target, Rule("affine", lower, "mean over windows that fit the output"))


_average_pool(aten.avg_pool1d.default, 1)
_average_pool(aten.avg_pool2d.default, 2)
_average_pool(aten.avg_pool3d.default, 3)
_adaptive_average_pool(aten.adaptive_avg_pool1d.default, 1)
_adaptive_average_pool(aten.adaptive_avg_pool2d.default, 2)
_adaptive_average_pool(aten._adaptive_avg_pool2d.default, 2)
_adaptive_average_pool(aten.adaptive_avg_pool3d.default, 3)
_adaptive_average_pool(aten._adaptive_avg_pool3d.default, 3)
