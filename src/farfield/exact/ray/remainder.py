"""Remainders of outputs over windows: known functions of ``t``, and a radius of third order.

A unit ``x = chord + r`` with ``|r| <= radius`` goes through a function ``f`` with kinks, whose
chord is ``slope * chord + shift``. Against a fixed slope ``s`` that misses

    ``f(x) - slope * chord - shift - s r = tent + e``,  ``tent = f(chord) - slope * chord - shift``,

with ``|e| <= k * radius``, ``k`` the largest distance of ``s`` from slopes that ``f`` has around
``x``. The tent is a known function of ``t``, affine but for the places where the chord passes a
kink. So tents go into outputs with their signs and their shapes (:mod:`farfield.exact.ray.adjoint`
says how much each counts), and only ``e`` is left to be bounded: radii, which are of second order
in the width of a window, of those few units that meet a kink there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.exact.bounded import ROUNDOFF, gamma
from farfield.exact.ray.bend import Bend

# Covers the rounding of tents and of sums of them, relative to the numbers in them.
ROUNDING = 2.0**-36
# Covers the rounding of chords at a kink, relative to the largest number in them.
TINY = 2.0**-50


@dataclass(frozen=True, eq=False)
class Adjoint:
    """What a network does with fixed slopes.

    Attributes:
        slopes: ``(1, *row)`` for each function with kinks; for a maximum, which candidate leads.
        effects: ``(outputs, units)`` for each of them: what one more of each unit adds to outputs.
        norms: For each operation, and the input first: the most that it adds up for ones.
        sums: ``(operations, outputs)`` sizes of the derivatives with respect to its result, summed.
    """

    slopes: tuple[Tensor, ...]
    effects: tuple[Tensor, ...]
    norms: tuple[float, ...]
    sums: Tensor


@dataclass(frozen=True, eq=False)
class Course:
    """Remainders of outputs over one window, as far as they are known: affine between knots.

    Attributes:
        places: ``(knots,)`` from 0 to 1, in order.
        values: ``(knots, outputs)`` there.
    """

    places: Tensor
    values: Tensor


class Remainder:
    """Collects what slopes miss, function by function, while windows are walked.

    Args:
        adjoint: What the network does with fixed slopes.
        windows: How many windows.
    """

    def __init__(self, adjoint: Adjoint, windows: int) -> None:
        self.adjoint, self.windows = adjoint, windows
        outputs = adjoint.sums.shape[1]
        zero = adjoint.sums.new_zeros(windows, outputs)
        # Tents where windows begin, how they grow, and where they bend: window, place and growth.
        self._value, self._growth = zero, zero.clone()
        self._bends: list[tuple[Tensor, Tensor, Tensor]] = []
        # What is left, unit by unit: effects and bounds.
        self._left: list[tuple[Tensor, Tensor]] = []
        self._lost: list[float] = []
        self._functions = 0

    def begin(self, radius: float) -> None:
        """Note the input: how far it may be from its chord."""
        self._lost.append(radius)

    def linear(self, terms: int, results: int, size: float, radius: float, offset: float) -> None:
        """Note an operation that is linear: what it loses to rounding.

        Args:
            terms: How many products it sums into one result; 0 if it only copies.
            results: How many results it has: no number counts for more of them.
            size: The largest number that goes in.
            radius: The largest remainder that goes in.
            offset: The largest number that is added.
        """
        norm = self.adjoint.norms[len(self._lost)]
        own = gamma(terms) * (norm * size + offset) if terms else 0.0
        self._lost.append(2 * (own + gamma(results) * norm * radius))

    def bend(
        self,
        bend: Bend,
        ends: Tensor,
        bounds: tuple[Tensor, Tensor],
        radius: Tensor,
        lines: tuple[Tensor, Tensor | None, Tensor],
    ) -> None:
        """Note a function with kinks.

        Args:
            bend: The function.
            ends: ``(2, windows, *row)`` the chords that go in.
            bounds: ``(windows, *row)`` the least and the most that may go in.
            radius: ``(windows, *row)`` how far that may be from chords.
            lines: Slope, shift and distance as :meth:`Bend.lines` has them.
        """
        slope, shift, distance = lines
        base, effects = self._next()
        row = ends.shape[2:]
        opened = distance > 0
        units = _columns(opened | (slope != base))
        size = float(ends.abs().amax() * slope.abs().amax())
        if shift is not None:
            size += 2 * float(shift.abs().amax())
        self._lost.append(self._rounded(size, radius))
        if not len(units):
            return

        def pick(values: Tensor) -> Tensor:
            return values.flatten(-len(row))[..., units] if row else values[..., None]

        own, opened = bend._of_units(units, row), pick(opened)
        start, stop = pick(ends)
        moved = torch.zeros_like(start) if shift is None else pick(shift)
        low, high, away = pick(bounds[0]), pick(bounds[1]), pick(radius)
        steep = self._steepest(own, pick(base), low, high)
        middle, bound = _beside(own, (start, stop), (low, high), away, pick(base))
        aside = opened & (bound < steep * away)
        bound = torch.where(aside, bound, steep * away)
        noise = ROUNDING * (1 + steep + pick(base).abs())
        noise = noise * (start.abs() + stop.abs() + moved.abs() + away)
        bound = bound + torch.where(opened, noise, 0.0)
        effects = effects[:, units]
        self._value = self._value + torch.where(aside, middle, 0.0) @ effects.T
        self._left.append((effects, bound))
        self._tents(own, start, stop, (pick(slope), moved, opened), effects)

    def _tents(
        self,
        own: Bend,
        start: Tensor,
        stop: Tensor,
        line: tuple[Tensor, Tensor, Tensor],
        effects: Tensor,
    ) -> None:
        """Add the tents of some units: where they begin, how they grow, and where they bend."""
        slope, shift, opened = line
        over = [(start > limit) | ((start == limit) & (stop > limit)) for limit in own.thresholds]
        factor, offset = own._pieces(over)
        length = stop - start
        value = torch.where(opened, start * (factor - slope) + (offset - shift), 0.0)
        growth = torch.where(opened, length * (factor - slope), 0.0)
        self._value = self._value + value @ effects.T
        self._growth = self._growth + growth @ effects.T
        for index, limit in enumerate(own.thresholds):
            place = (limit - start) / length
            window, unit = torch.nonzero(opened & (place > 0) & (place < 1), as_tuple=True)
            change = (own.slopes[index + 1] - own.slopes[index]).expand_as(start)
            bent = change[window, unit] * length[window, unit].abs()
            self._bends.append((window, place[window, unit], bent[:, None] * effects.T[unit]))

    @staticmethod
    def _steepest(own: Bend, base: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """How far a slope is at most from those of the pieces between bounds."""
        most = torch.zeros_like(low)
        for index, slope in enumerate(own.slopes):
            met = torch.ones_like(low, dtype=torch.bool)
            if index > 0:
                met &= high >= own.thresholds[index - 1]
            if index < len(own.thresholds):
                met &= low <= own.thresholds[index]
            most = torch.where(met, torch.maximum(most, (slope - base).abs()), most)
        return most

    def largest(self, leader: Tensor, radii: Sequence[Tensor], excess: Tensor, size: float) -> None:
        """Note a maximum.

        Args:
            leader: ``(windows, *row)`` which candidate is followed.
            radii: ``(windows, *row)`` how far each candidate may be from its chord.
            excess: ``(windows, *row)`` by how much others may be larger than the one followed.
            size: The largest number that goes in.
        """
        base, effects = self._next()
        radius = torch.stack(list(radii))
        own = radius.gather(0, leader[None])[0]
        other = radius.gather(0, base.expand_as(leader)[None])[0]
        bound = excess / 2 + torch.where(leader == base, 0.0, own + other)
        units = _columns(bound > 0)
        self._lost.append(self._rounded(size, radius))
        self._left.append((effects[:, units], bound.reshape(self.windows, -1)[:, units]))

    def _next(self) -> tuple[Tensor, Tensor]:
        self._functions += 1
        place = self._functions - 1
        return self.adjoint.slopes[place], self.adjoint.effects[place]

    def _rounded(self, size: float, radius: Tensor) -> float:
        """What results of a function with kinks, of a size, and the way back lose at most."""
        norm = self.adjoint.norms[len(self._lost)]
        most = float(radius.amax()) if radius.numel() else 0.0
        return 4 * (TINY * size + ROUNDOFF * 8 * norm * most)

    def effects(self) -> tuple[Tensor, Tensor, Tensor]:
        """What is left: effects ``(outputs, units)``, bounds ``(windows, units)`` of units, losses.

        The losses, ``(outputs,)``, bound what rounding adds to each output.
        """
        some = self.adjoint.sums
        effects = torch.cat([some.new_zeros(some.shape[1], 0), *(e for e, _ in self._left)], dim=1)
        bounds = torch.cat([some.new_zeros(self.windows, 0), *(b for _, b in self._left)], dim=1)
        return effects, bounds, some.new_tensor(self._lost) @ some

    def courses(self) -> list[Course]:
        """What is known of each window."""
        outputs = self._value.shape[1]
        none = self._value.new_zeros(0)
        window = torch.cat([none.long(), *(each[0] for each in self._bends)])
        place = torch.cat([none, *(each[1] for each in self._bends)])
        bent = torch.cat([none.reshape(0, 1).expand(0, outputs), *(b for *_, b in self._bends)])
        own = [window == index for index in range(self.windows)]
        return [self._course(index, place[w], bent[w]) for index, w in enumerate(own)]

    def _course(self, window: int, place: Tensor, bent: Tensor) -> Course:
        order = torch.argsort(place)
        ends = place.new_tensor([0.0, 1.0])
        place, bent = torch.cat([ends[:1], place[order], ends[1:]]), bent[order]
        zero = bent.new_zeros(1, bent.shape[1])
        growth = torch.cat([zero, zero, bent.cumsum(dim=0)])
        taken = torch.cat([zero, zero, (bent * place[1:-1, None]).cumsum(dim=0)])
        values = self._value[window] + place[:, None] * (self._growth[window] + growth) - taken
        return Course(place, values)


def _beside(
    own: Bend,
    ends: tuple[Tensor, Tensor],
    bounds: tuple[Tensor, Tensor],
    away: Tensor,
    base: Tensor,
) -> tuple[Tensor, Tensor]:
    """Enclose what a slope misses beside the tent, for units whose chords meet no kink.

    The function is then ``a x + b`` on the chord, and for ``x = chord + r`` what is missed is
    ``f(x) - a x - b``, which is nowhere but behind a kink, plus ``(a - base) r``.

    Returns:
        The middle, and the largest distance from it; infinite where chords meet a kink.
    """
    start, stop = (
        [(end > limit) | ((end == limit) & (other > limit)) for limit in own.thresholds]
        for end, other in (ends, ends[::-1])
    )
    factor, offset = own._pieces(start)
    meets = torch.zeros_like(away, dtype=torch.bool)
    for first, last in zip(start, stop, strict=True):
        meets |= first != last
    low, high = bounds
    places = torch.stack([low, high, *(limit.clamp(low, high) for limit in own.thresholds)])
    over = own._pieces([places > limit for limit in own.thresholds])
    missed = places * (over[0] - factor) + (over[1] - offset)
    least, most = missed.amin(dim=0), missed.amax(dim=0)
    bound = (most - least) / 2 + (factor - base).abs() * away
    return (least + most) / 2, torch.where(meets, torch.inf, bound)


def _columns(marked: Tensor) -> Tensor:
    """Which units of ``(windows, *row)`` are marked in any window."""
    return torch.nonzero(marked.reshape(len(marked), -1).any(dim=0)).flatten()
