"""What changes growth, in series: products, powers, norms, softmax, exponentials, logarithms.

With ``s = 1 / t`` a value is ``t^m (a_0 + a_1 s + a_2 s^2 + ...)`` where ``m`` is the order of its
leading coefficient. Powers and norms act on the power series in brackets; ``m`` may differ from
element to element, or from row to row, and is found first.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from farfield.errors import UnsupportedOperation
from farfield.exact.series.expansions import composed, exponential, power, times
from farfield.exact.series.leading import NONE, leading_order, placed, shifted
from farfield.exact.series.scales import refuse_odd, warped
from farfield.exact.series.value import EXACT, SAFETY, Series, Terms, beside, per_ray, typical
from farfield.graph.growth import (
    AtRest,
    BoxCox,
    Exponential,
    Growth,
    Logarithm,
    Normalisation,
    Power,
    Product,
    SharingOut,
)

if TYPE_CHECKING:
    from farfield.exact.series.domain import SeriesDomain


class FinerOrders(UnsupportedOperation):
    """A root of ``t`` is needed: the walk must count orders in smaller parts."""

    def __init__(self, exponent: Fraction) -> None:
        super().__init__(
            f"a power of {exponent} grows with too small a root of t; such orders are not followed"
        )
        self.exponent = exponent


def grown(domain: SeriesDomain, operation: Growth, *values: Series) -> Series:
    """Apply an operation."""
    if not (isinstance(operation, Product) or _is_whole(operation)):
        refuse_odd(values[0], type(operation).__name__.lower())
    match operation:
        case Product():
            return multiplied(domain, operation, *values)
        case Power():
            return raised(domain, operation.exponent, *values)
        case Normalisation():
            return normalised(domain, operation, *values)
        case SharingOut():
            return shared_out(domain, operation.dim, *values)
        case Exponential():
            return exponentiated(domain, *values)
        case Logarithm():
            return warped(domain, torch.zeros((), dtype=torch.float64), *values)
        case AtRest():
            return resting(domain, operation, *values)
        case BoxCox():
            return warped(domain, operation.exponents, *values)


def _is_whole(operation: Growth) -> bool:
    """Whether this is a product of a value with itself."""
    if not isinstance(operation, Power):
        return False
    return operation.exponent.denominator == 1 and operation.exponent > 0


def multiplied(domain: SeriesDomain, operation: Product, one: Series, other: Series) -> Series:
    """The Cauchy product; orders below the floor are left out, and said to be."""
    terms: Terms = {}
    noise: Terms = {}
    sizes = [{o: typical(part) for o, part in each.terms.items()} for each in (one, other)]
    growth = math.sqrt(operation.terms)
    cut = False
    for i in one.orders:
        for j in other.orders:
            order = i + j
            if order < domain.floor:
                cut = True
                continue
            part = operation.function(one.terms[i], other.terms[j])
            error = growth * (
                one.noise_of(i) * sizes[1][j]
                + other.noise_of(j) * sizes[0][i]
                + domain.unit * sizes[0][i] * sizes[1][j]
            )
            terms[order] = terms[order] + part if order in terms else part
            noise[order] = noise[order] + error if order in noise else error
    bottom = _known_product(one, other)
    if cut:
        bottom = bottom.clamp(min=float(domain.floor))
    if not terms:
        first = operation.function(one.term(one.orders[0]), other.term(other.orders[0]))
        terms, noise = {0: torch.zeros_like(first)}, {0: torch.zeros_like(bottom)}
    return settled(domain, terms, noise, bottom, one.loose | other.loose)


def _known_product(one: Series, other: Series) -> Tensor:
    """Down to which order a product is known; a factor that is exactly zero leaves nothing open."""
    return torch.maximum(one.degree() + other.bottom, other.degree() + one.bottom).ceil()


def settled(
    domain: SeriesDomain,
    terms: Terms,
    noise: Terms,
    bottom: Tensor,
    loose: Tensor,
) -> Series:
    """A series of computed coefficients: growing ones that may be rounding are zero."""
    kept = {}
    for order, part in terms.items():
        clean = domain.without_noise(part, noise[order]) if order > 0 else part
        if order <= 0 or bool((clean != 0).any()):
            kept[order] = clean
    if not kept:
        kept = {0: torch.zeros_like(next(iter(terms.values())))}
    noise = {order: noise.get(order, torch.zeros_like(bottom)) for order in kept}
    return Series(next(iter(kept.values())).shape, kept, noise, bottom, loose)


def raised(domain: SeriesDomain, exponent: Fraction, value: Series) -> Series:
    """A power: whole positive ones are products, others are found behind the leading order."""
    if exponent.denominator == 1 and exponent > 0:
        result = value
        for _ in range(int(exponent) - 1):
            result = multiplied(domain, Product(torch.mul), result, value)
        return result
    order, zero = leading_order(domain, value)
    met = per_ray(zero).any(dim=1)
    self_known = ~torch.isfinite(value.bottom) & ~value.loose
    if exponent < 0:
        domain.lacking |= met & torch.isfinite(value.bottom)
        domain.undecided |= met & ~torch.isfinite(value.bottom)
    else:
        domain.lacking |= met & ~self_known
    whole = exponent.denominator == 1
    broken = (order * exponent.numerator) % exponent.denominator != 0
    if bool((broken & ~zero).any()):
        raise FinerOrders(exponent)
    count = _count(domain, exponent, order, zero)
    series = [each.masked_fill(zero, 0.0) for each in shifted(value, order, count)]
    series[0] = series[0].masked_fill(zero, 1.0)
    if not whole:
        # Such a power of what is negative far out is no number.
        negative = series[0] < 0
        domain.undecided |= per_ray(negative).any(dim=1)
        series[0] = series[0].abs()
    found = [each.masked_fill(zero, 0.0) for each in power(series, float(exponent))]
    new_order = (order.to(torch.float64) * float(exponent)).round().to(order.dtype)
    terms = placed(found, new_order, zero, domain.floor)
    relative = (beside(_leading_noise(value), series[0]) / series[0]).masked_fill(zero, 0.0)
    lost = (new_order - order).to(value.bottom).masked_fill(zero, EXACT)
    return _of_rows(domain, value, terms, lost, _falls_on(value), relative)


def _count(domain: SeriesDomain, exponent: Fraction, order: Tensor, zero: Tensor) -> int:
    """How many coefficients of a power are needed: from its highest order down to the floor."""
    highest = float((order.masked_fill(zero, 0) * float(exponent)).max())
    return max(1, int(highest) - domain.floor + 1)


def _leading_noise(value: Series) -> Tensor:
    return torch.stack([value.noise_of(order) for order in value.orders]).amax(dim=0)


def _of_rows(
    domain: SeriesDomain,
    value: Series,
    terms: Terms,
    lost: Tensor,
    endless: Tensor,
    relative: Tensor,
) -> Series:
    """A result whose elements are known as many orders below their lead as the value's were.

    Args:
        domain: The walk.
        value: What it was made of.
        terms: Its coefficients.
        lost: By how many orders elements grow faster than those of the value.
        endless: ``(rays,)`` whether it has orders below the floor.
        relative: The likely error of each element, as a share of it.
    """
    bottom = per_ray(beside(value.bottom, lost) + lost).amax(dim=1)
    clipped = bottom.clamp(min=float(domain.floor))
    bottom = torch.where(torch.isfinite(bottom) | endless, clipped, bottom)
    noise = {
        each: 2 * typical(part * relative) + domain.unit * typical(part)
        for each, part in terms.items()
    }
    return settled(domain, terms, noise, bottom, value.loose)


def _falls_on(value: Series) -> Tensor:
    """Whether a value has several orders, so that powers of it have endlessly many."""
    some = [per_ray(part != 0).any(dim=1) for part in value.terms.values()]
    return torch.stack(some).sum(dim=0) > 1


def normalised(domain: SeriesDomain, operation: Normalisation, value: Series) -> Series:
    """``x / sqrt(mean(x^2) + epsilon)``, row by row behind each row's own leading order."""
    where = tuple(range(-operation.dims, 0))
    order = _row_order(value, where, at_least=0 if operation.epsilon > 0 else None)
    zero = order == NONE
    met = per_ray(zero).any(dim=1)
    domain.lacking |= met & torch.isfinite(value.bottom)
    domain.undecided |= met & ~torch.isfinite(value.bottom)
    order = order.masked_fill(zero, 0)
    count = 1 - domain.floor
    series = shifted(value, order.expand(value.shape), count)
    squares = [part.mean(where, keepdim=True) for part in times(series, series)]
    for place in range(count):
        squares[place] = squares[place] + operation.epsilon * (2 * order == place).to(squares[0])
    squares[0] = squares[0].masked_fill(zero, 1.0)
    scale = power(squares, -0.5)
    found = times(series, [each.expand(value.shape) for each in scale])
    terms: Terms = {-place: part for place, part in enumerate(found)}
    relative = beside(_leading_noise(value), scale[0]) * scale[0]
    endless = _falls_on(value) | (per_ray(order > 0).any(dim=1) & (operation.epsilon > 0))
    lost = (-order).to(value.bottom)
    return _of_rows(domain, value, terms, lost, endless, relative)


def _row_order(value: Series, where: tuple[int, ...], at_least: int | None) -> Tensor:
    """The leading order of every row; those that show none are at rest, if that is possible."""
    shape = [1 if place - len(value.shape) in where else n for place, n in enumerate(value.shape)]
    order = torch.full(shape, NONE, dtype=torch.int64, device=value.device)
    for each in value.orders:
        if at_least is not None and each < at_least:
            continue
        part = value.terms[each]
        some = part.abs() > SAFETY * beside(value.noise_of(each), part)
        order = torch.where((order == NONE) & _any(some, where), int(each), order)
    return order if at_least is None else order.clamp(min=at_least)


def _any(flags: Tensor, where: tuple[int, ...]) -> Tensor:
    return flags.to(torch.uint8).amax(where, keepdim=True).bool()


def shared_out(domain: SeriesDomain, dim: int, value: Series) -> Series:
    """Softmax: growing orders select the winners, the others are shared out among these."""
    winners = _winners(domain, dim, value)
    several = per_ray(winners.sum(dim, keepdim=True) > 1).any(dim=1)
    domain.lacking |= several & (value.bottom > 0)
    at = [value.term(-place) for place in range(1 - domain.floor)]
    top = at[0].masked_fill(~winners, -torch.inf).amax(dim, keepdim=True)
    series = [(at[0] - top).masked_fill(~winners, -torch.inf), *at[1:]]
    # Losers take no part, at any order.
    series = [series[0], *(each.masked_fill(~winners, 0.0) for each in series[1:])]
    shares = exponential(series)
    total = [each.sum(dim, keepdim=True).expand(value.shape) for each in shares]
    found = times(shares, power(total, -1.0))
    terms: Terms = {-place: part for place, part in enumerate(found)}
    falls = (
        per_ray(torch.stack([(each != 0) for each in series[1:]]).any(dim=0)).any(dim=1)
        if (len(series) > 1)
        else torch.zeros_like(several)
    )
    bottom = value.bottom.masked_fill(~several, EXACT)
    cut = falls & several
    bottom = torch.where(cut | torch.isfinite(bottom), bottom.clamp(min=domain.floor), bottom)
    loses = per_ray(~winners).any(dim=1)
    error = value.noise_of(0) + domain.unit
    noise = {order: error + value.noise_of(order) for order in terms}
    return Series(value.shape, terms, noise, bottom, value.loose | loses)


def _winners(domain: SeriesDomain, dim: int, value: Series) -> Tensor:
    """Who is largest in all growing orders; differences that may be rounding are ties."""
    # What a mask shuts out with minus infinity loses whatever grows.
    winners = value.term(0) > -torch.inf
    for order in value.orders:
        if order <= 0:
            break
        part = value.terms[order]
        best = part.masked_fill(~winners, -torch.inf).amax(dim, keepdim=True)
        slack = SAFETY * beside(value.noise_of(order), part)
        near = winners & (part >= best - slack)
        domain.doubtful |= per_ray(near & (part != best)).any(dim=1)
        winners = near
    return winners


def exponentiated(domain: SeriesDomain, value: Series) -> Series:
    """``exp``: flat where the value falls for ever, a Taylor series at rest."""
    motion = value.sign(above=0)
    if bool((motion > 0).any()):
        raise UnsupportedOperation(
            "exp of a value that keeps growing outgrows every power of t; such growth is not "
            "followed"
        )
    rest = motion == 0
    series = [value.term(-place).masked_fill(~rest, 0.0) for place in range(1 - domain.floor)]
    found = [each.masked_fill(~rest, 0.0) for each in exponential(series)]
    terms: Terms = {-place: part for place, part in enumerate(found)}
    any_rest, moves = per_ray(rest).any(dim=1), per_ray(~rest).any(dim=1)
    bottom = _function_bottom(domain, value, any_rest)
    noise = {order: value.noise_of(order) * typical(found[0]) for order in terms}
    noise[0] = noise[0] + domain.unit * typical(found[0])
    return Series(value.shape, terms, noise, bottom, (value.loose & any_rest) | moves)


def resting(domain: SeriesDomain, operation: AtRest, value: Series) -> Series:
    """A smooth function of values at rest, by its Taylor series."""
    if bool((value.sign(above=0) != 0).any()):
        name = getattr(operation.function, "__name__", str(operation.function)).partition(".")[0]
        raise UnsupportedOperation(f"{name} of a value that keeps growing: {operation.reason}")
    series = [value.term(-place) for place in range(1 - domain.floor)]
    terms: Terms = {-place: part for place, part in enumerate(composed(operation.function, series))}
    noise = {order: value.noise_of(order) + domain.unit for order in terms}
    always = torch.ones_like(value.loose)
    return Series(value.shape, terms, noise, _function_bottom(domain, value, always), value.loose)


def _function_bottom(domain: SeriesDomain, value: Series, rest: Tensor) -> Tensor:
    """Down to which order a function of values at rest is known."""
    falls = torch.zeros_like(rest)
    for order, part in value.terms.items():
        if order < 0:
            falls |= per_ray(part != 0).any(dim=1)
    bottom = value.bottom.masked_fill(~rest, EXACT)
    bottom = torch.where(rest & (bottom > 0), bottom.clamp(min=1.0), bottom)
    return torch.where(falls & rest, bottom.clamp(min=float(domain.floor)), bottom)
