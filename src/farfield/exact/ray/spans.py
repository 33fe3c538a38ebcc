"""Stretches of rays: open ones between two places, and the places themselves.

Where a function jumps, its value at the very place belongs to one side, or to neither: so places
are cells of their own, between the stretches on either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.exact.ray.knots import COINCIDE


@dataclass(frozen=True, eq=False)
class Spans:
    """Cells of rays, ray after ray and in order of ``t``.

    Attributes:
        ray: ``(cells,)`` the ray that each is on.
        low: ``(cells,)`` where it begins.
        high: ``(cells,)`` where it ends, perhaps at infinity; at ``low`` if it is a single place.
    """

    ray: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def of(cls, stops: Tensor, starts: Tensor | None = None) -> Spans:
        """Make the cells of rays from ``starts``, 0 unless given, to ``stops``.

        >>> spans = Spans.of(torch.tensor([2.0, 0.0, torch.inf]))
        >>> spans.ray.tolist(), spans.low.tolist(), spans.high.tolist()
        ([0, 0, 0, 1, 2, 2], [0.0, 0.0, 2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 2.0, 0.0, 0.0, inf])
        """
        first = torch.zeros_like(stops) if starts is None else starts
        low = torch.stack([first, first, stops], dim=1)
        high = torch.stack([first, stops, stops], dim=1)
        longer = stops > first
        kept = torch.stack([torch.ones_like(longer), longer, longer & ~stops.isinf()], dim=1)
        ray = torch.arange(len(stops))[:, None].expand(-1, 3)
        return cls(ray[kept], low[kept], high[kept])

    @classmethod
    def join(cls, parts: Sequence[Spans]) -> Spans:
        """Put cells together."""
        return cls(
            torch.cat([part.ray for part in parts]),
            torch.cat([part.low for part in parts]),
            torch.cat([part.high for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.ray)

    def __getitem__(self, which: slice | Tensor) -> Spans:
        return Spans(self.ray[which], self.low[which], self.high[which])

    @property
    def is_place(self) -> Tensor:
        """``(cells,)`` whether a cell is a single place."""
        return self.low == self.high

    @property
    def inside(self) -> Tensor:
        """``(cells,)`` a ``t`` on each; infinity on those without an end."""
        return torch.where(self.high.isinf(), self.high, self.low + (self.high - self.low) / 2)

    def contains(self, cell: Tensor, t: Tensor) -> Tensor:
        """Whether places are strictly inside of cells, and not one with their ends."""
        width = t.abs() * COINCIDE
        return (t - self.low[cell] > width) & (self.high[cell] - t > width)

    def cut(self, cell: Tensor, t: Tensor) -> tuple[Spans, Tensor] | None:
        """Cut cells at places inside of them; also says which cell each came from."""
        if not len(cell):
            return None
        order = torch.argsort(t, stable=True)
        order = order[torch.argsort(cell[order], stable=True)]
        cell, t = cell[order], t[order]
        fresh = torch.ones(len(t), dtype=torch.bool)
        fresh[1:] = (cell.diff() != 0) | (t.diff() > t[1:].abs() * COINCIDE)
        cell, t = cell[fresh], t[fresh]
        cuts = torch.bincount(cell, minlength=len(self))
        # The ends of the new stretches: low, the cuts, high, for each cell one after another.
        last = (cuts + 2).cumsum(0) - 1
        first = last - cuts - 1
        ends = t.new_empty(len(t) + 2 * len(self))
        ends[first], ends[last] = self.low, self.high
        ends[torch.arange(len(t)) + 2 * cell + 1] = t
        parent = torch.arange(len(self)).repeat_interleave(2 * cuts + 1)
        start = (2 * cuts + 1).cumsum(0) - (2 * cuts + 1)
        place = torch.arange(len(parent)) - start[parent]
        low = ends[first[parent] + (place + 1) // 2]
        high = ends[first[parent] + place // 2 + 1]
        return Spans(self.ray[parent], low, high), parent
