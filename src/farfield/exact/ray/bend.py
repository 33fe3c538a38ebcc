"""Piecewise-affine functions of one number, applied to traces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from farfield.exact.ray.knots import COINCIDE, Trace
from farfield.graph.rules import Number, Pieces

# Covers a few roundings in double precision.
ROUNDING = 2.0**-50
# Values below this share of the largest in some rows of a layer are looked at for rounding,
SUSPECT = 2.0**-36
# about as many rows as this.
LOOKED_AT = 32


@dataclass(frozen=True, eq=False)
class Bend:
    """A continuous piecewise-affine function, which may differ from unit to unit.

    On piece ``i`` it is ``slopes[i] * x + intercepts[i]``; piece ``i`` ends at ``thresholds[i]``.
    Infinite thresholds are never passed.
    """

    thresholds: tuple[Tensor, ...]
    slopes: tuple[Tensor, ...]
    intercepts: tuple[Tensor, ...]

    @classmethod
    def of(cls, pieces: Pieces, like: Tensor) -> Bend:
        """Bring the parameters of a rule to the type of the analysis."""

        def tensors(values: Sequence[Number | Tensor]) -> tuple[Tensor, ...]:
            return tuple(
                each if isinstance(each, Tensor) else like.new_tensor(float(each))
                for each in values
            )

        return cls(tensors(pieces.thresholds), tensors(pieces.slopes), tensors(pieces.intercepts))

    @classmethod
    def clip(cls, low: Tensor, high: Tensor) -> Bend:
        """Cut off below and above, unit by unit."""
        zero, one = low.new_zeros(()), low.new_ones(())
        return cls((low, high), (zero, one, zero), (low, zero, high))

    @cached_property
    def is_relu(self) -> bool:
        """Whether this is ``max(x, 0)``, which deserves a short cut."""
        return (
            all(part.ndim == 0 for part in (*self.thresholds, *self.slopes))
            and [float(part) for part in (*self.thresholds, *self.slopes)] == [0.0, 0.0, 1.0]
            and not any(part.any() for part in self.intercepts)
        )

    def passes(self, value: Trace, index: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Where units pass a threshold at which the function has a kink.

        Returns:
            For each passage the row before it, its ``t``, the unit, and the threshold.
        """
        grid, flat = value.grid, Trace(value.flat, value.grid)
        knots = flat.knots
        goal, bent = self._goal(value, index)
        above = knots > goal
        crossed = above[:-1] ^ above[1:]
        if grid.rays > 1:
            crossed[grid.apart] = False
        if bent is not None:
            crossed &= bent
        left, unit = torch.nonzero(crossed, as_tuple=True)
        # One end is above; the other must be below, and not at the threshold itself.
        strictly = (knots[left, unit] != goal[unit]) & (knots[left + 1, unit] != goal[unit])
        left, unit = left[strictly], unit[strictly]
        if value.terms is not None and len(left):
            real = _decided(flat, value.terms, goal, left, unit)
            left, unit = left[real], unit[real]
        level, after = goal[unit], left + 1
        start, stop = knots[left, unit] - level, knots[after, unit] - level
        t = torch.lerp(grid.t[left], grid.t[after], start / (start - stop))
        if grid.ends:
            slope, intercept = flat.slope, flat.intercept
            last = knots[grid.tails]
            turns = ((last < goal) & (slope > 0)) | ((last > goal) & (slope < 0))
            if bent is not None:
                turns &= bent
            end, late = torch.nonzero(turns, as_tuple=True)
            if value.terms is not None and len(end):
                real = _lasting(flat, value.terms, goal, end, late)
                end, late = end[real], late[real]
            tail = grid.tails[end]
            if not len(tail):
                return left, t, unit, level
            when = (goal[late] - intercept[end, late]) / slope[end, late]
            left, unit = torch.cat([left, tail]), torch.cat([unit, late])
            t = torch.cat([t, torch.maximum(when, grid.t[tail])])
            level = goal[unit]
        return left, t, unit, level

    def touched(self, value: Trace) -> tuple[bool, bool]:
        """Whether a unit of a single ray meets a threshold exactly at the first or last knot."""
        knots = Trace(value.flat, value.grid).knots
        low = high = False
        for index in range(len(self.thresholds) if len(knots) > 1 else 0):
            goal, bent = self._goal(value, index)
            level = knots[[0, 1, -2, -1]] == goal
            if bent is not None:
                level &= bent
            low |= bool((level[0] & (knots[1] != goal)).any())
            high |= bool((level[3] & (knots[-2] != goal)).any())
        return low, high

    def _goal(self, value: Trace, index: int) -> tuple[Tensor, Tensor | None]:
        """The threshold of each unit, and which units have a kink there (``None``: all)."""
        row = value.shape[1:]
        goal = self.thresholds[index].expand(row).reshape(-1)
        if self._always_bent[index]:
            return goal, None
        bent = self._differs(index).expand(1, *row).reshape(-1)
        return goal, bent & torch.isfinite(goal)

    @cached_property
    def _always_bent(self) -> list[bool]:
        """For each threshold, whether every unit has the same one, and a kink there."""
        return [
            self.thresholds[index].ndim == self._differs(index).ndim == 0
            and bool(self._differs(index))
            for index in range(len(self.thresholds))
        ]

    def _differs(self, index: int) -> Tensor:
        """Whether the pieces on either side of a threshold differ at all."""
        below, above = self.slopes[index : index + 2]
        before, after = self.intercepts[index : index + 2]
        return (below != above) | (before != after)

    def apply(self, value: Trace, *, in_place: bool = False) -> Trace:
        """Take at each knot, and for each germ, the piece that it is on."""
        grid, out = value.grid, value.parts if in_place else torch.empty_like(value.parts)
        result = Trace(out, grid)
        if self.is_relu:
            torch.clamp_min(value.knots, 0.0, out=result.knots)
        else:
            factor, offset = self._pieces([value.knots > limit for limit in self.thresholds])
            torch.add(value.knots * factor, offset, out=result.knots)
        if grid.ends:
            slope, intercept = value.slope, value.intercept
            over = [
                (torch.where(slope == 0, intercept - limit, slope) > 0) & (limit < torch.inf)
                | (limit == -torch.inf)
                for limit in self.thresholds
            ]
            factor, offset = self._pieces(over)
            # Adding zero turns minus zero into zero.
            torch.add(slope * factor, 0.0, out=result.slope)
            torch.add(intercept * factor, offset, out=result.intercept)
        return result

    def lines(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        """Enclose the function between bounds: ``slope * x + shift``, and how far it is from that.

        Args:
            low: ``(windows, *row)`` lower bounds.
            high: ``(windows, *row)`` upper bounds.

        Returns:
            Slope, shift (``None`` if zero) and distance, ``(windows, *row)`` each. Units that can
            meet no kink are on a line: distance zero.
        """
        row = low.shape
        if self.is_relu:
            above = low >= 0
            units = torch.nonzero(~(above | (high <= 0)).reshape(-1)).flatten()
            slope, shift = above.to(low), torch.zeros_like(low) if len(units) else None
        else:
            over = [low >= limit for limit in self.thresholds]
            met = [(high > limit) & (low < limit) for limit in self.thresholds]
            inside = torch.stack([each.expand(row) for each in met]) if met else low[None][:0]
            units = torch.nonzero(inside.any(dim=0).reshape(-1)).flatten()
            factor, offset = self._pieces(over)
            slope, shift = (each.expand(row).clone() for each in (factor, offset))
        reach = torch.zeros_like(low)
        if shift is not None and len(units):
            own = self._of_units(units, row[1:])
            found = own._lines(low.reshape(-1)[units], high.reshape(-1)[units])
            for whole, part in zip((slope, shift, reach), found, strict=True):
                whole.view(-1)[units] = part
        return slope, shift, reach

    def _of_units(self, units: Tensor, row: torch.Size) -> Bend:
        """The function of some units, one number each."""

        def pick(parts: Sequence[Tensor]) -> tuple[Tensor, ...]:
            return tuple(
                part if part.ndim == 0 else part.expand(1, *row).reshape(-1)[units % row.numel()]
                for part in parts
            )

        return Bend(pick(self.thresholds), pick(self.slopes), pick(self.intercepts))

    def _lines(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The line through both ends, moved to the middle of the function; ``(units,)`` each."""
        places = torch.stack([low, high, *(t.clamp(low, high) for t in self.thresholds)])
        factor, offset = self._pieces([places > limit for limit in self.thresholds])
        values = places * factor + offset
        slope = (values[1] - values[0]) / (high - low)
        gaps = values - slope * places
        least, most = gaps.amin(dim=0), gaps.amax(dim=0)
        sizes = (values.abs() + (slope * places).abs()).amax(dim=0)
        return slope, (least + most) / 2, (most - least) / 2 + ROUNDING * sizes

    def _pieces(self, over: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Slope and intercept of the piece that each number is on."""
        factor, offset = self.slopes[0], self.intercepts[0]
        for index, above in enumerate(over, start=1):
            factor = torch.where(above, self.slopes[index], factor)
            offset = torch.where(above, self.intercepts[index], offset)
        return factor, offset


def _decided(
    value: Trace, terms: Callable[[Tensor], Tensor], goal: Tensor, left: Tensor, unit: Tensor
) -> Tensor:
    """Which passages are more than rounding: a unit that is level at both ends passes nowhere.

    Looks at the terms of those few only that are small for their layer.
    """
    knots = value.knots
    real = torch.ones_like(left, dtype=torch.bool)
    scale = knots[left[:: 1 + len(left) // LOOKED_AT]].abs().amax() * SUSPECT
    ends = torch.stack([left, left + 1])
    gaps = (knots[ends, unit] - goal[unit]).abs()
    few = torch.nonzero((gaps <= scale).all(dim=0)).flatten()
    if len(few):
        rows, place = torch.unique(ends[:, few], return_inverse=True)
        sizes = terms(rows + value.grid.ends)[place, unit[few]]
        noise = COINCIDE * (sizes + goal[unit[few]].abs())
        real[few] = ~(gaps[:, few] <= noise).all(dim=0)
    return real


def _lasting(
    value: Trace, terms: Callable[[Tensor], Tensor], goal: Tensor, end: Tensor, unit: Tensor
) -> Tensor:
    """Which passages behind the last knot are more than rounding.

    A unit that is level there, and whose slope is no more than rounding either, passes nowhere.
    """
    grid, tail = value.grid, value.grid.tails[end]
    gap = (value.knots[tail, unit] - goal[unit]).abs()
    near = gap <= COINCIDE * (_sizes(terms, tail + grid.ends, unit) + goal[unit].abs())
    if not bool(near.any()):
        return ~near
    return ~near | (value.slope[end, unit].abs() > COINCIDE * _sizes(terms, end, unit))


def _sizes(terms: Callable[[Tensor], Tensor], rows: Tensor, unit: Tensor) -> Tensor:
    """The sums of the sizes of the terms of some units, each in one row."""
    few, place = torch.unique(rows, return_inverse=True)
    return terms(few)[place, unit]
