"""Germs: functions of ``t`` known for all large ``t``, and how a network acts on them.

On a ray ``origin + t * direction`` every value of a piecewise-affine network is, from some ``t``
on, ``slope * t + intercept``. The pair is the value's germ at infinity. Germs are ordered
lexicographically, which *is* the order of the two functions for all large ``t``, so every decision
of the network (is this unit active? which element wins this maximum?) can be read off them:

* an affine map acts on slope and intercept alike, its offset on the intercept alone;
* a piecewise-affine function takes the piece that the germ ends up in;
* the largest of several germs is the lexicographically largest;
* a smooth function takes its asymptote where the slope is not zero, and acts on the intercept
  where it is;
* steps take their first or last value where the slope is not zero, and a function of a whole row
  its own limit where any is not.

Along the way the domain notes ``reach``, the last ``t`` at which any decision still changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.errors import UnsupportedOperation
from farfield.graph.activations import RELU
from farfield.graph.growth import Growth, unused
from farfield.graph.rules import Affine, Number, Pieces, Places, RowFunction, Smooth, Steps


@dataclass(frozen=True, slots=True)
class Parts:
    """A value of a walk in one tensor, so that an affine map is one call for all its numbers."""

    parts: Tensor

    @property
    def shape(self) -> torch.Size:
        """The shape of the tensor."""
        return self.parts.shape

    @property
    def device(self) -> torch.device:
        """Where the numbers live."""
        return self.parts.device

    def new_zeros(self, shape: tuple[int, ...]) -> Tensor:
        """Zeros of the same type and on the same device."""
        return self.parts.new_zeros(shape)


@dataclass(frozen=True, slots=True)
class Germ(Parts):
    """Slopes and intercepts in one tensor: first the slopes of all rays, then the intercepts."""

    @property
    def slope(self) -> Tensor:
        """How fast each value grows."""
        return self.parts[: self.parts.shape[0] // 2]

    @property
    def intercept(self) -> Tensor:
        """Where the line that a value ends on meets ``t = 0``."""
        return self.parts[self.parts.shape[0] // 2 :]

    @property
    def pair(self) -> Tensor:
        """The same tensor as ``(2, rays, ...)``."""
        return self.parts.reshape(2, -1, *self.parts.shape[1:])

    def exceeds(self, threshold: float) -> Tensor:
        """Whether the value is above a constant for all large ``t``: the slope decides first.

        >>> g = Germ(torch.tensor([1.0, -1.0, 0.0, 0.0, -9.0, 9.0, 3.0, 2.0]))
        >>> g.exceeds(2.0).tolist()
        [True, False, True, False]
        """
        return torch.where(self.slope == 0, self.intercept - threshold, self.slope) > 0

    @classmethod
    def of(cls, pair: Tensor) -> Germ:
        """Make a germ of a ``(2, rays, ...)`` tensor."""
        return cls(pair.flatten(0, 1))


class GermDomain:
    """The walk at infinity for a number of rays.

    Attributes:
        rays: How many rays.
        reach: ``(rays,)`` the last ``t`` at which a decision changes, so far.
        asymptotic: ``(rays,)`` whether some value only approaches its germ (smooth functions).
        undecided: ``(rays,)`` whether a function of rows has several possible limits.
        sums: One sum for each value that is about to lose parts; not finite after an overflow.
    """

    def __init__(self, rays: int, like: Tensor) -> None:
        self.rays = rays
        self.reach = like.new_zeros(rays)
        self.asymptotic = torch.zeros(rays, dtype=torch.bool, device=like.device)
        self.undecided = torch.zeros_like(self.asymptotic)
        self.sums: list[Tensor] = []

    def constant(self, tensor: Tensor) -> Germ:
        """A constant that has a row for each row of the walk: no slope."""
        pair = tensor.to(self.reach).unflatten(0, (2, -1)).clone()
        pair[0] = 0
        return Germ.of(pair)

    def affine(self, operation: Affine, *values: Germ) -> Germ:
        """Act on slope and intercept alike; the offset goes to the intercept alone."""
        parts = operation.function(*(value.parts for value in values), *operation.weights)
        if operation.offset is None:
            return Germ(parts)
        return Germ(shifted(parts, operation.offset, fresh=bool(operation.weights)))

    def piecewise(self, value: Germ, pieces: Pieces) -> Germ:
        """Take the piece that each germ ends up in."""
        if not pieces.thresholds:
            return self._constant_piece(value, pieces)
        if is_relu(pieces):
            return Germ.of(value.pair * self.active(value))
        slope, intercept = self.number(pieces.slopes[0]), self.number(pieces.intercepts[0])
        for index, threshold in enumerate(pieces.thresholds):
            above = value.exceeds(float(threshold))
            self.note_threshold(value, float(threshold), kink(pieces, index))
            slope = torch.where(above, self.number(pieces.slopes[index + 1]), slope)
            intercept = torch.where(above, self.number(pieces.intercepts[index + 1]), intercept)
        pair = value.pair * slope
        if any(offset != 0 for offset in pieces.intercepts):
            pair[1].add_(intercept)
        return Germ.of(pair)

    def active(self, value: Germ) -> Tensor:
        """1 where a ReLU is active for all large ``t``, else 0; notes when that was decided.

        A factor and not a mask: overflow shows in the product, and it is several times faster.
        """
        slope, intercept = value.pair.unbind(0)
        still = slope.eq(0)
        self.note((intercept / slope).masked_fill_(still, 0.0), sign=-1)
        return torch.sign(torch.where(still, intercept, slope)).relu_()

    def _constant_piece(self, value: Germ, pieces: Pieces) -> Germ:
        pair = value.pair * self.number(pieces.slopes[0])
        pair[1].add_(self.number(pieces.intercepts[0]))
        return Germ.of(pair)

    def largest(
        self, candidates: Sequence[Germ], sign: int = 1, places: Places | None = None
    ) -> Germ:
        """Take the lexicographically largest candidate (the smallest where ``sign`` is -1)."""
        pairs = [candidate.pair if sign > 0 else -candidate.pair for candidate in candidates]
        best = self.contest(pairs)
        self.watch(*candidates)
        return Germ.of(best if sign > 0 else -best)

    def contest(self, pairs: Sequence[Tensor]) -> Tensor:
        """Find the largest of ``(2, rays, ...)`` tensors; note when it took the lead."""
        slope, intercept = pairs[0]
        for pair in pairs[1:]:
            better = (pair[0] > slope) | ((pair[0] == slope) & (pair[1] > intercept))
            slope = torch.where(better, pair[0], slope)
            intercept = torch.where(better, pair[1], intercept)
        for pair in pairs:
            gap = slope - pair[0]
            self.note(((pair[1] - intercept) / gap).masked_fill_(gap == 0, 0.0))
        return torch.stack([slope, intercept])

    def smooth(self, value: Germ, curve: Smooth) -> Germ:
        """Take the asymptote where the value moves, the function itself where it does not."""
        self.watch(value)
        slope, intercept = value.slope, value.intercept
        up, still = slope > 0, slope == 0
        if curve.settles is None:
            moving = (~still).reshape(self.rays, -1).any(dim=1)
            self.asymptotic = self.asymptotic | moving
        else:
            for threshold in curve.settles:
                self.note_threshold(value, threshold)
        above, below = curve.above, curve.below
        factor = torch.where(up, self.number(above.slope), self.number(below.slope))
        offset = torch.where(up, self.number(above.intercept), self.number(below.intercept))
        # At rest the function sees the intercept; elsewhere zero, which cannot overflow in it.
        settled = curve.function(torch.where(still, intercept, 0.0))
        moved = torch.stack([slope * factor, intercept * factor + offset])
        return Germ.of(torch.where(still, torch.stack([torch.zeros_like(slope), settled]), moved))

    def steps(self, value: Germ, steps: Steps) -> Germ:
        """Take the value on the interval that each column ends up in."""
        self.watch(value)
        slope, intercept = (
            each.index_select(1, steps.columns) for each in (value.slope, value.intercept)
        )
        up, still = slope > 0, slope == 0
        low, high = steps.limits
        heights = torch.where(up, high, low)
        if is_batched(still) or bool(still.any()):
            at_rest = steps.heights(steps.intervals(intercept.double()))
            heights = torch.where(still, at_rest, heights)
        first, last = steps.ends.to(slope)
        crossing = torch.where(up, last, first).sub_(intercept).div_(slope)
        self.note(crossing.masked_fill_(still.logical_or_(crossing.isnan()), 0.0))
        return Germ.of(torch.stack([torch.zeros_like(slope), heights.to(slope)]))

    def steps_from_above(self, value: Germ, steps: Steps) -> tuple[Germ, Tensor]:
        """The same for values that come from above, and ``(rays, outputs)`` where that matters."""
        slope, intercept = value.slope[:, steps.columns], value.intercept[:, steps.columns]
        above = torch.nextafter(intercept, torch.full_like(intercept, torch.inf)).double()
        places = steps.intervals(above)
        tie = (slope == 0) & (places != steps.intervals(intercept.double()))
        heights = steps.heights(places).to(slope)
        return Germ.of(torch.stack([torch.zeros_like(slope), heights])), tie

    def choice(self, mask: Germ, yes: Germ, no: Germ) -> Germ:
        """Take the value that a mask says; when it was decided is known from the mask."""
        self.watch(yes, no)
        return self.choose(mask.intercept > 0.5, yes, no)

    def row_function(self, value: Germ, function: RowFunction) -> Germ:
        """Take the limit of rows that move, and the function itself of rows at rest."""
        self.watch(value)
        slope, intercept = value.slope, value.intercept
        moving = (slope != 0).any(dim=1)
        values = function(torch.where(moving[:, None], 0.0, intercept))
        if bool(moving.any()):
            values[moving] = self._limit(function, slope, intercept, moving).to(values)
            when = function.settles(slope[moving], intercept[moving]).to(values)
            never = torch.isinf(when)
            self.asymptotic[moving] |= never
            self.reach[moving] = torch.maximum(self.reach[moving], when.masked_fill(never, 0.0))
        return Germ.of(torch.stack([torch.zeros_like(values), values]))

    def _limit(
        self, function: RowFunction, slope: Tensor, intercept: Tensor, moving: Tensor
    ) -> Tensor:
        """The limit of rows that move; marks those on which several are possible."""
        limit = function.limit(slope[moving], intercept[moving])
        open_ = None if limit is None else limit.isnan().any(dim=1)
        if limit is not None and open_ is not None and bool(open_.any()):
            shared = function.in_parts(slope[moving][open_], intercept[moving][open_])
            if shared is None:
                limit = None
            else:
                limit[open_] = shared.to(limit)
                self.undecided[moving] |= open_
        if limit is None:
            raise UnsupportedOperation(
                f"{type(function).__name__} has no known limit of values that keep growing"
            )
        return limit

    def grow(self, operation: Growth, *values: Germ) -> Germ:
        """What changes growth is walked in series."""
        raise unused(operation)

    def compare(self, value: Germ, threshold: Number) -> Tensor:
        """Say where germs stand to a constant: 1 above, 0 at, -1 below it."""
        still = value.slope == 0
        return torch.sign(torch.where(still, value.intercept - float(threshold), value.slope))

    def motion(self, value: Germ) -> Tensor:
        """Say whether values grow, rest or fall."""
        return torch.sign(value.slope)

    def choose(self, condition: Tensor, yes: Germ, no: Germ) -> Germ:
        """Take one value where a condition holds, another elsewhere."""
        return Germ.of(torch.where(condition, yes.pair, no.pair))

    def number(self, value: Number | Tensor) -> Tensor:
        """A parameter in the type of the analysis: bare floats would be taken as float32."""
        return value if isinstance(value, Tensor) else self.reach.new_tensor(float(value))

    def note_threshold(self, value: Germ, threshold: float, where: Tensor | bool = True) -> None:
        """Note when values last cross a constant."""
        if where is False:
            return
        still = value.slope == 0
        if isinstance(where, Tensor):
            still = still | ~where
        crossing = (value.intercept - threshold) / value.slope
        self.note(crossing.masked_fill_(still, 0.0), sign=-1)

    def note(self, crossings: Tensor, sign: int = 1) -> None:
        """Keep the largest crossing of each ray; given with the opposite sign where that is -1."""
        each = crossings.reshape(self.rays, -1)
        last = each.amax(dim=1) if sign > 0 else -each.amin(dim=1)
        self.reach = torch.maximum(self.reach, last)

    def watch(self, *values: Germ) -> None:
        """Remember whether any number overflowed: inf and NaN survive a sum."""
        self.sums += [value.parts.sum() for value in values]


def is_relu(pieces: Pieces) -> bool:
    """Whether this is ``max(x, 0)``, which deserves a short cut."""
    return pieces is RELU or (not _has_tensor(pieces) and pieces == RELU)


def _has_tensor(pieces: Pieces) -> bool:
    return any(isinstance(slope, Tensor) for slope in pieces.slopes)


def kink(pieces: Pieces, index: int) -> Tensor | bool:
    """Whether two neighbouring pieces differ at all (a leaky slope of 1 makes no kink)."""
    jump = pieces.intercepts[index] != pieces.intercepts[index + 1]
    below, above = pieces.slopes[index : index + 2]
    if isinstance(below, Tensor):
        return (below != above) | jump
    if isinstance(above, Tensor):
        return (above != below) | jump
    return bool(below != above or jump)


def shifted(parts: Tensor, offset: Tensor | float, *, fresh: bool) -> Tensor:
    """Add an offset to the intercepts; in place where nobody else holds the tensor."""
    half = parts.shape[0] // 2
    if isinstance(offset, Tensor) and offset.ndim == parts.ndim and len(offset) != 1:
        offset = offset[half:]
    # What is the same for all instances has no room for an offset of each.
    if fresh and (is_batched(parts) or not (isinstance(offset, Tensor) and is_batched(offset))):
        parts[half:].add_(offset)
        return parts
    return torch.cat([parts[:half], parts[half:] + offset])


def is_batched(tensor: Tensor) -> bool:
    """Whether a tensor stands for all instances at once, so that Python cannot branch on it."""
    return bool(torch._C._functorch.is_batchedtensor(tensor))
