"""The walk in tubes: what a network does on all of a ray from some ``T`` on, without sampling.

Every decision (which piece, which candidate, which way a value moves) must hold for all
``t >= T``; a ray on which one does not is marked as *failed*, and may be tried with a larger ``T``.
Continuous functions of values that do not grow need no decision: there the slope of the function
bounds what it does, the limit is right all the same, and only *certain* is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from farfield.errors import UnsupportedOperation
from farfield.exact.bounded import ROUNDOFF, gamma
from farfield.exact.leads import SLACK
from farfield.exact.series.taylor import at_rest, bends, composed, of_curve
from farfield.exact.series.tube import LEAST, Ball, Balls, Frame, Lead, Tube, added, growing
from farfield.exact.series.value import per_ray
from farfield.graph.growth import Growth
from farfield.graph.rules import (
    Affine,
    Decay,
    Number,
    Pieces,
    Places,
    RowFunction,
    Smooth,
    Steps,
)

# Numbers below this, but for zero, may not be met: their products with others could vanish.
FINE = 1e-140


class TubeDomain:
    """The walk for a number of rays, each from its own ``T`` on.

    Attributes:
        frame: The ``T`` of every ray, and the orders that are kept.
        per: How many orders a power of ``t`` is worth; ``T`` and all powers are those of its root.
        failed: ``(rays,)`` whether something could not be bounded for all ``t >= T``.
        certain: ``(rays,)`` whether every decision is proven.
    """

    def __init__(self, start: Tensor, floor: int, per: int = 1) -> None:
        self.floor = floor
        self.per = per
        self.frame = Frame(start, floor - 1)
        self.failed = torch.zeros_like(start, dtype=torch.bool)
        self.certain = ~self.failed

    def start(self, direction: Tensor, origin: Tensor) -> Tube:
        """The input itself."""
        return self.made({self.per: Ball.exact(direction), 0: Ball.exact(origin)})

    def constant(self, tensor: Tensor) -> Tube:
        """A constant that has a row for each ray."""
        return self.made({0: Ball.exact(tensor.to(self.frame.start))})

    def made(self, balls: Mapping[int, Ball]) -> Tube:
        """A value of its orders: low ones become a rest; numbers near underflow are not trusted."""
        kept = self.frame.cut(balls)
        first = next(iter(kept.values())).value
        some = {}
        for order, ball in kept.items():
            parts = torch.stack(tuple(ball))
            size = parts.abs()
            if bool(size.any()):
                some[order] = ball
                sure = (size == 0) | ((size > FINE) & (size < 1 / FINE)) | parts.isneginf()
                self.require(sure.all(dim=0))
        some = some or {0: Ball.exact(torch.zeros_like(first))}
        return Tube(first.shape, some, first.device)

    def require(self, sure: Tensor) -> None:
        """Rays on which something is not so have no bounds."""
        self.failed = self.failed | ~per_ray(sure).all(dim=1)

    def affine(self, operation: Affine, *values: Tube) -> Tube:
        """Act on numbers by the map, on bounds by its absolute values."""
        share = gamma(operation.terms) if operation.terms or operation.weights else 0.0
        sizes = [weight.double().abs() for weight in operation.weights]
        for size in sizes:
            if bool(((size > 0) & (size < FINE)).any()):
                self.failed = torch.ones_like(self.failed)
        spread = operation.magnitude or operation.function
        balls = {}
        for order in {order for value in values for order in value.balls}:
            given = [value.ball(order) for value in values]
            numbers = operation.function(*(each.value for each in given), *operation.weights)
            if len(numbers) != len(self.failed):
                raise UnsupportedOperation("rows that are folded into another dimension have no T")
            if numbers.dtype != torch.float64:
                self.failed = torch.ones_like(self.failed)
            errors = [each.error + share * each.value.abs() for each in given]
            error = spread(*errors, *sizes).double()
            rest = spread(*(each.rest for each in given), *sizes).double()
            slack = SLACK if share else 1.0
            balls[order] = Ball(numbers.double(), error * slack, rest * slack)
        if operation.offset is not None:
            balls = self._offset(balls, operation.offset)
        return self.made(balls)

    def _offset(self, balls: dict[int, Ball], offset: Tensor | float) -> dict[int, Ball]:
        """Add a constant; minus infinity (a mask) leaves nothing else of a value."""
        first = next(iter(balls.values())).value
        added_ = torch.as_tensor(offset, dtype=torch.float64, device=first.device).expand(
            first.shape
        )
        blocked = added_.isneginf()
        shift = Ball.exact(added_.masked_fill(blocked, 0.0))
        balls = added(balls, {0: shift})
        if bool(blocked.any()):
            balls = {order: ball.where(~blocked) for order, ball in balls.items()}
            value = balls[0].value.masked_fill(blocked, -torch.inf)
            balls[0] = balls[0]._replace(value=value)
        return balls

    def piecewise(self, value: Tube, pieces: Pieces) -> Tube:
        """Take the piece that holds from ``T`` on; at rest a slope bounds all pieces."""
        at, error, rest = value.ball(0)
        exact = (error == 0) & (rest == 0)
        slope, offset = self.number(pieces.slopes[0]), self.number(pieces.intercepts[0])
        steepest, open_ = slope.abs(), torch.zeros_like(at, dtype=torch.bool)
        for index, threshold in enumerate(pieces.thresholds):
            place = self.number(threshold)
            lead = self._against(value, place)
            next_ = self.number(pieces.slopes[index + 1])
            rise = float(pieces.intercepts[index + 1] - pieces.intercepts[index])
            last = self.number(pieces.slopes[index])
            gap = (next_ - last) * place + rise
            size = abs(rise) + (next_.abs() + last.abs()) * place.abs()
            self.require(lead.decided | (gap.abs() <= 8 * ROUNDOFF * size))
            open_ = open_ | ~lead.decided
            # Where a value comes to rest at the very kink, both pieces have the same limit.
            self.certain &= per_ray(lead.decided | (exact & (at == place))).all(dim=1)
            above = torch.where(lead.decided, lead.sign > 0, at > place)
            slope = torch.where(above, next_, slope)
            offset = torch.where(above, self.number(pieces.intercepts[index + 1]), offset)
            steepest = torch.maximum(steepest, next_.abs())
        slope, offset = slope.expand(at.shape), offset.expand(at.shape)
        found = {order: ball.scaled(slope) for order, ball in value.balls.items()}
        if any(each != 0 for each in pieces.intercepts):
            found = added(found, {0: Ball(offset, 2 * ROUNDOFF * offset.abs(), 0 * offset)})
        if not bool(open_.any()):
            return self.made(found)
        return self.made(self._bounded_by(value, found, steepest.expand(at.shape), open_))

    def _against(self, value: Tube, place: Tensor) -> Lead:
        """How a value stands to a constant."""
        if not bool((place != 0).any()):
            return self.frame.lead(value.balls)
        shift = Ball.exact(-place.expand(value.shape))
        return self.frame.lead(added(value.balls, {0: shift}))

    def _bounded_by(self, value: Tube, found: Balls, slope: Tensor, where: Tensor) -> Balls:
        """Where no piece is proven: the limit, and what a bound on the slope leaves open."""
        self.require(~(where & growing(value.balls)))
        zero = torch.zeros_like(slope)
        balls = {}
        for order in {*value.balls, *found, 0}:
            given, made = value.ball(order), found.get(order, Ball.exact(zero))
            if order == 0:
                size = given.value.abs() * slope + made.value.abs()
                error = given.error * slope * SLACK + 16 * ROUNDOFF * size
                open_ = Ball(made.value, error, given.rest * slope * SLACK)
            else:
                open_ = Ball.only(given.size * slope * SLACK)
            balls[order] = open_.where(where, made)
        return balls

    def largest(
        self, candidates: Sequence[Tube], sign: int = 1, places: Places | None = None
    ) -> Tube:
        """Take the candidate that leads from ``T`` on; at rest the larger of two, with bounds."""
        where = None if places is None else list(places())
        best, at = candidates[0], None if where is None else where[0]
        for index, other in enumerate(candidates[1:], 1):
            ahead = self._difference(other, best, sign)
            if where is not None and at is not None:
                same = (where[index] == at).expand(ahead.shape)
                ahead = self.made({o: ball.where(~same) for o, ball in ahead.balls.items()})
            lead = self.frame.lead(ahead.balls)
            wins = lead.sign > 0
            chosen = self.choose(wins, other, best)
            if where is not None and at is not None:
                at = torch.where(wins, where[index], at)
            if not bool(lead.decided.all()):
                excess = self.piecewise(ahead, Pieces.hinge(0.0))
                part = {o: b.scaled(self.number(sign)) for o, b in excess.balls.items()}
                part = {o: b.where(~lead.decided) for o, b in part.items()}
                chosen = self.made(added(chosen.balls, part))
            best = chosen
        return best

    def _difference(self, one: Tube, other: Tube, sign: int = 1) -> Tube:
        operation = Affine(torch.sub, terms=2, magnitude=torch.add)
        return self.affine(operation, *((one, other) if sign > 0 else (other, one)))

    def choose(self, condition: Tensor, yes: Tube, no: Tube) -> Tube:
        """Take one value where a condition holds, another elsewhere."""
        orders = {*yes.balls, *no.balls}
        return self.made({o: yes.ball(o).where(condition, no.ball(o)) for o in orders})

    def smooth(self, value: Tube, curve: Smooth) -> Tube:
        """Asymptotes and what is left to them where values move, Taylor's formula at rest."""
        moves = growing(value.balls)
        found: Balls = {0: Ball.exact(value.new_zeros(tuple(value.shape)))}
        if bool(moves.any()):
            found = self._moving(value, curve, moves)
        if bool((~moves).any()):
            found = added(found, self._resting(value, curve, ~moves))
        return self.made(found)

    def _moving(self, value: Tube, curve: Smooth, moves: Tensor) -> dict[int, Ball]:
        lead = self.frame.lead(value.balls)
        self.require(lead.decided | ~moves)
        up = lead.sign > 0
        slope = self._either(up, curve.above.slope, curve.below.slope)
        offset = self._either(up, curve.above.intercept, curve.below.intercept)
        shift = Ball(offset, 2 * ROUNDOFF * offset.abs(), 0 * offset)
        found = {o: ball.scaled(slope).where(moves) for o, ball in value.balls.items()}
        found = added(found, {0: shift.where(moves)})
        if curve.settles is None:
            return added(found, self.fading(lead, curve.decay, moves))
        far = lead.margin * self.frame.start_to(lead.order) / SLACK
        self.require((far > max(map(abs, curve.settles))) | ~moves)
        return found

    def _either(self, up: Tensor, above: Number, below: Number) -> Tensor:
        return torch.where(up, self.number(above), self.number(below))

    def fading(self, lead: Lead, decay: Decay | None, where: Tensor) -> dict[int, Ball]:
        """A rest for what vanishes as a value moves away: ``size y^power exp(-rate y)``.

        With ``y >= margin t^order`` and ``q`` the order of the rest turned round, ``t^q`` times it
        falls from ``y = (power + q) / rate`` on, so that its value at ``T`` bounds all others.
        """
        if decay is None:
            self.failed = self.failed | per_ray(where).any(dim=1)
            return {}
        flat = decay.rate > 0
        order = self.frame.low if flat else -1
        y = (lead.margin * self.frame.start_to(lead.order) / SLACK).masked_fill(~where, 1.0)
        if flat:
            self.require(~where | (y * decay.rate > decay.power - order))
        at = decay.size * y**decay.power * torch.exp(-decay.rate * y)
        rest = (at * self.frame.power(-order, at) * SLACK).clamp(min=LEAST)
        return {order: Ball.only(rest.masked_fill(~where, 0.0))}

    def _resting(self, value: Tube, curve: Smooth, rest: Tensor) -> dict[int, Ball]:
        whole = at_rest(self.frame, value.balls, rest)
        count = 1 - self.floor
        found: dict[int, Ball] = {}
        bent = bends(whole, curve) if count > 1 else torch.zeros_like(rest)
        for terms, where in ((1, rest & bent), (count, rest & ~bent)):
            if bool(where.any()):
                expansion = of_curve(whole, curve, terms)
                self.require(expansion.valid | ~where)
                made = composed(self.frame, whole, expansion)
                found = added(found, {o: ball.where(where) for o, ball in made.items()})
        return found

    def steps(self, value: Tube, steps: Steps) -> Tube:
        """Take the interval that holds all from ``T`` on."""
        columns = self.affine(Affine(lambda rows: rows[:, steps.columns]), value)
        moves = growing(columns.balls)
        whole = at_rest(self.frame, columns.balls, ~moves)
        low, high = whole.low, whole.high
        exact = ~torch.stack([(b.error != 0) | (b.rest != 0) for b in columns.balls.values()]).any(
            0
        )
        still = exact & ~torch.stack(
            [b.some for o, b in columns.balls.items() if o != 0] or [torch.zeros_like(exact)]
        ).any(0)
        low, high = (torch.where(still, whole.centre.value, end) for end in (low, high))
        first, last = (torch.nan_to_num(end).to(low) for end in steps.ends)
        above, below = (self._against(columns, end) for end in (last, first))
        up, down = moves & (above.sign > 0), moves & (below.sign < 0)
        self.require(~moves | up | down)
        ends = torch.where(up, torch.inf, -torch.inf)
        places = [steps.intervals(torch.where(moves, ends, end).double()) for end in (low, high)]
        self.require(places[0] == places[1])
        return self.made({0: Ball.exact(steps.heights(places[0]).to(low))})

    def choice(self, mask: Tube, yes: Tube, no: Tube) -> Tube:
        """Take the value that a mask says."""
        return self.choose(mask.ball(0).value > 0.5, yes, no)

    def row_function(self, value: Tube, function: RowFunction) -> Tube:
        """The function of rows at rest that are known exactly; nothing else is bounded."""
        here = value.ball(0)
        exact = (here.error == 0) & (here.rest == 0)
        for order, ball in value.balls.items():
            if order != 0:
                exact = exact & ~ball.some
        self.require(exact)
        found = function(here.value).to(here.value)
        error = torch.full_like(found, function.error)
        self.require(torch.isfinite(error))
        return self.made({0: Ball(found, error, torch.zeros_like(found))})

    def grow(self, operation: Growth, *values: Tube) -> Tube:
        """What changes growth has a module of its own."""
        from farfield.exact.series.tube_growing import grown

        return grown(self, operation, *values)

    def number(self, value: Number | Tensor) -> Tensor:
        """A parameter in the type of the analysis."""
        if isinstance(value, Tensor):
            return value.to(self.frame.start)
        return self.frame.start.new_tensor(float(value))
