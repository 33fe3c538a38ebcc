"""Rules for operations that are made of others: gates, distances, variances, log-sum-exp, waves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from farfield.graph.affine import ADD, SUBTRACT
from farfield.graph.growth import AtRest, Exponential, Logarithm, Power, Product, SharingOut
from farfield.graph.norms import centred
from farfield.graph.pooling import maximum, minimum
from farfield.graph.products import is_value, product, scaled
from farfield.graph.refusals import NO_LIMIT
from farfield.graph.rules import RULES, Affine, Domain, V, rule

aten = torch.ops.aten


@rule(aten.glu.default, kind="growth")
def glu(domain: Domain[V], value: Any, dim: int = -1) -> V:
    """One half times the sigmoid of the other."""
    size = value.shape[dim] // 2
    first = domain.affine(Affine(lambda t: t.narrow(dim, 0, size)), value)
    second = domain.affine(Affine(lambda t: t.narrow(dim, size, size)), value)
    gate: V = RULES[aten.sigmoid.default].lower(domain, second)
    return product(domain, first, gate)


def _parts(domain: Domain[V], value: Any, dim: int) -> list[V]:
    """The slices along a dimension, which is kept."""
    return [
        domain.affine(Affine(lambda t, i=i: t.narrow(dim, i, 1)), value)
        for i in range(value.shape[dim])
    ]


def _without(domain: Domain[V], value: V, dims: Sequence[int], keepdim: bool) -> V:
    """Drop dimensions of size one, unless they are to be kept."""
    if keepdim:
        return value
    return domain.affine(Affine(lambda t: t.squeeze(tuple(dims))), value)


# Up to so many values, each is compared with each other one.
MOST_COMPARED = 64


def _log_of_best(domain: Domain[V], value: Any, dim: int) -> V:
    """The logarithm of the largest share of a softmax, which is never small."""
    shares = domain.grow(SharingOut(dim % len(value.shape) - len(value.shape)), value)
    return domain.grow(Logarithm(), domain.largest(_parts(domain, shares, dim)))


@rule(aten.logsumexp.default, kind="growth")
def logsumexp(domain: Domain[V], value: Any, dims: Any, keepdim: bool = False) -> V:
    """The largest, minus the logarithm of its share."""
    places = [dims] if isinstance(dims, int) else list(dims)
    found: Any = value
    for place in places:
        top = domain.largest(_parts(domain, found, place))
        found = domain.affine(SUBTRACT, top, _log_of_best(domain, found, place))
    total: V = found
    return _without(domain, total, places, keepdim)


@rule(aten.logaddexp.default, kind="growth", data=(0, 1), together=True)
def logaddexp(domain: Domain[V], left: V, right: V) -> V:
    """The larger of two, minus the logarithm of its share."""
    pair = (_opened(domain, each, -1) for each in (left, right))
    beside = Affine(lambda *each: torch.cat(torch.broadcast_tensors(*each), -1))
    return logsumexp(domain, domain.affine(beside, *pair), [-1])


@rule(aten.log_softmax.int, aten._log_softmax.default, kind="growth")
def log_softmax(domain: Domain[V], value: Any, dim: int, *_: Any) -> V:
    """The distance to the largest, plus the logarithm of its share."""
    if value.shape[dim] > MOST_COMPARED:
        return domain.affine(SUBTRACT, value, logsumexp(domain, value, [dim], True))
    away = _away_from_best(domain, value, dim % len(value.shape))
    return domain.affine(ADD, away, _log_of_best(domain, value, dim))


def _away_from_best(domain: Domain[V], value: Any, dim: int) -> V:
    """Everyone minus the largest, which is minus itself exactly zero."""
    count = value.shape[dim]

    def repeated(rows: Tensor, new: int) -> Tensor:
        sizes = [count if place == new else -1 for place in range(rows.ndim + 1)]
        return rows.unsqueeze(new).expand(sizes)

    pair = (
        domain.affine(Affine(lambda rows, new=new: repeated(rows, new)), value)
        for new in (dim + 1, dim)
    )
    shape = [count if place in (dim, dim + 1) else 1 for place in range(len(value.shape) + 1)]
    others = (1 - torch.eye(count, dtype=torch.float64, device=value.device)).reshape(shape)
    apart = scaled(domain, domain.affine(SUBTRACT, *pair), others)
    least = domain.largest(_parts(domain, apart, dim + 1), -1)
    return _without(domain, least, [dim + 1], False)


def _needs_euclid(_: Any, __: Any, order: float, *___: Any) -> str | None:
    return None if order == 2 else f"measures by the norm of order {order}; 2 is followed"


@rule(aten._cdist_forward.default, kind="growth", data=(0, 1), together=True, refuse=_needs_euclid)
def distances(domain: Domain[V], left: Any, right: Any, *_: Any) -> V:
    """Euclidean distances between rows of two values, or of a value and constants."""
    apart = _difference(domain, _opened(domain, left, -2), _opened(domain, right, -3))
    squares = domain.grow(Power(Fraction(2)), apart)
    total = domain.affine(Affine(lambda t: t.sum(-1), terms=apart.shape[-1]), squares)
    return domain.grow(Power(Fraction(1, 2)), total)


def _opened(domain: Domain[V], item: Any, dim: int) -> Any:
    """A value or a constant with one more dimension."""
    if is_value(item):
        return domain.affine(Affine(lambda t: t.unsqueeze(dim)), item)
    return item.unsqueeze(dim)


def _difference(domain: Domain[V], left: Any, right: Any) -> Any:
    """``left - right`` up to a sign, where one of them may be constant."""
    if is_value(left) and is_value(right):
        return domain.affine(SUBTRACT, left, right)
    value, constant = (left, right) if is_value(left) else (right, left)
    rest = len(value.shape) - 1
    shape = torch.broadcast_shapes(tuple(value.shape[1:]), tuple(constant.shape[-rest:]))
    spread = domain.affine(Affine(lambda t: t.expand(t.shape[0], *shape)), value)
    return domain.affine(Affine(lambda t: t, offset=-constant, terms=1), spread)


@rule(aten.prod.dim_int, kind="growth")
def row_product(domain: Domain[V], value: Any, dim: int, keepdim: bool = False, **_: Any) -> V:
    """The product of values along a dimension."""
    found, *rest = _parts(domain, value, dim)
    for part in rest:
        found = product(domain, found, part)
    return _without(domain, found, [dim], keepdim)


@rule(aten.cumprod.default, kind="growth")
def running_product(domain: Domain[V], value: Any, dim: int, **_: Any) -> V:
    """Products of ever more values along a dimension."""
    parts = _parts(domain, value, dim)
    found = parts[:1]
    for part in parts[1:]:
        found.append(product(domain, found[-1], part))
    return domain.affine(Affine(lambda *each: torch.cat(each, dim)), *found)


@rule(aten.var.correction, kind="growth")
def variance(
    domain: Domain[V], value: Any, dims: Any = None, *, correction: Any = 1, keepdim: bool = False
) -> V:
    """The mean square of what is centred."""
    places = _places(value, dims)
    count = math.prod(value.shape[place] for place in places)
    squares = domain.grow(Power(Fraction(2)), centred(domain, value, places))
    rest = count - (1 if correction is None else correction)
    add = Affine(lambda t: t.sum(places, keepdim), terms=count)
    return scaled(domain, domain.affine(add, squares), 1.0 / rest)


@rule(aten.var_mean.correction, kind="growth")
def variance_and_mean(
    domain: Domain[V], value: Any, dims: Any = None, *, correction: Any = 1, keepdim: bool = False
) -> list[V]:
    """Both."""
    places = _places(value, dims)
    count = math.prod(value.shape[place] for place in places)
    mean = Affine(lambda t: t.mean(places, keepdim), terms=count, averages=True)
    return [
        variance(domain, value, places, correction=correction, keepdim=keepdim),
        domain.affine(mean, value),
    ]


def _places(value: Any, dims: Any) -> list[int]:
    if dims is None:
        return list(range(1, len(value.shape)))
    return [dims] if isinstance(dims, int) else list(dims)


@rule(aten.hypot.default, kind="growth", data=(0, 1), together=True)
def hypotenuse(domain: Domain[V], left: V, right: V) -> V:
    """``sqrt(x^2 + y^2)``."""
    squares = [domain.grow(Power(Fraction(2)), each) for each in (left, right)]
    return domain.grow(Power(Fraction(1, 2)), domain.affine(ADD, *squares))


@rule(aten._trilinear.default, kind="growth", data=(0, 2), together=True)
def bilinear(domain: Domain[V], left: Any, weight: Tensor, right: Any, *options: Any) -> V:
    """A bilinear layer: products of two values, summed with weights."""
    return domain.grow(
        Product(lambda x, y: aten._trilinear(x, weight.to(x), y, *options), left.shape[-1] ** 2),
        left,
        right,
    )


def _needs_positive(base: float, *_: Any) -> str | None:
    return None if base > 0 else f"raises {base} to a power; the base must be positive"


@rule(aten.pow.Scalar, kind="growth", data=(1,), refuse=_needs_positive)
def power_of(domain: Domain[V], base: float, value: V) -> V:
    """A constant to the power of a value."""
    return domain.grow(Exponential(), scaled(domain, value, math.log(base)))


@rule(aten.exp2.default, kind="growth")
def exp2(domain: Domain[V], value: V) -> V:
    """Two to the power of a value."""
    return power_of(domain, 2.0, value)


def _at_rest(target: Any, text: str) -> None:
    """Register a function that has no limit of its own, but acts on values at rest."""

    def lower(domain: Domain[V], value: V) -> V:
        return domain.grow(AtRest(target, text, lipschitz=1.0, curvature=1.0), value)

    lower.__doc__ = f"of values at rest alone; of others {text}"
    rule(target, kind="growth")(lower)


_at_rest(aten.sin.default, NO_LIMIT)
_at_rest(aten.cos.default, NO_LIMIT)
_at_rest(aten.asinh.default, "it grows like log t, which is no power of t")


@rule(aten.clamp.Tensor, kind="largest")
def clamp_by_tensors(domain: Domain[V], value: V, low: Any = None, high: Any = None) -> V:
    """Cut off below and above, each element by limits of its own."""
    found = value if low is None else maximum(domain, value, low)
    return found if high is None else minimum(domain, found, high)
