"""Germs of several floats each: the walk at infinity with bounds of ``2**-75`` and far below.

Everything is as in :mod:`farfield.exact.bounded`, only that numbers are sums of floats
(:mod:`farfield.exact.slices`) and that affine maps are rounded at the end of several slices.
Decisions look at the first float; the others count as part of its error there.

An error that was made early grows with every layer, so that late layers need fewer slices than
early ones: each takes as many as make its own error small beside the one that it is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import torch
from torch import Tensor

from farfield.exact.bounded import BoundedDomain, BoundedGerm, Magnitudes
from farfield.exact.germ import Germ, is_relu, kink
from farfield.exact.leads import SLACK
from farfield.exact.matrix import ExactBudget
from farfield.exact.sliced_germ import (
    SlicedGerm,
    as_bounded,
    collapsed,
    error_of,
    floats_of,
    moved,
    signed,
    size_of,
    slopes_alone,
    times,
    zeroed,
)
from farfield.exact.slices import (
    LARGEST,
    ROUNDOFF,
    SMALLEST,
    SlicedWeight,
    Slices,
    add_up,
    cut,
    out_of_range,
    row_tops,
    sum_error,
    two_product,
)
from farfield.graph.rules import Affine, Pieces, Places

# How small the error of a layer must be beside the one that it is given.
BESIDE = 2.0**-6
# So much smaller than the least error of any layer is what marks a number as not zero.
MARK_BITS = 24


class LostRays(Exception):  # noqa: N818 - control flow inside the package
    """No ray of a walk can be proven any more."""


class SlicedDomain(BoundedDomain):
    """The walk at infinity in slices.

    Attributes:
        slices: How many slices the first layers take.
        weights: Weights in slices, by their place in the walk; kept between chunks.
        count: How many operations were applied.
        lost: ``(rays,)`` after how many operations each ray was lost; 0 for those that are not.
        doubt: ``(rays,)`` the error there, relative to the largest number of the ray.
    """

    def __init__(
        self,
        rays: int,
        like: Tensor,
        magnitudes: Magnitudes,
        slices: int,
        weights: dict[int, SlicedWeight],
        budget: ExactBudget,
    ) -> None:
        super().__init__(rays, like, magnitudes)
        self.slices = slices
        self.weights = weights
        self.budget = budget
        self.count = 0
        self.lost = torch.zeros(rays, dtype=torch.int64, device=like.device)
        self.doubt = like.new_zeros(rays)
        self.begin(like)

    def begin(self, like: Tensor) -> None:
        """Prepare what walks of one kind note besides; numbers are made like those given."""

    @property
    def most_floats(self) -> int:
        """How many floats hold what the first layers leave exact."""
        return 2 + 22 * self.slices // 53

    def affine(self, operation: Affine, *values: Germ) -> BoundedGerm:
        """Apply an affine map in slices; one that cannot be cut, in single floats."""
        self.budget.check()
        self.count += 1
        result = self._linear(operation, values)
        return result if operation.offset is None else self._plus(result, operation.offset)

    def _linear(self, operation: Affine, values: Sequence[Germ]) -> BoundedGerm:
        if operation.terms == 0 or (operation.terms == 1 and not operation.weights):
            return moved(operation, values)
        if operation.adds:
            return self._sum(values, operation.adds)
        if len(operation.weights) == len(values) == 1:
            return self._weighted(operation, values[0])
        if operation.divisor is not None and len(values) == 1:
            return self._mean(operation, values[0], operation.divisor)
        return super().affine(replace(operation, offset=None), *values)

    def _sum(self, values: Sequence[Germ], sign: int) -> SlicedGerm:
        """``left + right`` or ``left - right``."""
        left, right = (floats_of(value) for value in values)
        errors = [error_of(value) for value in values]
        rounded = [len(f) for f, e in zip((left, right), errors, strict=True) if bool(e.any())]
        terms = [*left, *(right if sign > 0 else (-part for part in right))]
        count = max(2, min(rounded, default=self.most_floats))
        size = sum_error(len(terms), count) * size_of(terms)
        parts = add_up(terms, count)
        return SlicedGerm(parts[0], (errors[0] + errors[1]) * SLACK + size, parts[1:])

    def _plus(self, value: BoundedGerm, offset: Tensor | float) -> SlicedGerm:
        """Add a constant to the intercepts."""
        floats = floats_of(value)
        half = len(floats[0]) // 2
        constant = torch.as_tensor(offset, dtype=torch.float64, device=value.device)
        if constant.ndim == value.parts.ndim and len(constant) != 1:
            constant = constant[half:]
        terms = [*(part[half:] for part in floats), constant]
        count = max(2, len(floats))
        added = add_up(terms, count)
        error = value.error.clone()
        error[half:] = (error[half:] + sum_error(len(terms), count) * size_of(terms)) * SLACK
        zeros = torch.zeros_like(floats[0][:half])
        slopes = [part[:half] for part in floats] + [zeros] * (count - len(floats))
        parts = [torch.cat([slope, each]) for slope, each in zip(slopes, added, strict=True)]
        self.certain = self.certain & ~out_of_range(constant.abs()).any()
        return SlicedGerm(parts[0], error, tuple(parts[1:]))

    def _weighted(self, operation: Affine, value: Germ) -> SlicedGerm:
        """A matrix product, a convolution, a scale."""
        floats, error = floats_of(value), error_of(value)
        (weight,) = operation.weights
        sliced = self.weights.get(self.count)
        if sliced is None:
            shape = floats[0].shape[1:]
            sliced = SlicedWeight.of(
                operation.function, weight, shape, operation.terms, self.slices
            )
            self.weights[self.count] = sliced
        size, _ = self.magnitudes.of(weight)
        self.certain = self.certain & sliced.usable
        tops = self._tops(floats, sliced.bits)
        grown = (operation.magnitude or operation.function)(
            self._marked(floats, error, tops, sliced.bits), size
        )
        count = self._slices_for(grown, tops, sliced)
        parts = sliced.apply(floats, tops, count)
        fresh = _beside(tops, grown) * sliced.fresh_error(count)
        return SlicedGerm(parts[0], _plus_fresh(grown, fresh), parts[1:])

    def _mean(self, operation: Affine, value: Germ, divisor: int) -> SlicedGerm:
        """Sums of slices are exact, and so are their quotients by a power of two."""
        floats, error = floats_of(value), error_of(value)
        bits = 48 - math.ceil(math.log2(operation.terms))
        tops = self._tops(floats, bits)
        grown = operation.function(self._marked(floats, error, tops, bits)) * SLACK
        count = len(floats)
        slices, rests = cut(floats, tops, bits, count)
        sums = [operation.function(each) * divisor for each in (*slices, rests[-1])]
        tops = _beside(tops, grown)
        whole = tops * 2.0**-bits
        for place in range(count):
            # Exact sums are multiples of the grid of their slices: rounding to it restores them.
            sums[place] = torch.round(sums[place] / whole) * whole
            whole = whole * 2.0 ** -(bits + 1)
        held = max(2, count)
        parts = _divided(add_up(sums, held), divisor)
        rate = 2.0 ** -((bits + 1) * count) * (operation.terms + 16) * ROUNDOFF
        fresh = (rate + sum_error(4 * count + 8, held) * 4) * operation.terms / divisor * tops
        return SlicedGerm(parts[0], _plus_fresh(grown, fresh), parts[1:])

    def _tops(self, floats: Slices, bits: int) -> Tensor:
        """What no number of a row exceeds; doubts rows that cannot be cut."""
        tops = row_tops(floats[0])
        if len(floats) > 1:
            rest = size_of(floats[1:]).reshape(len(tops), -1).amax(dim=1)
            self._doubt_rows(rest * 2.0 ** (bits + 2) > tops.flatten())
        self._doubt_rows(~((tops >= SMALLEST) & (tops <= LARGEST)).flatten())
        return tops

    def _doubt_rows(self, rows: Tensor) -> None:
        self.certain = self.certain & ~rows.reshape(2, self.rays).any(dim=0)

    def _marked(self, floats: Slices, error: Tensor, tops: Tensor, bits: int) -> Tensor:
        """Errors, and a trace of every number that is not zero: what it meets is not exact."""
        mark = tops * 2.0 ** -(53 + (bits + 1) * self.slices + MARK_BITS)
        present = error + size_of(floats)
        return error + torch.where(present > 0, mark, 0.0)

    def _slices_for(self, grown: Tensor, tops: Tensor, weight: SlicedWeight) -> int:
        """The fewest slices whose error is small beside what comes in."""
        given = grown.reshape(len(grown), -1).amax(dim=1) * BESIDE
        for count in range(self.slices):
            fresh = float(weight.fresh_error(count).max()) * tops.flatten()
            if bool(((fresh <= given) | (given == 0)).all()):
                return count
        return self.slices

    def piecewise(self, value: Germ, pieces: Pieces) -> BoundedGerm:
        """Prove which piece each germ ends up in."""
        if is_relu(pieces):
            return self._sliced_relu(value)
        above: list[Tensor] = []
        zeros: list[Tensor | None] = []
        germs: list[BoundedGerm] = []
        for index, threshold in enumerate(pieces.thresholds):
            exactly = Fraction(float(threshold)) == threshold
            placed = value if threshold == 0 else self._plus(as_bounded(value), -float(threshold))
            placed, assumed = self.without_ties(placed) if exactly else (placed, None)
            if assumed is not None:
                value = zeroed(value, slopes_alone(assumed))
            germ = collapsed(placed)
            sign = self.sign(*germ.pair)
            where = kink(pieces, index)
            where = where.expand_as(sign) if isinstance(where, Tensor) else where
            self._settle(*germ.pair * sign, *germ.error_pair, where=where)
            above.append(sign > 0)
            zeros.append(assumed)
            germs.append(germ)
        taken = torch.zeros(value.pair.shape[1:], dtype=torch.int64, device=value.device)
        for index, here in enumerate(above, start=1):
            taken = torch.where(here, index, taken)
        self.note_pieces(zeros, taken, germs)
        return self._on_pieces(as_bounded(value), pieces, above)

    def without_ties(self, value: Germ) -> tuple[Germ, Tensor | None]:
        """A place for walks that take to be zero what no precision decides."""
        return value, None

    def sign(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """The sign of germs: of the slope, or of the intercept where that is zero."""
        return torch.sign(torch.where(slope == 0, intercept, slope))

    def note_pieces(
        self, zeros: Sequence[Tensor | None], taken: Tensor, above: Sequence[BoundedGerm]
    ) -> None:
        """A place for walks that keep which pieces were taken, and how far above thresholds."""

    def note_winner(
        self, zeros: Sequence[Tensor | None], winner: Tensor, leads: Sequence[BoundedGerm]
    ) -> None:
        """A place for walks that keep which candidates won, and how far ahead of the others."""

    def _sliced_relu(self, value: Germ) -> SlicedGerm:
        value, assumed = self.without_ties(value)
        germ = collapsed(value)
        sign = self.sign(*germ.pair)
        self._settle(*germ.pair * sign, *germ.error_pair)
        factor = sign.relu_()
        self.note_pieces([assumed], factor, [germ])
        active = factor.repeat(2, *[1] * (sign.ndim - 1))
        parts = [part * active for part in floats_of(value)]
        return SlicedGerm(parts[0], error_of(value) * active, tuple(parts[1:]))

    def _on_pieces(self, value: BoundedGerm, pieces: Pieces, above: list[Tensor]) -> BoundedGerm:
        """Multiply by the slope of a piece and add its intercept."""
        slope, offset = self.number(pieces.slopes[0]), self.number(pieces.intercepts[0])
        for index, here in enumerate(above, start=1):
            slope = torch.where(here, self.number(pieces.slopes[index]), slope)
            offset = torch.where(here, self.number(pieces.intercepts[index]), offset)
        pair = slope.expand(value.pair.shape[1:]).repeat(2, *[1] * (value.parts.ndim - 1))
        numbers = [*pieces.slopes, *pieces.intercepts]
        inexact = any(not isinstance(n, Tensor) and Fraction(float(n)) != n for n in numbers)
        if bool(out_of_range(slope.abs()).any() | out_of_range(offset.abs()).any()):
            self.certain = torch.zeros_like(self.certain)
        scaled = times(value, pair, inexact)
        if all(number == 0 for number in pieces.intercepts):
            return scaled
        shifted = self._plus(scaled, torch.cat([offset, offset]) if offset.ndim else offset)
        doubt = ROUNDOFF * offset.abs() if inexact else torch.zeros_like(offset)
        error = shifted.error.clone()
        error[self.rays :] += doubt * SLACK
        return replace(shifted, error=error)

    def largest(
        self, candidates: Sequence[Germ], sign: int = 1, places: Places | None = None
    ) -> BoundedGerm:
        """Prove which candidate wins; a candidate that is the winner itself needs no proof."""
        germs = [signed(candidate, sign) for candidate in candidates]
        best, winner = germs[0], torch.zeros_like(germs[0].slope)
        for place, germ in enumerate(germs[1:], start=1):
            lead, _ = self.without_ties(self._sum((germ, best), -1))
            ahead = self.sign(lead.slope, lead.intercept) > 0
            best = self.choose(ahead, germ, best)
            winner = torch.where(ahead, float(place), winner)
        where = [] if places is None else list(places())
        zeros, gaps = [], []
        for place, germ in enumerate(germs):
            apart = winner != place
            for other, at in enumerate(where):
                apart = apart & ~((winner == other) & (at == where[place]))
            both = apart.repeat(2, *[1] * (apart.ndim - 1))
            lead, assumed = self.without_ties(zeroed(self._sum((best, germ), -1), ~both))
            zeros.append(assumed)
            gaps.append(collapsed(lead))
            self._settle(*gaps[-1].pair, *gaps[-1].error_pair)
        self.note_winner(zeros, winner, gaps)
        return signed(best, sign)

    def choose(self, condition: Tensor, yes: Germ, no: Germ) -> SlicedGerm:
        """Take one value and its bound where a condition holds, another elsewhere."""
        both = condition.repeat(2, *[1] * (condition.ndim - 1))
        first, second = floats_of(yes), floats_of(no)
        zero = torch.zeros_like(first[0])
        count = max(len(first), len(second))
        first, second = ((*each, *[zero] * (count - len(each))) for each in (first, second))
        parts = [torch.where(both, a, b) for a, b in zip(first, second, strict=True)]
        error = torch.where(both, error_of(yes), error_of(no))
        return SlicedGerm(parts[0], error, tuple(parts[1:]))

    def _settle(self, *parts: Tensor, where: Tensor | bool = True) -> None:
        """As with single floats; notes when a ray was lost, and gives up with the last."""
        before = self.certain
        super()._settle(*parts, where=where)
        new = before & ~self.certain
        if bool(new.any()):
            self.lost = torch.where(new, self.count, self.lost)
            self.doubt = torch.where(new, _doubt(self.rays, *parts), self.doubt)
        if not bool(self.certain.any()):
            raise LostRays


def _doubt(
    rays: int, slope: Tensor, intercept: Tensor, slope_error: Tensor, intercept_error: Tensor
) -> Tensor:
    """``(rays,)`` the largest error of an open decision, relative to the largest number."""
    still = (slope == 0) & (slope_error == 0)
    ratios = []
    for part, error, matters in (
        (slope, slope_error, ~still),
        (intercept, intercept_error, still),
    ):
        open_ = torch.where(matters & (part <= error), error, 0.0).reshape(rays, -1).amax(dim=1)
        most = part.abs().reshape(rays, -1).amax(dim=1)
        # Nothing but open zeros is a tie, whatever its errors are.
        ratios.append(torch.where((open_ > 0) & (most > 0), open_ / most, 0.0))
    return torch.maximum(*ratios)


def _beside(tops: Tensor, rows: Tensor) -> Tensor:
    """Numbers of rows with as many dimensions as values that have them."""
    return tops.reshape(-1, *[1] * (rows.ndim - 1))


def _plus_fresh(grown: Tensor, fresh: Tensor) -> Tensor:
    """Add a layer's own error wherever something that is not zero came in."""
    return torch.where(grown > 0, grown + fresh, 0.0) * SLACK


def _divided(parts: Slices, divisor: int) -> Slices:
    """Long division by a whole number: each remainder goes to the next float."""
    if divisor & (divisor - 1) == 0:
        return tuple(part / divisor for part in parts)
    by = parts[0].new_tensor(float(divisor))
    found, left = [], list(parts)
    for _ in range(len(parts)):
        quotient = left[0] / by
        product, error = two_product(quotient, by)
        found.append(quotient)
        left = list(add_up([left[0], -product, -error, *left[1:]], len(parts)))
    return add_up(found, len(found))
