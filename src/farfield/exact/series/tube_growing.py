"""What changes growth, in tubes: products, powers, norms, softmax, exponentials, logarithms.

As in :mod:`farfield.exact.series.growing`, a value is brought to rest by the power of ``t`` that it
leads with, and the function taken of that by Taylor's formula. That its leading coefficient is not
zero needs no decision of its own: the function has no bound otherwise.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from farfield.errors import UnsupportedOperation
from farfield.exact.bounded import ROUNDOFF
from farfield.exact.series.growing import FinerOrders
from farfield.exact.series.leading import NONE
from farfield.exact.series.taylor import (
    at_rest,
    composed,
    of_curve,
    of_exponential,
    of_logarithm,
    of_power,
)
from farfield.exact.series.tube import Ball, Balls, Frame, Tube, added, growing
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
from farfield.graph.rules import Decay

if TYPE_CHECKING:
    from farfield.exact.series.tube_domain import TubeDomain

# exp of what falls.
FALLING = Decay(1.0)


def grown(domain: TubeDomain, operation: Growth, *values: Tube) -> Tube:
    """Apply an operation."""
    match operation:
        case Product():
            one, other = (value.balls for value in values)
            return domain.made(domain.frame.times(one, other, operation.function, operation.terms))
        case Power():
            return raised(domain, operation.exponent, *values)
        case Normalisation():
            return normalised(domain, operation, *values)
        case SharingOut():
            return shared_out(domain, operation.dim, *values)
        case Exponential():
            return exponentiated(domain, *values)
        case Logarithm():
            return logged(domain, *values)
        case AtRest():
            return resting(domain, operation, *values)
        case BoxCox():
            raise UnsupportedOperation("powers and logarithms of columns have no bounds here")


def logged(domain: TubeDomain, value: Tube) -> Tube:
    """``log`` of values that do not grow."""
    rest = ~growing(value.balls)
    domain.require(rest)
    whole = at_rest(domain.frame, value.balls, rest)
    expansion = of_logarithm(whole, 1 - domain.floor)
    domain.require(expansion.valid)
    return domain.made(composed(domain.frame, whole, expansion))


def resting(domain: TubeDomain, operation: AtRest, value: Tube) -> Tube:
    """A smooth function of values that do not grow."""
    rest = ~growing(value.balls)
    domain.require(rest)
    whole = at_rest(domain.frame, value.balls, rest)
    return domain.made(composed(domain.frame, whole, of_curve(whole, operation, 1 - domain.floor)))


def leading(balls: Balls, where: tuple[int, ...] = ()) -> Tensor:
    """The highest order that is not exactly zero, of elements or of rows."""
    found = None
    for order, ball in balls.items():
        some = ball.some
        if where:
            some = some.to(torch.uint8).amax(where, keepdim=True).bool()
        here = torch.where(some, order, NONE)
        found = here if found is None else torch.maximum(found, here)
    assert found is not None
    return found


def raised(domain: TubeDomain, exponent: Fraction, value: Tube) -> Tube:
    """A power: whole positive ones are products."""
    if exponent.denominator == 1 and exponent > 0:
        found = value
        for _ in range(int(exponent) - 1):
            found = grown(domain, Product(torch.mul), found, value)
        return found
    order = leading(value.balls)
    zero = order == NONE
    if exponent < 0:
        domain.require(~zero)
    order = order.masked_fill(zero, 0)
    if bool(((order * exponent.numerator) % exponent.denominator != 0).any()):
        raise FinerOrders(exponent)
    new = (order * float(exponent)).round().to(order.dtype)
    count = max(1, int(new.max()) - domain.floor + 1)
    frame = Frame(domain.frame.start, -count)
    ready = frame.moved(value.balls, -order)
    side = torch.sign(ready[0].value) if 0 in ready else torch.zeros_like(order).double()
    ready = {o: ball.scaled(torch.where(zero, 0.0, side)) for o, ball in ready.items()}
    ready = added(ready, {0: Ball.exact(zero.double())})
    whole = at_rest(frame, ready, torch.ones_like(zero))
    expansion = of_power(whole, float(exponent), count)
    domain.require(expansion.valid)
    sign = side ** int(exponent) if exponent.denominator == 1 else side
    if exponent.denominator != 1:
        domain.require((side > 0) | zero)
    made = composed(frame, whole, expansion)
    made = {place: ball.scaled(sign).where(~zero) for place, ball in made.items()}
    return domain.made(domain.frame.moved(made, new))


def normalised(domain: TubeDomain, operation: Normalisation, value: Tube) -> Tube:
    """``x / sqrt(mean(x^2) + epsilon)``, row by row behind each row's own leading order."""
    where = tuple(range(-operation.dims, 0))
    order = leading(value.balls, where)
    zero = order == NONE
    if operation.epsilon > 0:
        order = order.clamp(min=0)
    else:
        domain.require(~zero)
        order = order.masked_fill(zero, 0)
    frame = domain.frame
    ready = frame.moved(value.balls, -order.expand(value.shape))
    count = int(torch.Size(value.shape[-operation.dims :]).numel())
    squares = frame.times(
        ready, ready, lambda x, y: (x * y).mean(where, keepdim=True), terms=count + 2
    )
    one = torch.ones_like(order, dtype=torch.float64) * operation.epsilon
    squares = added(squares, frame.moved({0: Ball.exact(one)}, -2 * order))
    whole = at_rest(frame, squares, torch.ones_like(zero))
    expansion = of_power(whole, -0.5, 1 - domain.floor)
    domain.require(expansion.valid)
    return domain.made(frame.times(ready, composed(frame, whole, expansion)))


def exponentiated(domain: TubeDomain, value: Tube) -> Tube:
    """``exp``: vanishes where the value falls, a Taylor series at rest."""
    moves = growing(value.balls)
    whole = at_rest(domain.frame, value.balls, ~moves)
    expansion = of_exponential(whole, 1 - domain.floor)
    domain.require(expansion.valid | moves)
    made = composed(domain.frame, whole, expansion)
    found = {order: ball.where(~moves) for order, ball in made.items()}
    if bool(moves.any()):
        lead = domain.frame.lead(value.balls)
        domain.require((lead.sign < 0) | ~moves)
        found = added(found, domain.fading(lead, FALLING, moves))
    return domain.made(found)


def shared_out(domain: TubeDomain, dim: int, value: Tube) -> Tube:
    """Softmax: how far everyone is behind the best says who shares, and who vanishes."""
    frame = domain.frame
    blocked = value.ball(0).value.isneginf()
    balls = {order: ball.where(~blocked) for order, ball in value.balls.items()}
    behind = _behind(balls, dim, blocked)
    lost = growing(behind) & ~blocked
    lead = frame.lead(behind)
    domain.require((lead.sign > 0) | ~lost)
    peers = ~lost & ~blocked
    turned = {o: ball.scaled(-torch.ones_like(ball.value)) for o, ball in behind.items()}
    whole = at_rest(frame, turned, peers)
    expansion = of_exponential(whole, 1 - domain.floor)
    domain.require(expansion.valid | ~peers)
    shares = {o: ball.where(peers) for o, ball in composed(frame, whole, expansion).items()}
    count = value.shape[dim]
    total = {o: _summed(ball, dim, count) for o, ball in shares.items()}
    sum_ = at_rest(frame, total, torch.ones_like(total[0].value, dtype=torch.bool))
    inverse = of_power(sum_, -1.0, 1 - domain.floor)
    domain.require(inverse.valid)
    found = frame.times(shares, composed(frame, sum_, inverse))
    if bool(lost.any()):
        fading = domain.fading(lead, FALLING, lost)
        for order, ball in fading.items():
            taken = ball.rest.sum(dim, keepdim=True) * 1.0001
            rest = torch.where(peers, taken, ball.rest)
            found = added(found, {order: Ball.only(rest.masked_fill(blocked, 0.0))})
    return domain.made(found)


def _behind(balls: Balls, dim: int, blocked: Tensor) -> dict[int, Ball]:
    """The best of each row minus everyone, order by order."""
    best = ~blocked
    for order in sorted(balls, reverse=True):
        if order >= 0:
            part = balls[order].value
            top = part.masked_fill(~best, -torch.inf).amax(dim, keepdim=True)
            best = best & (part == top)
    place = best.to(torch.uint8).argmax(dim, keepdim=True)
    itself = torch.zeros_like(best).scatter(dim, place, True)
    found = {}
    for order, ball in balls.items():
        parts = (part.gather(dim, place) for part in ball)
        value, error, rest = parts
        gap = value - ball.value
        exact = (value == ball.value) | (value == 0) | (ball.value == 0)
        rounding = torch.where(exact, 0.0, 2 * ROUNDOFF * gap.abs())
        other = Ball(gap, (error + ball.error) + rounding, rest + ball.rest)
        found[order] = other.where(~itself & ~blocked)
    return found


def _summed(ball: Ball, dim: int, count: int) -> Ball:
    value, error, rest = (part.sum(dim, keepdim=True) for part in ball)
    size = ball.value.abs().sum(dim, keepdim=True)
    share = (count + 4) * ROUNDOFF
    return Ball(value, (error + share * size) * 1.0001, rest * 1.0001)
