"""Tubes: series that say how far off they may be, for all ``t`` from some ``T`` on.

A tube holds a value ``v`` along a ray as

    ``v(t) = sum of (c_k + d_k) t^k + sum of r_k(t) t^k``   for all ``t >= T``,

with numbers ``c_k`` that are known, *errors* ``|d_k| <= error_k`` that do not change with ``t``
(rounding), and *rests* ``|r_k(t)| <= rest_k`` that may (what was cut off). Where no rest is left at
order ``k`` or above, ``c_k + d_k`` is the true coefficient. Orders below the lowest that is kept
are part of its rest: ``t^j <= T^(j - k) t^k`` for ``j < k``. These are Taylor models in ``1 / t``
(Makino and Berz 2003) whose polynomials have balls for coefficients.

Bounds are computed in floating point and made larger by ``SLACK`` each time, which covers the
rounding of sums of up to a million numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from farfield.exact.bounded import ROUNDOFF, gamma
from farfield.exact.leads import SLACK
from farfield.exact.series.value import beside
from farfield.graph.growth import Tensors

# What is smaller than this is bounded by it, so that products of bounds never vanish by underflow.
LEAST = 1e-100


class Ball(NamedTuple):
    """Coefficients of one order: numbers, bounds on their errors, and on what changes with t."""

    value: Tensor
    error: Tensor
    rest: Tensor

    @classmethod
    def exact(cls, value: Tensor) -> Ball:
        """Numbers that are known."""
        return cls(value, torch.zeros_like(value), torch.zeros_like(value))

    @classmethod
    def only(cls, rest: Tensor) -> Ball:
        """Nothing but a rest."""
        return cls(torch.zeros_like(rest), torch.zeros_like(rest), rest)

    @property
    def size(self) -> Tensor:
        """The most that the coefficient can be."""
        return (self.value.abs() + self.error + self.rest) * SLACK

    @property
    def some(self) -> Tensor:
        """Where it is not exactly zero."""
        return (self.value != 0) | (self.error != 0) | (self.rest != 0)

    def plus(self, other: Ball) -> Ball:
        """The sum of two."""
        value = self.value + other.value
        # Adding zero is exact.
        rounded = (self.value != 0) & (other.value != 0)
        rounding = (2 * ROUNDOFF * value.abs()).masked_fill(~rounded, 0.0)
        error = (self.error + other.error) * SLACK + rounding
        return Ball(value, error, (self.rest + other.rest) * SLACK)

    def scaled(self, factor: Tensor) -> Ball:
        """All of it times a number that may be rounded itself."""
        value, size = self.value * factor, factor.abs()
        simple = (size == 0) | (size == 1)
        rounding = torch.where(simple, 0.0, 4 * ROUNDOFF * value.abs())
        return Ball(value, self.error * size * SLACK + rounding, self.rest * size * SLACK)

    def where(self, condition: Tensor, other: Ball | None = None) -> Ball:
        """Itself where a condition holds, elsewhere another or zero."""
        if other is None:
            return Ball(*(part.masked_fill(~condition, 0.0) for part in self))
        pairs = zip(self, other, strict=True)
        return Ball(*(torch.where(condition, mine, its) for mine, its in pairs))


Balls = Mapping[int, Ball]


@dataclass(frozen=True, slots=True)
class Tube:
    """A value by its orders; those that are not there are exactly zero."""

    shape: torch.Size
    balls: Balls
    device: torch.device

    def new_zeros(self, shape: tuple[int, ...]) -> Tensor:
        """Zeros of the same type and on the same device."""
        return torch.zeros(shape, dtype=torch.float64, device=self.device)

    def ball(self, order: int) -> Ball:
        """The coefficients of an order, perhaps zero."""
        found = self.balls.get(order)
        return Ball.exact(self.new_zeros(tuple(self.shape))) if found is None else found


@dataclass(frozen=True, slots=True)
class Frame:
    """For which ``t`` tubes hold, and how many orders they keep.

    Attributes:
        start: ``(rays,)`` the ``T`` of every ray.
        low: The order of the rest that everything lower is part of.
    """

    start: Tensor
    low: int

    def power(self, exponent: int, like: Tensor) -> Tensor:
        """``T^exponent`` in a shape that broadcasts against numbers."""
        return beside(self.start, like) ** exponent

    def start_to(self, order: Tensor) -> Tensor:
        """``T^order`` for every element."""
        return beside(self.start, order) ** order

    def cut(self, balls: Mapping[int, Ball]) -> dict[int, Ball]:
        """Orders that are kept; lower ones become part of the lowest one's rest."""
        kept = {order: ball for order, ball in balls.items() if order > self.low}
        lower = [
            self.lowered(ball.size, order) for order, ball in balls.items() if order <= self.low
        ]
        if lower:
            rest = torch.stack(torch.broadcast_tensors(*lower)).sum(dim=0) * SLACK
            kept[self.low] = Ball.only(rest)
        return kept

    def lowered(self, size: Tensor, order: int) -> Tensor:
        """What an order that is not kept adds to the lowest one's rest; underflow loses nothing."""
        rest = size * self.power(order - self.low, size) * SLACK
        return torch.where(size == 0, 0.0, rest.clamp(min=LEAST))

    def times(
        self, one: Balls, other: Balls, function: Tensors = torch.mul, terms: int = 1
    ) -> dict[int, Ball]:
        """A product, or a sum of so many."""
        share = gamma(terms)
        found: dict[int, Ball] = {}
        for i, a in one.items():
            for j, b in other.items():
                order = max(i + j, self.low)
                if i + j <= self.low:
                    ball = Ball.only(self.lowered(function(a.size, b.size), i + j))
                else:
                    ball = _product(function, a, b, share)
                found[order] = found[order].plus(ball) if order in found else ball
        return found

    def moved(self, balls: Balls, by: Tensor) -> dict[int, Ball]:
        """Every element times its own power of ``t``."""
        found: dict[int, Ball] = {}
        for each in torch.unique(by).tolist():
            here = by == each
            for order, ball in balls.items():
                part = ball.where(here)
                new = order + each
                found[new] = found[new].plus(part) if new in found else part
        return self.cut(found)

    def reaches(self, balls: Balls) -> Tensor:
        """The most that a value which does not grow can be off its coefficient of order 0."""
        moving = [
            ball.rest if order == 0 else ball.size * self.power(order, ball.value)
            for order, ball in balls.items()
            if order <= 0
        ]
        return torch.stack(torch.broadcast_tensors(*moving)).sum(dim=0) * SLACK

    def lead(self, balls: Balls) -> Lead:
        """Which sign a value has for all ``t`` from ``T`` on, where one is proven."""
        orders = sorted(balls, reverse=True)
        first = balls[orders[0]].value
        sign, margin = torch.zeros_like(first), torch.zeros_like(first)
        at = torch.zeros(first.shape, dtype=torch.int64, device=first.device)
        zero = torch.ones(first.shape, dtype=torch.bool, device=first.device)
        for place, order in enumerate(orders):
            ball = balls[order]
            here = zero & ball.some
            side = torch.sign(ball.value)
            against = ball.error + ball.rest
            for lower in orders[place + 1 :]:
                other = balls[lower]
                back = other.error + other.rest + (-side * other.value).clamp(min=0.0)
                against = against + back * self.power(lower - order, back)
            room = ball.value.abs() - against * SLACK
            sign = torch.where(here & (room > 0), side, sign)
            margin = torch.where(here, room / SLACK, margin)
            at = torch.where(here, order, at)
            zero = zero & ~here
        return Lead(sign, margin, at, zero)


class Lead(NamedTuple):
    """How a value stands to zero for all ``t >= T``.

    Attributes:
        sign: 1 or -1 where that is proven.
        margin: ``|v(t)| >= margin * t^order`` where it is.
        order: Its highest order that is not exactly zero.
        zero: Where it is exactly zero.
    """

    sign: Tensor
    margin: Tensor
    order: Tensor
    zero: Tensor

    @property
    def decided(self) -> Tensor:
        """Whether the sign is proven, or the value exactly zero."""
        return (self.sign != 0) | self.zero


def _product(function: Tensors, a: Ball, b: Ball, share: float) -> Ball:
    """The product of two coefficients."""
    sizes = (a.value.abs(), b.value.abs())
    one, other = sizes[0] + a.error, sizes[1] + b.error
    error = function(one, b.error) + function(a.error, sizes[1]) + share * function(*sizes)
    rest = function(one + a.rest, b.rest) + function(a.rest, other)
    return Ball(function(a.value, b.value), error * SLACK, rest * SLACK)


def added(one: Balls, other: Balls) -> dict[int, Ball]:
    """The sum of two values."""
    found = dict(one)
    for order, ball in other.items():
        found[order] = found[order].plus(ball) if order in found else ball
    return found


def growing(balls: Balls) -> Tensor:
    """Where a value has, or may have, orders above 0."""
    first = next(iter(balls.values())).value
    found = torch.zeros(first.shape, dtype=torch.bool, device=first.device)
    for order, ball in balls.items():
        if order > 0:
            found = found | ball.some
    return found
