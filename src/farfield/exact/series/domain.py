"""The walk at infinity in series.

As :mod:`farfield.exact.germ`, with more orders than slope and intercept:

* an affine map acts on the coefficients of every order alike, its offset on those of order 0;
* a piecewise-affine function takes the piece that the value ends up in, all orders together;
* a smooth function takes its asymptote where the value grows, and elsewhere its Taylor series;
* what changes growth is in :mod:`farfield.exact.series.growing`.

Sums that cancel leave rounding errors where zeros belong, and a leading coefficient of 1e-17 would
be a wrong limit, not a small error. So every value carries how large its rounding errors may well
be: one number for each ray and order, the root of the mean square, made larger by every map as much
as independent errors would be. Growing coefficients below that are zero, and the ray is marked as
*doubtful*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from farfield.errors import UnsupportedOperation
from farfield.exact.germ import is_relu
from farfield.exact.series.expansions import composed
from farfield.exact.series.scales import is_odd
from farfield.exact.series.value import (
    EXACT,
    LOG,
    SAFETY,
    Order,
    Series,
    beside,
    per_ray,
    present,
    typical,
)
from farfield.graph.affine import SUBTRACT
from farfield.graph.growth import Growth
from farfield.graph.rules import Affine, Number, Pieces, Places, RowFunction, Smooth, Steps


class SeriesDomain:
    """The walk for a number of rays.

    Attributes:
        rays: How many rays.
        floor: The lowest order that is kept.
        per: How many orders a power of ``t`` is worth: 2 if there are square roots of ``t``.
        lacking: ``(rays,)`` whether a decision needs orders below those that are known.
        doubtful: ``(rays,)`` whether a growing coefficient was taken for zero.
        undecided: ``(rays,)`` whether a jump is met from a side that is not known.
    """

    def __init__(self, rays: int, like: Tensor, floor: int = 0, per: int = 1) -> None:
        self.rays = rays
        self.floor = floor
        self.per = per
        self.like = like
        self.lacking = torch.zeros(rays, dtype=torch.bool, device=like.device)
        self.doubtful = torch.zeros_like(self.lacking)
        self.undecided = torch.zeros_like(self.lacking)
        self.unit = torch.finfo(like.dtype).eps / 2

    def start(self, direction: Tensor, origin: Tensor) -> Series:
        """The input itself: a polynomial of degree one, without any rounding."""
        return self.polynomial({self.per: direction, 0: origin})

    def polynomial(self, terms: Mapping[Order, Tensor]) -> Series:
        """A value that is known to every order, without any rounding."""
        first = next(iter(terms.values()))
        zero = self.like.new_zeros(self.rays)
        return Series(
            first.shape,
            terms,
            dict.fromkeys(terms, zero),
            torch.full_like(zero, EXACT),
            torch.zeros_like(self.lacking),
        )

    def constant(self, tensor: Tensor) -> Series:
        """A constant that has a row for each ray."""
        return self.polynomial({0: tensor.to(self.like)})

    def affine(self, operation: Affine, *values: Series) -> Series:
        """Act on the coefficients of every order; the offset goes to order 0."""
        gain = self._gain(operation, values)
        terms, noise = {}, {}
        for order in sorted({order for value in values for order in value.terms}, reverse=True):
            terms[order] = _applied(operation, values, order)
            if len(terms[order]) != self.rays:
                raise UnsupportedOperation(
                    "rows of the batch are folded into another dimension, in which growth is not "
                    "followed; apply the layer without folding"
                )
            noise[order] = self._noise(operation, values, order, gain, terms[order])
            if order > 0 and operation.terms > 1:
                terms[order] = self.without_noise(terms[order], noise[order])
        if operation.offset is not None:
            offset = operation.offset
            base = terms.get(0)
            if base is None:
                base = torch.zeros_like(next(iter(terms.values())))
            terms[0] = base + offset
            # A mask may add minus infinity, which nothing is rounded by.
            masks = isinstance(offset, Tensor) and bool(offset.isinf().any())
            size = typical(terms[0].masked_fill(terms[0].isinf(), 0.0) if masks else terms[0])
            noise[0] = noise.get(0, self.like.new_zeros(self.rays)) + self.unit * size
        return Series(
            next(iter(terms.values())).shape,
            terms,
            noise,
            torch.stack([value.bottom for value in values]).amax(dim=0),
            torch.stack([value.loose for value in values]).any(dim=0),
        )

    def _gain(self, operation: Affine, values: Sequence[Series]) -> Tensor | None:
        """How much of the sum of squares of errors a map passes on; ``None`` if it only copies."""
        if operation.terms == 0 and not operation.weights:
            return None
        if operation.adds:
            return torch.ones_like(values[0].bottom[0])
        ones = [value.new_zeros((1, *value.shape[1:])) + 1 for value in values]
        if operation.weights:
            squares = [weight * weight for weight in operation.weights]
            energy = operation.function(*ones, *squares).abs().sum()
        else:
            energy = (operation.magnitude or operation.function)(*ones).abs().sum()
            energy = energy / operation.terms if operation.averages else energy
        return energy / sum(each.numel() for each in ones)

    def _noise(
        self,
        operation: Affine,
        values: Sequence[Series],
        order: Order,
        gain: Tensor | None,
        result: Tensor,
    ) -> Tensor:
        """The likely rounding error of one order behind a map."""
        there = [value for value in values if order in value.terms]
        given = torch.stack([value.noise_of(order) for value in there]).amax(dim=0)
        if gain is None:
            return given
        if operation.adds:
            # Nothing is rounded where nothing is added.
            both = torch.stack([value.noise_of(order) for value in there]).square().sum(dim=0)
            return both.sqrt() if len(there) == 1 else both.sqrt() + self.unit * typical(result)
        if operation.terms <= 1:
            return gain.sqrt() * given + self.unit * typical(result)
        sizes = torch.stack([typical(value.terms[order]) for value in there]).amax(dim=0)
        counts = sum(present(value.terms[order]) for value in there)
        return (gain * counts / present(result)).sqrt() * (given + self.unit * sizes)

    def without_noise(self, values: Tensor, noise: Tensor) -> Tensor:
        """Take what may be rounding for zero, and mark the rays on which that matters."""
        small = (values.abs() <= SAFETY * beside(noise, values)) & (values != 0)
        if not bool(small.any()):
            return values
        self.doubtful |= per_ray(small).any(dim=1)
        return values.masked_fill(small, 0.0)

    def piecewise(self, value: Series, pieces: Pieces) -> Series:
        """Take the piece that each value ends up in."""
        if is_relu(pieces):
            side = value.sign()
            return self._kept(value, (side > 0).to(self.like), side == 0)
        slope, intercept = self.number(pieces.slopes[0]), self.number(pieces.intercepts[0])
        tie = torch.zeros(tuple(value.shape), dtype=torch.bool, device=value.device)
        for index, threshold in enumerate(pieces.thresholds):
            side = value.sign(float(threshold))
            tie |= side == 0
            self._note_jump(value, pieces, index, side == 0)
            slope = torch.where(side > 0, self.number(pieces.slopes[index + 1]), slope)
            intercept = torch.where(side > 0, self.number(pieces.intercepts[index + 1]), intercept)
        offset = intercept if any(each != 0 for each in pieces.intercepts) else None
        return self._kept(value, slope, tie, offset)

    def _kept(
        self, value: Series, slope: Tensor, tie: Tensor, offset: Tensor | None = None
    ) -> Series:
        """``slope * value + offset`` element by element.

        Where no slope is left and nothing ties up to what is known, all is known.
        """
        slope = slope.expand(value.shape)
        terms = value.times(slope)
        if offset is not None:
            terms[0] = terms.get(0, 0.0) + offset.expand(value.shape)
        some = per_ray((slope != 0) | tie).any(dim=1)
        steepest = typical(slope)
        noise = {order: value.noise_of(order) * steepest for order in terms}
        bottom = value.bottom.masked_fill(~some, EXACT)
        return Series(value.shape, terms, noise, bottom, value.loose & some)

    def _note_jump(self, value: Series, pieces: Pieces, index: int, tie: Tensor) -> None:
        """Mark rays that end at a jump without saying from which side."""
        below, above = pieces.slopes[index : index + 2]
        at = float(pieces.thresholds[index])
        rise = float(pieces.intercepts[index + 1] - pieces.intercepts[index])
        gap = (self.number(above) - self.number(below)) * at + rise
        if bool((gap != 0).any()):
            self._mark(value, tie & (gap != 0))

    def _mark(self, value: Series, tie: Tensor) -> None:
        """Ties at jumps: more orders may decide them, what falls faster than powers cannot."""
        met = per_ray(tie).any(dim=1)
        self.lacking |= met & torch.isfinite(value.bottom)
        self.undecided |= met & value.loose & ~torch.isfinite(value.bottom)

    def largest(
        self, candidates: Sequence[Series], sign: int = 1, places: Places | None = None
    ) -> Series:
        """Take the lexicographically largest candidate (the smallest where ``sign`` is -1)."""
        best = candidates[0]
        for other in candidates[1:]:
            ahead = (self._difference(other, best).sign() * sign) > 0
            best = self.choose(ahead, other, best)
        return best

    def _difference(self, one: Series, other: Series) -> Series:
        """``one - other``, with growing coefficients that may be rounding taken for zero."""
        return self.affine(SUBTRACT, one, other)

    def choose(self, condition: Tensor, yes: Series, no: Series) -> Series:
        """Take one value where a condition holds, another elsewhere."""
        orders = {*yes.terms, *no.terms}
        terms = {o: torch.where(condition, yes.term(o), no.term(o)) for o in orders}
        return Series(
            next(iter(terms.values())).shape,
            terms,
            {o: torch.maximum(yes.noise_of(o), no.noise_of(o)) for o in orders},
            torch.maximum(yes.bottom, no.bottom),
            yes.loose | no.loose,
        )

    def smooth(self, value: Series, curve: Smooth) -> Series:
        """Take the asymptote where the value grows, its Taylor series where it does not."""
        motion = value.sign(above=0)
        above, below = curve.above, curve.below
        up = motion > 0
        slope = torch.where(up, self.number(above.slope), self.number(below.slope))
        offset = torch.where(up, self.number(above.intercept), self.number(below.intercept))
        rest = motion == 0
        settled = self._settled(value, curve, rest)
        slope = slope.masked_fill(rest, 0.0)
        terms = value.times(slope)
        terms[0] = terms.get(0, 0.0) + torch.where(rest, 0.0, offset)
        for order, part in settled.items():
            terms[order] = terms.get(order, 0.0) + part
        moved = per_ray(~rest).any(dim=1)
        depends = per_ray((slope != 0) | rest).any(dim=1)
        bottom = value.bottom.masked_fill(~depends, EXACT)
        at_rest = per_ray(rest).any(dim=1)
        # A function of something that is at rest, but not known to order 0, is not known either.
        bottom = torch.where(at_rest & (bottom > 0), bottom.clamp(min=1.0), bottom)
        if at_rest.any():
            bottom = self._cut(bottom, value, rest, curve)
        # What grows by a logarithm comes to an asymptote by some power at best.
        slow = moved & (not curve.flat or LOG in value.terms)
        bottom = torch.where(slow, bottom.clamp(min=0.0), bottom)
        noise = {order: value.noise_of(order) for order in terms}
        steep = per_ray(torch.where(rest, self.number(curve.lipschitz), slope))
        noise[0] = noise[0] * steep.square().mean(dim=1).sqrt()
        return Series(
            value.shape, terms, noise, bottom, (value.loose & depends) | (moved & curve.flat)
        )

    def _settled(self, value: Series, curve: Smooth, rest: Tensor) -> dict[int, Tensor]:
        """The function of values at rest, zero elsewhere, order by order."""
        at = [value.term(-j).masked_fill(~rest, 0.0) for j in range(1 - self.floor)]
        while len(at) > 1 and not bool((at[-1] != 0).any()):
            at.pop()
        found = composed(curve.function, at)
        return {-j: part.masked_fill(~rest, 0.0) for j, part in enumerate(found)}

    def _cut(self, bottom: Tensor, value: Series, rest: Tensor, curve: Smooth) -> Tensor:
        """What is known of a function of values at rest: no more than the floor, 0 at kinks."""
        falls = torch.zeros_like(rest)
        for order, part in value.terms.items():
            if order < 0:
                falls |= (part != 0) & rest
        falling = per_ray(falls).any(dim=1)
        # Taylor series are taken in whole orders alone.
        lowest = 0.0 if is_odd(value) else float(self.floor)
        bottom = torch.where(falling, bottom.clamp(min=lowest), bottom)
        for kink in curve.kinks:
            met = per_ray(rest & (value.term(0) == kink)).any(dim=1)
            met &= falling | torch.isfinite(value.bottom)
            bottom = torch.where(met, bottom.clamp(min=0.0), bottom)
        return bottom

    def steps(self, value: Series, steps: Steps) -> Series:
        """Take the value on the interval that each column ends up in."""
        columns = self.affine(Affine(lambda rows: rows[:, steps.columns]), value)
        motion, at = columns.sign(above=0), columns.term(0).double()
        ends = torch.where(motion > 0, torch.inf, -torch.inf).to(at)
        below = steps.intervals(torch.where(motion == 0, at, ends))
        above = steps.intervals(torch.where(motion == 0, _next(at), ends))
        tie, side = below != above, _side(columns)
        self._mark(columns, tie & (side == 0))
        # Below what is known nothing tells on which interval a value at rest lies.
        self.lacking |= per_ray(motion == 0).any(dim=1) & (columns.bottom > 0)
        places = torch.where(tie & (side > 0), above, below)
        return self.polynomial({0: steps.heights(places).to(self.like)})

    def choice(self, mask: Series, yes: Series, no: Series) -> Series:
        """Take the value that a mask says."""
        return self.choose(mask.term(0) > 0.5, yes, no)

    def row_function(self, value: Series, function: RowFunction) -> Series:
        """Take the limit of rows that move, the function of those at rest."""
        self.lacking |= value.bottom > 0
        slope, intercept = self._growth(value, function), value.term(0)
        if not function.continuous and bool((rests := _coming_to_rest(value)).any()):
            steady = function.steady(slope, intercept)
            if steady is None:
                raise UnsupportedOperation(
                    f"{type(function).__name__} may jump where a row comes to rest, and from which "
                    "side it comes there is not followed"
                )
            self.undecided |= rests & ~steady
        moving = (slope != 0).any(dim=1)
        found = function(torch.where(moving[:, None], 0.0, intercept))
        if bool(moving.any()):
            limit = function.limit(slope[moving], intercept[moving])
            if limit is None or bool(limit.isnan().any()):
                raise UnsupportedOperation(
                    f"{type(function).__name__} has no known limit of values that keep growing"
                )
            found[moving] = limit.to(found)
        made = self.polynomial({0: found.to(self.like)})
        known = torch.where(moving | torch.isfinite(value.bottom), 0.0, made.bottom)
        return Series(made.shape, made.terms, made.noise, known, value.loose)

    def _growth(self, value: Series, function: RowFunction) -> Tensor:
        """How fast numbers grow; by ranks, where it is not by ``t`` alone, if these suffice."""
        orders = [order for order in value.orders if order > 0 and bool(value.terms[order].any())]
        if all(order == self.per for order in orders):
            return value.term(self.per)
        if not function.by_order:
            raise UnsupportedOperation(
                f"{type(function).__name__} has no known limit of values that grow by another "
                "power than t"
            )
        return self._ranks(value, orders)

    def _ranks(self, value: Series, orders: Sequence[Order]) -> Tensor:
        """How many numbers of its row each outgrows, minus those that outgrow it; 0 at rest."""
        ahead = value.new_zeros((*value.shape, value.shape[1] + 1))
        for order in orders:
            part = torch.nn.functional.pad(value.terms[order], (0, 1))
            gap = part[:, :-1, None] - part[:, None, :]
            gap = self.without_noise(gap, value.noise_of(order))
            ahead = torch.where(ahead == 0, torch.sign(gap), ahead)
        ranks = ahead.sum(dim=2)
        # The last column is zero itself: its rank is where numbers rest.
        return ranks + ahead[:, :, -1].sum(dim=1, keepdim=True)

    def grow(self, operation: Growth, *values: Series) -> Series:
        """What changes growth has a module of its own."""
        from farfield.exact.series.growing import grown

        return grown(self, operation, *values)

    def number(self, value: Number | Tensor) -> Tensor:
        """A parameter in the type of the analysis."""
        return value if isinstance(value, Tensor) else self.like.new_tensor(float(value))


def _applied(operation: Affine, values: Sequence[Series], order: Order) -> Tensor:
    """One order behind a map; adding nothing is left out."""
    if operation.adds and values[0].shape == values[1].shape:
        first, second = (value.terms.get(order) for value in values)
        if second is None and first is not None:
            return first
        if first is None and second is not None:
            return second if operation.adds > 0 else -second
    return operation.function(*(value.term(order) for value in values), *operation.weights)


def _coming_to_rest(value: Series) -> Tensor:
    """``(rays,)`` whether parts of a value vanish for large ``t``, instead of being zero."""
    found = torch.isfinite(value.bottom) | value.loose
    for order, part in value.terms.items():
        if order < 0:
            found = found | per_ray(part != 0).any(dim=1)
    return found


def _next(values: Tensor) -> Tensor:
    return torch.nextafter(values, torch.full_like(values, torch.inf))


def _side(value: Series) -> Tensor:
    """The sign of what is below order 0: from which side a value comes to rest."""
    lower = {order: part for order, part in value.terms.items() if order < 0}
    if not lower:
        return torch.zeros_like(value.term(0))
    return Series(value.shape, lower, value.noise, value.bottom, value.loose).sign()
