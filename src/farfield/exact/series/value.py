"""A value in falling powers of ``t``.

Along a ray a value is ``c_m t^m + c_{m-1} t^{m-1} + ... + c_p t^p`` and a rest that is smaller than
its last power, up to parts that fall faster than any power. Order is lexicographic: the highest
order in which two values differ says which is larger for all large ``t``.

Orders are whole numbers, but for what powers with other exponents and logarithms bring in: these
have fractions, exactly, and :data:`LOG`, which is above zero and below every power.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

# Numbers below this many times their likely rounding error are taken for zero, and said to be.
SAFETY = 16.0
EXACT = -math.inf
Order = int | Fraction
Terms = dict[Order, Tensor]
# The order of ``log t``: positive, and smaller than any difference of sums of floats.
LOG = Fraction(1, 2**1100)


@dataclass(frozen=True, slots=True)
class Series:
    """Coefficients by order; orders that are not there are zero, down to ``bottom``.

    Attributes:
        shape: Rays first.
        terms: The coefficients of every order, ``(rays, ...)``; at least one.
        noise: How large their rounding errors may well be, ``(rays,)`` for every order.
        bottom: ``(rays,)`` the lowest order that is known; minus infinity if all are.
        loose: ``(rays,)`` whether parts were left out that fall faster than any power.
    """

    shape: torch.Size
    terms: Mapping[Order, Tensor]
    noise: Mapping[Order, Tensor]
    bottom: Tensor
    loose: Tensor

    def __post_init__(self) -> None:
        """Forget coefficients below what is known: no decision may look at them."""
        known = float(self.bottom.max())
        if any(order < known for order in self.terms):
            terms = {
                order: part.masked_fill(beside(self.bottom, part) > float(order), 0.0)
                for order, part in self.terms.items()
            }
            object.__setattr__(self, "terms", terms)

    @property
    def device(self) -> torch.device:
        """Where the numbers live."""
        return self.bottom.device

    def new_zeros(self, shape: tuple[int, ...]) -> Tensor:
        """Zeros of the same type and on the same device."""
        return self.bottom.new_zeros(shape)

    @property
    def orders(self) -> list[Order]:
        """The orders that are there, highest first."""
        return sorted(self.terms, reverse=True)

    def term(self, order: Order) -> Tensor:
        """The coefficients of an order, perhaps zero."""
        found = self.terms.get(order)
        return self.new_zeros(tuple(self.shape)) if found is None else found

    def noise_of(self, order: Order) -> Tensor:
        """The likely rounding error of an order, ``(rays,)``."""
        found = self.noise.get(order)
        return torch.zeros_like(self.bottom) if found is None else found

    def sign(self, threshold: float = 0.0, above: float = -math.inf) -> Tensor:
        """1, 0 or -1: where the value stands to a constant for all large ``t``.

        Args:
            threshold: The constant.
            above: Only orders above this one are looked at.
        """
        found = self.new_zeros(tuple(self.shape))
        orders = sorted({*self.terms, *([0] if threshold else [])}, reverse=True)
        for order in orders:
            if order <= above:
                break
            part = self.term(order)
            if order == 0 and threshold:
                part = part - threshold
            found = torch.where(found == 0, torch.sign(part), found)
        return found

    def degree(self) -> Tensor:
        """``(rays,)`` the highest order of any element; one below what is known if none shows."""
        found = self.bottom - 1
        for order in reversed(self.orders):
            some = per_ray(self.terms[order] != 0).any(dim=1)
            found = torch.where(some, float(order), found)
        return found

    def times(self, factor: Tensor) -> Terms:
        """All coefficients times a factor."""
        return {order: part * factor for order, part in self.terms.items()}


def per_ray(values: Tensor) -> Tensor:
    """All numbers of each ray in one row."""
    return values.reshape(len(values), -1)


def typical(values: Tensor) -> Tensor:
    """``(rays,)`` the root of the mean square of each ray's numbers that are not zero."""
    size: Tensor = torch.linalg.vector_norm(per_ray(values), dim=1)
    return size / present(values).sqrt()


def present(values: Tensor) -> Tensor:
    """``(rays,)`` how many of each ray's numbers are not zero; at least one."""
    return torch.count_nonzero(per_ray(values), dim=1).clamp(min=1)


def beside(numbers: Tensor, values: Tensor) -> Tensor:
    """One number per ray, in a shape that broadcasts against values."""
    return numbers.reshape(-1, *[1] * (values.ndim - 1))
