"""Functions of tubes that do not grow, by Taylor's formula with a bounded remainder.

A value at rest is ``a + h(t)`` with ``a`` its coefficient of order 0, known up to an error, and
``h`` small: ``f(a + h) = sum of f^(j)(a) / j! h^j`` for ``j < n``, and at most
``sup |f^(n)| / n! |h|^n`` more, where the supremum is over all that the value takes from ``T`` on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from farfield.exact.bounded import FUNCTION_ERROR
from farfield.exact.leads import SLACK
from farfield.exact.series.expansions import derivative
from farfield.exact.series.tube import LEAST, Ball, Balls, Frame, added
from farfield.graph.growth import AtRest
from farfield.graph.rules import Smooth


class Expansion(NamedTuple):
    """``f^(j)(a) / j!`` for ``j < n`` and a bound on ``|f^(n)| / n!``.

    ``valid`` tells where the function has them on all that the value takes.
    """

    taylor: Sequence[Ball]
    bound: Tensor
    valid: Tensor


class Whole(NamedTuple):
    """A value at rest.

    Attributes:
        centre: Its coefficient of order 0.
        steps: What it moves by around that.
        low: The least that it is from ``T`` on.
        high: The most.
    """

    centre: Ball
    steps: dict[int, Ball]
    low: Tensor
    high: Tensor


def at_rest(frame: Frame, balls: Balls, where: Tensor) -> Whole:
    """Split values that do not grow; the others are taken for zero."""
    kept = {order: ball.where(where) for order, ball in balls.items() if order <= 0}
    zero = torch.zeros(where.shape, dtype=torch.float64, device=where.device)
    centre = kept.pop(0, Ball.exact(zero))
    steps = dict(kept)
    if bool((centre.rest != 0).any()):
        steps[0] = Ball.only(centre.rest)
    width = frame.reaches(steps) if steps else zero
    reach = (centre.error + width) * SLACK
    nudge = reach + 4 * torch.finfo(torch.float64).eps * centre.value.abs()
    return Whole(centre, steps, centre.value - nudge, centre.value + nudge)


def composed(frame: Frame, whole: Whole, expansion: Expansion) -> dict[int, Ball]:
    """The function of the value: Horner's scheme, and the remainder."""
    found: dict[int, Ball] = {0: expansion.taylor[-1]}
    for each in reversed(expansion.taylor[:-1]):
        found = added(frame.times(found, whole.steps), {0: each})
    if not whole.steps:
        return found
    sizes: dict[int, Ball] = {o: Ball.only(ball.size) for o, ball in whole.steps.items()}
    remainder: dict[int, Ball] = {0: Ball.only(expansion.bound * SLACK)}
    for _ in expansion.taylor:
        remainder = frame.times(remainder, sizes)
    return added(found, remainder)


def of_power(whole: Whole, exponent: float, count: int) -> Expansion:
    """``x^exponent`` of positive values."""
    centre, low, high = whole.centre, whole.low, whole.high
    valid = low > 0
    at = torch.where(valid, centre.value, 1.0)
    ends = (torch.where(valid, low, 1.0), torch.where(valid, high, 1.0))

    def largest(power: float) -> Tensor:
        return torch.maximum(*(end**power for end in ends)) * SLACK

    taylor, factor = [], 1.0
    for order in range(count):
        power = exponent - order
        value = factor * at**power
        error = abs(factor * power) * largest(power - 1) * centre.error
        taylor.append(_known(value, error))
        factor *= power / (order + 1)
    return Expansion(taylor, abs(factor) * largest(exponent - count), valid)


def of_exponential(whole: Whole, count: int) -> Expansion:
    """``exp(x)``; what vanishes by underflow is still bounded."""
    value = torch.exp(whole.centre.value)
    spread = value * torch.expm1(whole.centre.error) + value * FUNCTION_ERROR * (
        1 + whole.centre.value.abs()
    )
    taylor = [
        _known(value / math.factorial(order), spread / math.factorial(order) + LEAST)
        for order in range(count)
    ]
    small = value < LEAST
    taylor = [ball._replace(value=ball.value.masked_fill(small, 0.0)) for ball in taylor]
    taylor = [ball._replace(error=ball.error + LEAST * small) for ball in taylor]
    most = torch.exp(whole.high) / math.factorial(count) + LEAST
    return Expansion(taylor, most, torch.isfinite(most))


def of_logarithm(whole: Whole, count: int) -> Expansion:
    """``log(x)`` of positive values."""
    valid = whole.low > 0
    at = torch.where(valid, whole.centre.value, 1.0)
    low = torch.where(valid, whole.low, 1.0)
    error = whole.centre.error
    taylor = [_known(torch.log(at), error / low + FUNCTION_ERROR)]
    for order in range(1, count):
        value = (-1) ** (order - 1) / (order * at**order)
        taylor.append(_known(value, error / low ** (order + 1)))
    return Expansion(taylor, SLACK / (count * low**count), valid)


def of_curve(whole: Whole, curve: Smooth | AtRest, count: int) -> Expansion:
    """A smooth activation: its slope is bounded, perhaps its second derivative too."""
    at, error = whole.centre.value, whole.centre.error
    value = curve.function(at)
    spread = curve.lipschitz * error + FUNCTION_ERROR * (at.abs() + value.abs())
    taylor = [_known(value, spread)]
    valid = torch.ones_like(at, dtype=torch.bool)
    if isinstance(curve, Smooth) and curve.jump is not None:
        place = float(curve.jump)
        valid = (whole.low > place) | (whole.high < place)
    bound = torch.full_like(at, curve.lipschitz)
    if count == 1 or not math.isfinite(curve.curvature):
        return Expansion(taylor, bound, valid)
    slope = _known(
        derivative(curve.function)(at).detach(), curve.curvature * error + FUNCTION_ERROR
    )
    taylor.append(slope)
    return Expansion(taylor, torch.full_like(at, curve.curvature / 2), valid)


def bends(whole: Whole, curve: Smooth) -> Tensor:
    """Where values may pass a place without a second derivative."""
    found = torch.zeros_like(whole.low, dtype=torch.bool)
    for kink in curve.kinks:
        found = found | ((whole.low <= kink) & (whole.high >= kink))
    return found


def _known(value: Tensor, error: Tensor) -> Ball:
    """A computed number: what it is off by, and some rounding of its own."""
    return Ball(value, error * SLACK + FUNCTION_ERROR * value.abs(), torch.zeros_like(value))
