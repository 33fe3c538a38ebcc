"""How a network that jumps acts on stretches of rays.

On a cell every value is ``slope * t + intercept``. Steps and kinks cut cells where a value passes a
threshold, at ``t = (threshold - intercept) / slope``. Whether a value is above a threshold on a
cell is then decided by comparing that ``t`` with the cell's, not by evaluating anything at a
rounded place; and at a place where a value equals its threshold, it is not above it, which is how
models decide once their comparisons are brought to one form (:class:`farfield.graph.rules.Steps`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from farfield.exact.cells import CellDomain
from farfield.exact.jets import Jet
from farfield.exact.ray.bend import Bend
from farfield.exact.ray.knots import COINCIDE
from farfield.exact.ray.spans import Spans
from farfield.graph.rules import Steps

# Breaks are looked for a little beyond what a column reaches on a cell: a few roundings.
ROUNDING = 2.0**-48


class JumpDomain(CellDomain):
    """The walk over stretches of rays.

    Attributes:
        cells: As they are by now.
    """

    def __init__(self, spans: Spans, together: int | None = None) -> None:
        super().__init__(2, len(spans), together)
        self.cells: Spans = spans

    def _cut(self, cell: Tensor, t: Tensor) -> Tensor | None:
        kept = self.cells.contains(cell, t)
        found = self.cells.cut(cell[kept], t[kept])
        if found is None:
            return None
        self.cells, parent = found
        return parent

    def divide(self, lines: Tensor) -> Tensor | None:
        """Cut every stretch where a value is zero."""
        return self._cut(*self._zeros(lines))

    def divide_by_largest(self, candidates: Tensor) -> Tensor | None:
        """Cut every stretch where two candidates cross, also behind the largest."""
        found = [
            self._zeros(one - other)
            for place, one in enumerate(candidates)
            for other in candidates[:place]
        ]
        if not found:
            return None
        return self._cut(*(torch.cat(part) for part in zip(*found, strict=True)))

    def _zeros(self, lines: Tensor) -> tuple[Tensor, Tensor]:
        """The cell and the ``t`` of each zero inside of a stretch."""
        t = -lines[1] / lines[0]
        inside = (t > self.cells.low[:, None]) & (t < self.cells.high[:, None])
        cell, line = torch.nonzero(inside, as_tuple=True)
        return cell, t[cell, line]

    def divide_at_breaks(self, columns: Tensor, steps: Steps) -> Tensor | None:
        """Cut every stretch where a column passes a break."""
        open_ = torch.nonzero(~self.cells.is_place).flatten()
        low, high = self.cells.low[open_], self.cells.high[open_]
        cells, times = [open_[:0]], [low[:0]]
        bounds = steps.offsets.tolist()
        for output in range(len(steps)):
            own = steps.breaks[bounds[output] : bounds[output + 1]]
            slope, intercept = columns[:, open_, output]
            moving = torch.nonzero(slope != 0).flatten()
            slope, intercept = slope[moving], intercept[moving]
            ends = torch.stack([slope * low[moving], slope * high[moving]])
            slack = ROUNDING * (ends.abs() + intercept.abs()).nan_to_num(posinf=0.0)
            ends = ends + intercept
            first = torch.searchsorted(own, (ends - slack).amin(dim=0))
            last = torch.searchsorted(own, (ends + slack).amax(dim=0), right=True)
            each = torch.arange(len(moving)).repeat_interleave(last - first)
            place = torch.arange(len(each)) - ((last - first).cumsum(0) - (last - first))[each]
            times.append((own[first[each] + place] - intercept[each]) / slope[each])
            cells.append(open_[moving[each]])
        return self._cut(torch.cat(cells), torch.cat(times))

    def bend(self, value: Jet, bend: Bend) -> Jet:
        """Apply a piecewise-affine function that may differ from unit to unit."""
        lines = [
            self.shifted(self.current(value), -threshold).flatten(2)
            for threshold in bend.thresholds
        ]
        self.follow(self.divide(torch.cat(lines, dim=2)))
        parts = self.current(value)
        slope, intercept = bend.slopes[0], bend.intercepts[0]
        for index, threshold in enumerate(bend.thresholds, start=1):
            over = self._above(parts, threshold)
            slope = torch.where(over, bend.slopes[index], slope)
            intercept = torch.where(over, bend.intercepts[index], intercept)
        return self.jet(self.shifted(parts * slope, intercept))

    def exceeds(self, parts: Tensor, threshold: float) -> Tensor:
        """Compare where the threshold is passed with where each cell is."""
        return self._above(parts, self.like.new_tensor(threshold))

    def _above(self, parts: Tensor, threshold: Tensor) -> Tensor:
        slope, intercept = parts
        shape = (-1, *[1] * (slope.ndim - 1))
        around = (each.reshape(shape) for each in self._around)
        still = (slope == 0) & (intercept > threshold)
        passed: Tensor = _passed(slope, intercept, threshold, *around) | still
        return passed

    @property
    def _around(self) -> tuple[Tensor, Tensor]:
        """A ``t`` on each cell; of single places, before and behind what is one with them."""
        t = self.cells.inside
        width = torch.where(self.cells.is_place, t.abs() * COINCIDE, 0.0)
        return t - width, t + width

    def intervals(self, parts: Tensor, steps: Steps) -> Tensor:
        """Guess by evaluating on each cell, then compare where breaks are passed."""
        slope, intercept = parts
        t = self.cells.inside[:, None]
        guess = torch.where(slope == 0, intercept, slope * t + intercept)
        places = steps.intervals(guess)
        # What rests is compared as it is; few columns of a ray move.
        cell, output = torch.nonzero(slope, as_tuple=True)
        slope, intercept, place = (each[cell, output] for each in (slope, intercept, places))
        around = [each[cell] for each in self._around]
        first, last = steps.offsets[output], steps.offsets[output + 1]
        edges = torch.cat([steps.breaks, steps.breaks.new_full((1,), torch.nan)])
        while True:
            # Neighbouring breaks may be one in the guess; what is passed when decides.
            at = first + place
            upper, lower = edges[at.clamp(max=len(edges) - 1)], edges[at - 1]
            up = (at < last) & _passed(slope, intercept, upper, *around)
            down = (place > 0) & ~_passed(slope, intercept, lower, *around)
            if not bool((up | down).any()):
                places[cell, output] = place
                return places
            place = place + up.long() - down.long()

    def representative(self, parts: Tensor) -> Tensor:
        """The value on each cell; infinite on those without an end, unless it rests."""
        slope, intercept = parts
        t = self.cells.inside.reshape(-1, *[1] * (slope.ndim - 1))
        return torch.where(slope == 0, intercept, slope * t + intercept)

    def winner(self, candidates: Tensor) -> Tensor:
        """The largest on each cell; on those without an end the steepest, then the highest."""
        slope, intercept = candidates[:, 0], candidates[:, 1]
        endless = self.cells.high.isinf()[:, None]
        t = torch.where(self.cells.high.isinf(), 0.0, self.cells.inside)[:, None]
        value = torch.where(endless, intercept, slope * t + intercept)
        behind = endless & (slope < slope.amax(dim=0))
        return value.masked_fill(behind, -torch.inf).argmax(dim=0)

    def note(self, decisions: Tensor) -> None:
        """Nobody asks for fingerprints along rays."""


def _passed(
    slope: Tensor, intercept: Tensor, threshold: Tensor, before: Tensor, behind: Tensor
) -> Tensor:
    """Whether values that move are above a threshold between two ``t``, by when they pass it."""
    t = (threshold - intercept) / slope
    up, down = (slope > 0) & (t < before), (slope < 0) & (t > behind)
    found: Tensor = up | down | (threshold == -torch.inf)
    return found
