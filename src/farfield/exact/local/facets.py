"""The walk around points, and the half-spaces that it decides by."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from farfield.exact.germ import kink
from farfield.exact.jets import JetDomain
from farfield.graph.rules import Pieces, Places, Steps


class PointDomain(JetDomain):
    """The walk around points: jets with the value at a point last."""

    def representative(self, parts: Tensor) -> Tensor:
        """Decide at the point; a threshold belongs to the lower piece."""
        return parts[-1].detach()

    def winner(self, candidates: Tensor) -> Tensor:
        """Decide at the point."""
        return candidates[:, -1].argmax(dim=0)


class FacetDomain(PointDomain):
    """The same walk, keeping every half-space on the way.

    Attributes:
        facets: For each decision of the network, ``(numbers, points, units)`` functions that are
            at most zero on the region, and ``(points, units)`` which of them count.
    """

    def __init__(self, numbers: int, rows: int, like: Tensor, values: int = 1) -> None:
        super().__init__(numbers, rows, like, values)
        self.facets: list[tuple[Tensor, Tensor]] = []

    def note_pieces(self, parts: Tensor, pieces: Pieces, above: Sequence[Tensor]) -> None:
        """Keep the thresholds on either side of each unit."""
        kinks = [(i, kink(pieces, i)) for i in range(len(above))]
        kinks = [(i, real) for i, real in kinks if real is not False]
        for place, (index, real) in enumerate(kinks):
            over = above[index]
            keep = torch.ones_like(over)
            if place > 0:
                keep &= over | above[kinks[place - 1][0]]
            if place + 1 < len(kinks):
                keep &= ~over | ~above[kinks[place + 1][0]]
            if isinstance(real, Tensor):
                keep &= real
            gap = self.shifted(parts, -float(pieces.thresholds[index]))
            self.facets.append((torch.where(over, -gap, gap).flatten(2), keep.flatten(1)))

    def note_winner(self, candidates: Tensor, winner: Tensor, places: Places | None) -> None:
        """Keep every loser that is not the winner itself seen twice."""
        best = candidates.gather(0, winner.expand(1, self.numbers, *winner.shape))[0]
        where = None if places is None else torch.stack([p.reshape(1, -1) for p in places()])
        for place, each in enumerate(candidates):
            keep = winner != place
            if where is not None:
                keep &= where[place] != where.expand(-1, *winner.shape).gather(0, winner[None])[0]
            self.facets.append((each - best, keep))

    def note_steps(self, parts: Tensor, steps: Steps, places: Tensor) -> None:
        """Keep the breaks on either side of each column."""
        first, last = steps.offsets[:-1] + places - 1, steps.offsets[:-1] + places
        edges = torch.cat([steps.breaks.to(parts), parts.new_zeros(1)])
        below, above = edges[first], edges[last.clamp(max=len(edges) - 1)]
        self.facets.append((-self.shifted(parts, -below), first >= steps.offsets[:-1]))
        self.facets.append((self.shifted(parts, -above), last < steps.offsets[1:]))
