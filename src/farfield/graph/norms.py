"""Rules for norms by the row's own statistics, for softmax inside of a model, and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from farfield.graph.growth import Normalisation, Product, SharingOut
from farfield.graph.products import is_value, scaled
from farfield.graph.program import Program
from farfield.graph.rules import Affine, Domain, V, rule

aten = torch.ops.aten


def centred(domain: Domain[V], value: Any, dims: Sequence[int]) -> Any:
    """A value minus its mean over some dimensions."""
    where = tuple(dims)
    count = math.prod(value.shape[place] for place in where)
    operation = Affine(
        lambda t: t - t.mean(where, keepdim=True),
        terms=count + 1,
        magnitude=lambda t: t + t.mean(where, keepdim=True),
    )
    return domain.affine(operation, value)


def _weighted(domain: Domain[V], value: V, weight: Tensor | None, bias: Tensor | None) -> V:
    if weight is not None:
        value = scaled(domain, value, weight)
    if bias is not None:
        value = domain.affine(Affine(lambda t: t, offset=bias, terms=1), value)
    return value


@rule(aten.layer_norm.default, kind="growth")
def layer_norm(
    domain: Domain[V],
    value: Any,
    shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    epsilon: float = 1e-5,
    *_: Any,
) -> V:
    """Centred, then divided by the deviation; a row that grows tends to its direction."""
    rows = centred(domain, value, range(-len(shape), 0))
    return _weighted(domain, domain.grow(Normalisation(len(shape), epsilon), rows), weight, bias)


@rule(aten.native_layer_norm.default, kind="growth")
def native_layer_norm(
    domain: Domain[V],
    value: Any,
    shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    epsilon: float,
) -> list[V]:
    """Centred, then divided by the deviation."""
    return [layer_norm(domain, value, shape, weight, bias, epsilon)]


@rule(aten.rms_norm.default, kind="growth")
def rms_norm(
    domain: Domain[V],
    value: Any,
    shape: Sequence[int],
    weight: Tensor | None = None,
    epsilon: float | None = None,
) -> V:
    """Divided by the root of the mean square."""
    small = torch.finfo(torch.float32).eps if epsilon is None else epsilon
    return _weighted(domain, domain.grow(Normalisation(len(shape), small), value), weight, None)


def _by_groups(domain: Domain[V], value: Any, groups: int, epsilon: float) -> Any:
    """Normalise groups of channels, each with all that stands behind its channels."""
    shape = tuple(value.shape[1:])
    rows = domain.affine(Affine(lambda t: t.reshape(t.shape[0], groups, -1)), value)
    found = domain.grow(Normalisation(1, epsilon), centred(domain, rows, (-1,)))
    return domain.affine(Affine(lambda t: t.reshape(t.shape[0], *shape)), found)


def _per_channel(weight: Tensor | None, value: Any) -> Tensor | None:
    return None if weight is None else weight.reshape(-1, *[1] * (len(value.shape) - 2))


@rule(aten.group_norm.default, kind="growth")
def group_norm(
    domain: Domain[V],
    value: Any,
    groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    epsilon: float = 1e-5,
    *_: Any,
) -> Any:
    """Layer norm over groups of channels."""
    found = _by_groups(domain, value, groups, epsilon)
    return _weighted(domain, found, _per_channel(weight, value), _per_channel(bias, value))


def _needs_own_statistics(*args: Any) -> str | None:
    return None if args[5] else "uses running statistics; export it in evaluation mode"


@rule(aten.instance_norm.default, kind="growth", refuse=_needs_own_statistics)
def instance_norm(
    domain: Domain[V],
    value: Any,
    weight: Tensor | None,
    bias: Tensor | None,
    _mean: Any,
    _variance: Any,
    _own: bool,
    _momentum: float,
    epsilon: float,
    *_: Any,
) -> Any:
    """Layer norm over each channel."""
    found = _by_groups(domain, value, value.shape[1], epsilon)
    return _weighted(domain, found, _per_channel(weight, value), _per_channel(bias, value))


@rule(aten.softmax.int, aten._softmax.default, kind="growth")
def softmax(domain: Domain[V], value: Any, dim: int, *_: Any) -> V:
    """Softmax inside of a model: what grows most shares, the rest is zero."""
    return domain.grow(SharingOut(dim if dim < 0 else dim - len(value.shape)), value)


def _needs_no_chance(*args: Any, **options: Any) -> str | None:
    chance = args[4] if len(args) > 4 else options.get("dropout_p", 0.0)
    return "drops attention at random; call it with dropout_p=0" if chance else None


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    _chance: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
    **_: Any,
) -> Tensor:
    """``softmax(q k' / sqrt(n)) v``, as PyTorch's own operation, which cannot be vectorised."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = _scores(query * factor, key)
    blocked = _blocked(query.shape[-2], key.shape[-2]) if causal else mask
    if blocked is not None:
        scores = scores + _as_offset(blocked).to(scores)
    return torch.matmul(torch.softmax(scores, -1), value)


def read_attention(program: Program) -> Program:
    """Write attention as an operation that can be vectorised."""
    fused = aten.scaled_dot_product_attention.default
    steps = (replace(s, target=attend) if s.target is fused else s for s in program.steps)
    return program.with_steps(tuple(steps))


@rule(
    attend,
    kind="growth",
    data=(0, 1, 2),
    together=True,
    refuse=_needs_no_chance,
)
def attention(
    domain: Domain[V],
    query: Any,
    key: Any,
    value: Any,
    mask: Tensor | None = None,
    _chance: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
    **_: Any,
) -> Any:
    """``softmax(q k' / sqrt(n)) v``."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = _times(domain, scaled_or(domain, query, factor), key, _scores, query.shape[-1])
    blocked = _blocked(query.shape[-2], key.shape[-2]) if causal else mask
    if blocked is not None:
        offset = _as_offset(blocked)
        scores = domain.affine(Affine(lambda t: t, offset=offset, terms=1), scores)
    shares = domain.grow(SharingOut(-1), scores)
    # Rows of shares add up to one: errors of what is mixed are averaged.
    return _times(domain, shares, value, torch.matmul, 1)


def _scores(query: Tensor, key: Tensor) -> Tensor:
    return torch.matmul(query, key.transpose(-1, -2))


def scaled_or(domain: Domain[V], item: Any, factor: float) -> Any:
    """A value or a constant times a number."""
    return scaled(domain, item, factor) if is_value(item) else item * factor


def _times(domain: Domain[V], left: Any, right: Any, function: Any, terms: int) -> Any:
    """A bilinear function of two items of which one may be constant."""
    if is_value(left) and is_value(right):
        return domain.grow(Product(function, terms), left, right)
    if is_value(left):
        return domain.affine(Affine(function, (right,), terms=terms), left)
    return domain.affine(Affine(lambda y, w: function(w, y), (left,), terms=terms), right)


def _blocked(rows: int, columns: int) -> Tensor:
    return torch.ones(rows, columns, dtype=torch.bool).tril()


def _as_offset(mask: Tensor) -> Tensor:
    """A mask as what is added to scores."""
    if mask.dtype is not torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -torch.inf)
