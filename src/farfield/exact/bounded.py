"""Germs that know how far off they may be: which decisions are proven in floating point.

Beside every slope and intercept runs a bound on its rounding error. An affine map with ``n``
products per output turns values ``v`` with errors ``e`` into errors of at most
``|W| e + gamma_n (|W| |v| + |c|)``, ``gamma_n = n u / (1 - n u)``, ``u`` the unit roundoff. A
decision is proven if the value exceeds its bound, or if the value is *structurally* zero (a zero
whose bound is zero as well) and the next part decides. The bounds are themselves rounded, and
products can underflow; the first is covered by slack, the second marks the ray as unproven: a
product of two numbers that are not zero (weights, scalar factors and slopes of pieces alike) must
leave a bound above :data:`UNDERFLOW`, and whatever enters (rays, offsets, constants) must be zero
or above :data:`TINY`. Then no sum of a certain ray is so small that its bound could vanish: all of
them are multiples of the last bit of numbers of that size.

The same bounds enclose ``reach``, the last ``t`` at which a decision changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.exact.germ import Germ, GermDomain, is_relu, kink, shifted
from farfield.exact.leads import SLACK, Leads, tournament, turned
from farfield.graph.rules import Affine, Number, Pieces, Places, RowFunction, Smooth, Steps

ROUNDOFF = 2.0**-53
# Products below this may have lost digits to underflow on the way to the error bound.
UNDERFLOW = 2.0**-900
# Numbers below this may not enter: gamma times them could vanish.
TINY = 2.0**-850
# Reciprocals are taken of this, so that the smallest number has one.
INVERSE = 2.0**-60
# Accuracy that PyTorch's special functions are trusted with, in units of roundoff.
FUNCTION_ERROR = 64 * ROUNDOFF


@dataclass(frozen=True, slots=True)
class BoundedGerm(Germ):
    """A germ with a bound on the error of each of its numbers."""

    error: Tensor

    @property
    def error_pair(self) -> Tensor:
        """The bounds as ``(2, rays, ...)``."""
        return self.error.reshape(2, -1, *self.error.shape[1:])

    @staticmethod
    def of_pairs(pair: Tensor, error: Tensor) -> BoundedGerm:
        """Make a germ of two ``(2, rays, ...)`` tensors."""
        return BoundedGerm(pair.flatten(0, 1), error.flatten(0, 1))

    def collapsed(self) -> BoundedGerm:
        """The same value with a single float for each number."""
        return self


def gamma(terms: int) -> float:
    """Bound the relative error of a sum of ``terms`` products: ``n u / (1 - n u)``."""
    n = terms + 4
    return n * ROUNDOFF / (1 - n * ROUNDOFF) * SLACK


class BoundedDomain(GermDomain):
    """The walk at infinity with error bounds.

    Attributes:
        certain: ``(rays,)`` whether every decision so far is proven.
        enclosure: ``(2, rays)`` a lower and an upper bound of the reach, where all is proven.
        magnitudes: Absolute values of the weights, kept between chunks.
    """

    def __init__(self, rays: int, like: Tensor, magnitudes: Magnitudes) -> None:
        super().__init__(rays, like)
        self.certain = torch.ones(rays, dtype=torch.bool, device=like.device)
        self.enclosure = like.new_zeros(2, rays)
        self.magnitudes = magnitudes
        self.certain = self.certain & ~_tiny(like).reshape(2, rays, -1).any(dim=2).any(dim=0)

    def constant(self, tensor: Tensor) -> BoundedGerm:
        """A constant is exact."""
        parts = super().constant(tensor).parts
        self.certain = self.certain & ~_tiny(parts).any()
        return BoundedGerm(parts, torch.zeros_like(parts))

    def affine(self, operation: Affine, *values: Germ) -> BoundedGerm:
        """Carry the bound through ``|W|``."""
        bounded = [_bounded(value) for value in values]
        parts = operation.function(*(v.parts for v in bounded), *operation.weights)
        magnitude = operation.magnitude or operation.function
        if operation.terms == 0:
            return BoundedGerm(parts, magnitude(*(v.error for v in bounded)))
        g = gamma(operation.terms)
        weights = [self.magnitudes.of(weight) for weight in operation.weights]
        inputs = [torch.add(v.error, v.parts.abs(), alpha=g) for v in bounded]
        for each in inputs:
            least = _least(each.reshape(2, self.rays, -1))
            for _, smallest in weights:
                least = least * smallest
            self.certain = self.certain & (least > UNDERFLOW)
        # The weights' sizes are kept a little too large, which covers the rounding of the bound.
        error = magnitude(*inputs, *(size for size, _ in weights))
        if not weights:
            error = error * SLACK
        if operation.offset is None:
            return BoundedGerm(parts, error)
        fresh = bool(operation.weights)
        offset = operation.offset
        self.certain = self.certain & ~_tiny(offset).any()
        size = offset.double().abs() if isinstance(offset, Tensor) else abs(offset)
        return BoundedGerm(
            shifted(parts, offset, fresh=fresh), shifted(error, size * g, fresh=True)
        )

    def piecewise(self, value: Germ, pieces: Pieces) -> BoundedGerm:
        """Prove which piece each germ ends up in."""
        bounded = _bounded(value)
        if is_relu(pieces):
            return self._relu(bounded)
        for index, threshold in enumerate(pieces.thresholds):
            slope, intercept = bounded.pair
            size, lead, _ = turned(slope, intercept - float(threshold))
            where = kink(pieces, index)
            if isinstance(where, Tensor):
                where = where.expand_as(slope)
            self._settle(size, lead, *bounded.error_pair, where=where)
        result = super().piecewise(value, pieces).pair
        factor, offset = self._piece_sizes(value, pieces)
        error = self._scaled_error(bounded, factor)
        error[1] += 8 * ROUNDOFF * offset
        if any(bool(_tiny(intercept)) for intercept in pieces.intercepts):
            self.certain = torch.zeros_like(self.certain)
        return BoundedGerm.of_pairs(result, error)

    def _relu(self, value: BoundedGerm) -> BoundedGerm:
        """The short cut: a factor 1 or 0 for germs and bounds alike."""
        slope, intercept, sign = turned(*value.pair)
        self._settle(slope, intercept, *value.error_pair)
        active = sign.relu_()
        return BoundedGerm.of_pairs(value.pair * active, value.error_pair * active)

    def _scaled_error(self, value: BoundedGerm, factor: Tensor) -> Tensor:
        """The error of ``value * factor``, rounded a few times; a factor may be rounded itself."""
        error = value.error_pair * factor * SLACK + 8 * ROUNDOFF * (value.pair.abs() * factor)
        absent = ((value.pair == 0) & (value.error_pair == 0)) | (factor == 0)
        self._doubt_underflow(error, absent)
        return error

    def _piece_sizes(self, value: Germ, pieces: Pieces) -> tuple[Tensor, Tensor]:
        """Sizes of the slope and the intercept of the piece that each germ ends up in."""
        slope = self.number(pieces.slopes[0]).abs()
        offset = self.number(pieces.intercepts[0]).abs()
        for index, threshold in enumerate(pieces.thresholds):
            above = value.exceeds(float(threshold))
            slope = torch.where(above, self.number(pieces.slopes[index + 1]).abs(), slope)
            offset = torch.where(above, self.number(pieces.intercepts[index + 1]).abs(), offset)
        return slope, offset

    def largest(
        self, candidates: Sequence[Germ], sign: int = 1, places: Places | None = None
    ) -> BoundedGerm:
        """Prove which candidate wins; a candidate that is the winner itself needs no proof."""
        rows = [_rows(_bounded(candidate), sign) for candidate in candidates]
        self.sums += [row[:2].sum() for row in rows]
        best, winner = tournament(rows)
        where = [] if places is None else list(places())
        for place, row in enumerate(rows):
            apart = winner != place
            for other, at in enumerate(where):
                apart = apart & ~((winner == other) & (at == where[place]))
            slope, intercept = best[:2] - row[:2]
            self._settle(slope.abs(), intercept, *(best[2:] + row[2:]) * apart.to(best))
        return BoundedGerm.of_pairs(best[:2] if sign > 0 else -best[:2], best[2:])

    def smooth(self, value: Germ, curve: Smooth) -> BoundedGerm:
        """Prove the direction in which each value moves; at rest the slope of the curve counts."""
        bounded = _bounded(value)
        slope, intercept = bounded.pair
        slope_error, intercept_error = bounded.error_pair
        still = slope == 0
        self._require(torch.where(still, slope_error == 0, slope.abs() > slope_error))
        result = super().smooth(value, curve)
        if curve.jump is not None:
            place = float(curve.jump)
            doubt = intercept_error * SLACK + 4 * ROUNDOFF * abs(place)
            self._require(~still | ((intercept - place).abs() > doubt))
        for threshold in curve.settles or ():
            turn = slope.sign()
            parts = (slope.abs(), (intercept - threshold) * turn)
            leads = Leads.of(self.rays, *parts, *bounded.error_pair * turn.abs())
            self._enclose(leads, leads.margins()[1])
        ends = (self.number(curve.above.slope).abs(), self.number(curve.below.slope).abs())
        moved = self._scaled_error(bounded, torch.where(still, 0.0, torch.where(slope > 0, *ends)))
        moved = moved + 8 * ROUNDOFF * result.pair.abs()
        rest = intercept_error * curve.lipschitz * SLACK + FUNCTION_ERROR * intercept.abs()
        at_rest = torch.stack([torch.zeros_like(rest), rest])
        absent = ~still | ((intercept == 0) & (intercept_error == 0))
        self._doubt_underflow(at_rest, torch.stack([torch.ones_like(absent), absent]))
        at_rest[1] += FUNCTION_ERROR * result.intercept.abs()
        return BoundedGerm(result.parts, torch.where(still, at_rest, moved).flatten(0, 1))

    def steps(self, value: Germ, steps: Steps) -> BoundedGerm:
        """Prove the interval that each column ends up in."""
        bounded = _bounded(value)
        slope, intercept = bounded.pair[:, :, steps.columns]
        slope_error, intercept_error = bounded.error_pair[:, :, steps.columns]
        still = slope == 0
        self._require(torch.where(still, slope_error == 0, slope.abs() > slope_error))
        doubt = intercept_error * SLACK
        low, high = (
            torch.nextafter(intercept + side * doubt, side * torch.full_like(doubt, torch.inf))
            for side in (-1, 1)
        )
        sides = [steps.intervals(torch.where(doubt == 0, intercept, end)) for end in (low, high)]
        self._require(~still | (sides[0] == sides[1]))
        first, last = steps.ends.to(slope)
        ends = torch.where(slope > 0, last, first)
        turn = slope.sign() * (~ends.isnan())
        gap = (intercept - torch.nan_to_num(ends)) * turn
        parts = (slope.abs(), gap, slope_error, intercept_error)
        leads = Leads.of(self.rays, *(part * turn.abs() for part in parts))
        self._enclose(leads, leads.margins()[1])
        result = super().steps(value, steps).parts
        return BoundedGerm(result, torch.zeros_like(result))

    def steps_from_above(self, value: Germ, steps: Steps) -> tuple[BoundedGerm, Tensor]:
        """Values on intervals are exact."""
        result, tie = super().steps_from_above(value, steps)
        return BoundedGerm(result.parts, torch.zeros_like(result.parts)), tie

    def row_function(self, value: Germ, function: RowFunction) -> BoundedGerm:
        """Bound the rounding of what is at rest and exact; nothing else is proven."""
        bounded = _bounded(value)
        exact = ((bounded.slope == 0) & (bounded.error_pair == 0).all(dim=0)).all(dim=1)
        self.certain = self.certain & exact
        result = super().row_function(value, function).parts
        error = torch.zeros_like(result)
        error[self.rays :] = function.error
        return BoundedGerm(result, error)

    def choose(self, condition: Tensor, yes: Germ, no: Germ) -> BoundedGerm:
        """Take one value and its bound where a condition holds, another elsewhere."""
        first, second = _bounded(yes), _bounded(no)
        return BoundedGerm.of_pairs(
            torch.where(condition, first.pair, second.pair),
            torch.where(condition, first.error_pair, second.error_pair),
        )

    def _settle(self, *parts: Tensor, where: Tensor | bool = True) -> None:
        """Prove that leads are positive, or zero structurally, and note since when they are.

        ``where`` tells which of them matter for the reach.
        """
        leads = Leads.of(self.rays, *parts)
        room, ahead = leads.margins()
        self.certain = self.certain & (room >= 0) & (ahead.amin(dim=1) > -torch.inf)
        self._enclose(leads, ahead, where)

    def _enclose(self, leads: Leads, ahead: Tensor, where: Tensor | bool = True) -> None:
        """Bound the last ``t`` at which leads become positive.

        The latest crossing has both bounds; all others only matter where they might come later
        still.
        """
        if where is False:
            return
        at = leads.crossings()
        if isinstance(where, Tensor):
            never = ~where.reshape(self.rays, -1)
            at, ahead = (each.masked_fill(never, torch.inf) for each in (at, ahead))
        last, index = at.min(dim=1, keepdim=True)
        low = leads.earliest(index).masked_fill_(last == torch.inf, 0.0)
        high = ahead.amin(dim=1) * -SLACK
        self.reach = torch.maximum(self.reach, -last[:, 0])
        self.enclosure = torch.maximum(self.enclosure, torch.stack([low[:, 0], high]))

    def _require(self, sure: Tensor) -> None:
        self.certain = self.certain & sure.reshape(self.rays, -1).all(dim=1)

    def _doubt_underflow(self, sizes: Tensor, absent: Tensor) -> None:
        """Mark the rays where a product may have lost digits to underflow.

        ``absent`` tells which sizes are true zeros: another may have underflowed.
        """
        least = sizes.masked_fill(absent, torch.inf).reshape(2, self.rays, -1)
        self.certain = self.certain & (least.amin(dim=2).amin(dim=0) > UNDERFLOW)


class Magnitudes:
    """Sizes of weights, computed once for weights that stay between chunks."""

    def __init__(self, lasting: Sequence[Tensor]) -> None:
        self.lasting = {id(tensor): tensor for tensor in lasting}
        self.known: dict[int, tuple[Tensor, Tensor]] = {}

    def of(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """``|weight|``, a little too large, and the smallest that is not zero, at most 1."""
        if id(weight) not in self.lasting:
            return self._measure(weight)
        if id(weight) not in self.known:
            self.known[id(weight)] = self._measure(weight)
        return self.known[id(weight)]

    @staticmethod
    def _measure(weight: Tensor) -> tuple[Tensor, Tensor]:
        size = weight.double().abs()
        least = size.masked_fill(size == 0, torch.inf).amin().clamp(max=1.0)
        return size * SLACK, least


def _tiny(values: Tensor | Number) -> Tensor:
    """Which numbers are so small that a bound on them could vanish, and yet not zero."""
    if not isinstance(values, Tensor):
        values = torch.tensor(float(values), dtype=torch.float64)
    sizes = values.double().abs()
    return (sizes > 0) & (sizes < TINY)


def _least(sizes: Tensor) -> Tensor:
    """The smallest of ``(2, rays, ...)`` sizes on each ray that is not zero, by its reciprocal.

    The scale leaves reciprocals of denormal numbers finite.
    """
    inverse = torch.div(sizes.new_tensor(INVERSE), sizes)
    return INVERSE / torch.nan_to_num_(inverse, nan=torch.inf, posinf=0.0).amax(dim=2).amax(dim=0)


def _rows(value: BoundedGerm, sign: int) -> Tensor:
    """Slopes, intercepts and their errors as ``(4, rays, ...)``."""
    return torch.cat([value.pair if sign > 0 else -value.pair, value.error_pair])


def _bounded(value: Germ) -> BoundedGerm:
    if not isinstance(value, BoundedGerm):
        raise TypeError("a germ without bounds in a walk with bounds")
    return value.collapsed()
