"""The walk at infinity over arcs of the circle of directions."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from farfield.errors import NumericalOverflow
from farfield.exact.cells import CellDomain
from farfield.exact.jets import Jet
from farfield.graph.rules import Smooth, Steps

# A direction counts as lying on a line if the line's value is within this share of its terms.
ON_LINE = 2.0**-40
QUADRANTS = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]


class ArcDomain(CellDomain):
    """The walk at infinity over arcs of directions ``(a, b)``.

    Attributes:
        start: ``(arcs, 2)`` where each arc starts, counter-clockwise.
        end: ``(arcs, 2)`` where it ends; arcs are shorter than a half circle.
    """

    def __init__(self) -> None:
        self.start = torch.tensor(QUADRANTS, dtype=torch.float64)
        self.end = self.start.roll(-1, dims=0)
        super().__init__(3, len(self.start))

    def spread(self, frame: Tensor) -> Jet:
        """One affine function ``(3, *input)`` on all arcs."""
        return self.jet(frame[:, None].expand(3, self.rows, *frame.shape[1:]))

    @property
    def middle(self) -> Tensor:
        """``(arcs, 2)`` a direction inside each arc."""
        return self.start + self.end

    def divide(self, lines: Tensor) -> Tensor | None:
        """Cut every arc at the directions in which a slope is zero."""
        _require_finite(lines)
        before, after = _signed(lines, self.start), _signed(lines, self.end)
        owner, unit = torch.nonzero(before * after < 0, as_tuple=True)
        return self._insert(owner, lines[:2, owner, unit], before[owner, unit])

    def divide_by_largest(self, candidates: Tensor) -> Tensor | None:
        """Cut every arc where two candidates cross that are above all others there."""
        _require_finite(candidates)
        first = torch.stack([_value(each, self.start) for each in candidates])
        last = torch.stack([_value(each, self.end) for each in candidates])
        found = []
        for i in range(len(candidates)):
            for j in range(i):
                gap = candidates[i] - candidates[j]
                before, after = _signed(gap, self.start), _signed(gap, self.end)
                owner, unit = torch.nonzero(before * after < 0, as_tuple=True)
                here, there = before[owner, unit], after[owner, unit]
                share = here / (here - there)
                level = torch.lerp(first[:, owner, unit], last[:, owner, unit], share)
                top = level.amax(dim=0) - torch.maximum(level[i], level[j])
                on_top = top <= ON_LINE * level.abs().amax(dim=0)
                owner, unit = owner[on_top], unit[on_top]
                found.append((owner, gap[:2, owner, unit], before[owner, unit]))
        if not found:
            return None
        owners, lines, befores = (torch.cat(part, dim=-1) for part in zip(*found, strict=True))
        return self._insert(owners, lines, befores)

    def _insert(self, owner: Tensor, lines: Tensor, before: Tensor) -> Tensor | None:
        """Insert cuts: the arc of each, its line ``(2, cuts)``, the line's value at the start."""
        if len(owner) == 0:
            return None
        turn = -torch.sign(before)
        cuts = torch.stack([lines[1] * turn, -lines[0] * turn], dim=1)
        cuts = cuts / cuts.norm(dim=1, keepdim=True)
        starts = torch.cat([self.start, cuts])
        arcs = torch.cat([torch.arange(self.rows), owner])
        # Arcs are at most a quarter circle long: the sine orders the cuts of each.
        sine = _cross(self.start[arcs], starts)
        order = torch.argsort(sine, stable=True)
        order = order[torch.argsort(arcs[order], stable=True)]
        starts, arcs = starts[order], arcs[order]
        fresh = torch.ones(len(arcs), dtype=torch.bool)
        gap = _cross(starts[:-1], starts[1:])
        fresh[1:] = (arcs[1:] != arcs[:-1]) | (gap > ON_LINE)
        self.start, parent = starts[fresh], arcs[fresh]
        self.end = self.start.roll(-1, dims=0)
        return parent

    def divide_at_breaks(self, columns: Tensor, steps: Steps) -> Tensor | None:
        """Cut every arc where a column rests: on either side it passes all breaks, or none."""
        _, first = np.unique(steps.columns.numpy(), return_index=True)
        return self.divide(columns[..., torch.from_numpy(first)])

    def representative(self, parts: Tensor) -> Tensor:
        """Infinite where the slope decides; where it is zero on the whole arc, the constant."""
        still = (parts[0] == 0) & (parts[1] == 0)
        far = torch.where(_value(parts, self.middle) > 0, torch.inf, -torch.inf)
        return torch.where(still, parts[2], far)

    def winner(self, candidates: Tensor) -> Tensor:
        """The largest slope wins; of candidates that grow alike, the largest constant."""
        middle = self.middle
        best, growth = candidates[0], _value(candidates[0], middle)
        index = torch.zeros(growth.shape, dtype=torch.int64)
        for place, each in enumerate(candidates[1:], start=1):
            value = _value(each, middle)
            alike = (each[0] == best[0]) & (each[1] == best[1])
            better = torch.where(alike, each[2] > best[2], value > growth)
            best = torch.where(better, each, best)
            growth = torch.where(better, value, growth)
            index = index.masked_fill(better, place)
        return index

    def smooth(self, value: Jet, curve: Smooth) -> Jet:
        """Take the asymptote where the value moves, the function itself where it does not."""
        self.follow(self.divide(self.current(value).flatten(2)))
        parts = self.current(value)
        still = (parts[0] == 0) & (parts[1] == 0)
        up = _value(parts, self.middle) > 0
        self.note(up)
        above, below = curve.above, curve.below
        moved = parts * torch.where(up, self.number(above.slope), self.number(below.slope))
        moved[2] += torch.where(up, self.number(above.intercept), self.number(below.intercept))
        settled = curve.function(torch.where(still, parts[2], 0.0))
        moved[2] = torch.where(still, settled, moved[2])
        return self.jet(moved)


def _value(parts: Tensor, direction: Tensor) -> Tensor:
    """Slopes of ``(3, arcs, ...)`` in one direction for each arc."""
    x, y = direction.T.reshape(2, -1, *[1] * (parts.ndim - 2))
    slope: Tensor = parts[0] * x + parts[1] * y
    return slope


def _signed(parts: Tensor, direction: Tensor) -> Tensor:
    """The same, with an exact zero where the direction lies on the line."""
    value = _value(parts, direction)
    return value.masked_fill(value.abs() <= ON_LINE * _value(parts.abs(), direction.abs()), 0.0)


def _cross(left: Tensor, right: Tensor) -> Tensor:
    return left[:, 0] * right[:, 1] - left[:, 1] * right[:, 0]


def _require_finite(numbers: Tensor) -> None:
    if not bool(torch.isfinite(numbers).all()):
        raise NumericalOverflow(
            "a slope of the network left the range of float64; bring weights to a moderate scale"
        )
