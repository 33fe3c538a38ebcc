"""Powers with any exponent, and logarithms, of values that grow: scales between powers of ``t``.

A value ``u = t^m (a_0 + a_1 / t + ...)`` with ``a_0 > 0`` has
``u^e = t^(m e) (p_0 + p_1 / t + ...)`` and ``log u = m log t + log a_0 + ...``. Exponents are the
model's own floats as fractions, so that scales of two columns are the same only if they are, and
what follows is decided lexicographically over all of them as it is over whole powers: affine maps,
pieces, maxima, steps, products. What would need powers of such values again is refused.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from farfield.errors import NumericalOverflow, UnsupportedOperation
from farfield.exact.series.expansions import logarithm, power
from farfield.exact.series.leading import leading_order, shifted
from farfield.exact.series.value import LOG, Order, Series, Terms, beside, per_ray, typical
from farfield.graph.stepwise import box_cox

if TYPE_CHECKING:
    from farfield.exact.series.domain import SeriesDomain


def is_odd(value: Series) -> bool:
    """Whether a value has other orders than whole ones."""
    return any(isinstance(order, Fraction) and order.denominator > 1 for order in value.terms)


def refuse_odd(value: Series, words: str) -> None:
    """Say that an operation does not go with scales of their own."""
    if is_odd(value):
        raise UnsupportedOperation(
            f"{words} of values that grow by a logarithm, or by a power that no root of t has, is "
            "not followed"
        )


def warped(domain: SeriesDomain, exponents: Tensor, value: Series) -> Series:
    """``(u^e - 1) / e`` of positive values, ``log u`` where ``e`` is 0, each column its own.

    Rays on which a value is not positive far out are marked as undecided.
    """
    refuse_odd(value, "a power or logarithm")
    order, zero = leading_order(domain, value)
    met = per_ray(zero).any(dim=1)
    domain.lacking |= met & torch.isfinite(value.bottom)
    first = shifted(value, order, 1)[0]
    outside = zero | (first < 0)
    domain.undecided |= per_ray(outside).any(dim=1) & ~(met & torch.isfinite(value.bottom))
    made = _Scales(domain, value)
    for exponent in exponents.unique().tolist():
        own = exponents == exponent
        for lead in order[own.expand(order.shape)].unique().tolist():
            here = (order == lead) & own & ~outside
            if bool(here.any()):
                made.add(Fraction(exponent), int(lead), here)
    return made.done(exponents, order.masked_fill(outside, 0))


class _Scales:
    """Coefficients that are being put together, some elements after others."""

    def __init__(self, domain: SeriesDomain, value: Series) -> None:
        self.domain, self.value = domain, value
        self.terms: Terms = {0: value.new_zeros(tuple(value.shape))}
        self.noise: Terms = {0: torch.zeros_like(value.bottom)}

    def add(self, exponent: Fraction, lead: int, here: Tensor) -> None:
        """Write the elements whose leading order is ``lead``."""
        top = lead * exponent if exponent else 0
        count = max(1, math.floor(top - self.domain.floor) + 1)
        series = [self.value.term(lead - place) for place in range(count)]
        series[0] = torch.where(here, series[0], 1.0)
        relative = _relative(self.value, series[0]).masked_fill(~here, 0.0)
        if not exponent:
            self._log(series, lead, relative, here)
            return
        error = relative * (1 + abs(float(exponent)))
        raised = power(series, float(exponent))
        if top > 0 and bool((here & (raised[0] == 0)).any()):
            raise NumericalOverflow(
                f"a coefficient raised to the power of {float(exponent):g} left the range of "
                "floating point; bring inputs to a moderate scale"
            )
        for place, part in enumerate(raised):
            if top - place >= self.domain.floor and (lead or place):
                self._put(top - place, part / float(exponent), error, here)
        at_rest = box_cox(series[0], torch.full_like(series[0][:1], float(exponent)))
        offset = torch.full_like(at_rest, -1 / float(exponent)) if lead else at_rest
        self._put(0, offset, error if not lead else torch.zeros_like(error), here)

    def _log(self, series: list[Tensor], lead: int, relative: Tensor, here: Tensor) -> None:
        if lead:
            self._put(LOG, torch.full_like(relative, lead / self.domain.per), 0 * relative, here)
        for place, part in enumerate(logarithm(series)):
            # The error of a logarithm is the relative one of its argument.
            share = relative / part.abs().clamp(min=1e-300) if place == 0 else relative
            self._put(-place, part, share, here)

    def _put(self, order: Order, part: Tensor, relative: Tensor, here: Tensor) -> None:
        """Add coefficients where they belong; ``relative`` is how far off they may well be."""
        order = int(order) if order.denominator == 1 else order
        part = part.masked_fill(~here, 0.0)
        error = typical(part * relative) + 2 * self.domain.unit * typical(part)
        self.terms[order] = self.terms[order] + part if order in self.terms else part
        self.noise[order] = self.noise[order] + error if order in self.noise else error

    def done(self, exponents: Tensor, order: Tensor) -> Series:
        """The value, known as many orders below each lead as it was before, and to the floor."""
        value, domain = self.value, self.domain
        shift = order.to(value.bottom) * (exponents.to(value.bottom) - 1)
        bottom = per_ray(beside(value.bottom, shift) + shift).amax(dim=1).ceil()
        falls = order != 0
        for each, part in value.terms.items():
            falls = falls | ((part != 0) & (order > int(each)))
        cut = per_ray(falls).any(dim=1) | torch.isfinite(bottom)
        bottom = torch.where(cut, bottom.clamp(min=float(domain.floor)), bottom)
        return Series(value.shape, self.terms, self.noise, bottom, value.loose)


def _relative(value: Series, first: Tensor) -> Tensor:
    """How far off leading coefficients may well be, as a share of them."""
    noise = torch.stack([value.noise_of(order) for order in value.orders]).amax(dim=0)
    return beside(noise, first) / first
