"""The largest of several functions that are affine between knots: their upper envelope.

If one candidate is the largest at both ends of a piece, it is the largest throughout, since
candidates are affine there. Everywhere else the lead changes hands inside the piece: starting from
the leader at the left end (of those the one that grows fastest), the next leader is whoever catches
up first, and so on until nobody does before the right end.

Candidates that are equal but for rounding at both ends of a piece are one: who of them is ahead is
noise, and so would be the place at which that changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.exact.ray.knots import COINCIDE, Grid, Refinement, Trace


@dataclass(frozen=True, eq=False)
class Contest:
    """Pieces of units in which the lead changes hands; candidates first, then pieces.

    Attributes:
        left: ``(pieces,)`` the row in which each piece starts.
        unit: ``(pieces,)`` the unit.
        span: ``(pieces,)`` the length of each piece; 1 where it has no end.
        start: ``(candidates, pieces)`` values at the start.
        growth: ``(candidates, pieces)`` growth over one span.
        endless: ``(pieces,)`` whether a piece has no end.
    """

    left: Tensor
    unit: Tensor
    span: Tensor
    start: Tensor
    growth: Tensor
    endless: Tensor

    def changes(self) -> tuple[Tensor, Tensor]:
        """Where the lead changes hands: the piece, and the place in spans from its start."""
        pieces = torch.arange(len(self.left), device=self.left.device)
        leader = _fastest(self.start == self.start.amax(dim=0), self.growth)
        found = []
        for _ in range(len(self.start) - 1):
            start, growth = self.start[:, pieces], self.growth[:, pieces]
            gain = growth - growth.gather(0, leader[None])
            behind = start.gather(0, leader[None]) - start
            noise = self._noise(pieces)
            equal = (behind.abs() <= noise) & ((gain - behind).abs() <= noise)
            place = torch.where((gain > 0) & ~equal, behind / gain, torch.inf)
            first = place.amin(dim=0)
            goes_on = first < torch.where(self.endless[pieces], torch.inf, 1.0)
            leader = _fastest(place == first, growth)[goes_on]
            pieces, first = pieces[goes_on], first[goes_on]
            if not len(pieces):
                break
            found.append((pieces, first))
        if not found:
            return pieces[:0], self.span[:0]
        where, places = (torch.cat(each) for each in zip(*found, strict=True))
        return where, places

    def _noise(self, pieces: Tensor) -> Tensor:
        """Up to which difference candidates are one, ``(pieces,)``; none where there is no end."""
        start, growth = self.start[:, pieces], self.growth[:, pieces]
        size = torch.maximum(start.amax(dim=0).abs(), (start + growth).amax(dim=0).abs())
        return torch.where(self.endless[pieces], 0.0, COINCIDE * size)

    def settle(self, best: Trace, refinement: Refinement) -> None:
        """Write the largest value into the new knots of these pieces."""
        first = torch.searchsorted(refinement.left, self.left)
        count = torch.searchsorted(refinement.left, self.left, right=True) - first
        piece = torch.arange(len(count), device=count.device).repeat_interleave(count)
        within = torch.arange(len(piece), device=count.device) - (count.cumsum(0) - count)[piece]
        rows = refinement.rows[first[piece] + within]
        step = refinement.grid.t[rows] - refinement.old.t[self.left[piece]]
        values = self.start[:, piece] + self.growth[:, piece] * (step / self.span[piece])
        best.knots[rows, self.unit[piece]] = values.amax(dim=0)


def _fastest(among: Tensor, growth: Tensor) -> Tensor:
    """Of those candidates, the one that grows fastest."""
    return growth.masked_fill(~among, -torch.inf).argmax(dim=0)


def contest(candidates: Sequence[Tensor], grid: Grid) -> tuple[Trace, Contest, tuple[bool, bool]]:
    """Take the largest candidate at every knot, and find the pieces that are contested.

    Args:
        candidates: Parts of traces, ``(rows, units)`` each.
        grid: Their grid.

    Returns:
        The largest at the knots and for the germs; the pieces where the lead changes hands; and
        whether it does so exactly at the first or the last knot of a single ray.
    """
    ends, rows = grid.ends, len(grid.t)
    knots = [candidate[ends : ends + rows] for candidate in candidates]
    top = knots[0]
    for other in knots[1:]:
        top = torch.maximum(top, other)
    leads = [each == top for each in knots]
    held = torch.zeros_like(leads[0][1:])
    noise = COINCIDE * torch.maximum(top[:-1].abs(), top[1:].abs())
    for each in knots:
        behind = top - each
        held |= (behind[:-1] <= noise) & (behind[1:] <= noise)
    if grid.rays > 1:
        held[grid.apart] = True
    left, unit = torch.nonzero(~held, as_tuple=True)
    start = torch.stack([each[left, unit] for each in knots])
    stop = torch.stack([each[left + 1, unit] for each in knots])
    span = grid.t[left + 1] - grid.t[left]
    endless = torch.zeros_like(left, dtype=torch.bool)
    inside = Contest(left, unit, span, start, stop - start, endless)
    touched = _touched(leads) if grid.rays == 1 else (False, False)
    if not ends:
        return Trace(top, grid), inside, touched
    slope, intercept, tail = _largest_germ(candidates, grid, knots, leads)
    return Trace(torch.cat([slope, top, intercept]), grid), _joined(inside, tail), touched


def _touched(leads: Sequence[Tensor]) -> tuple[bool, bool]:
    """Whether some candidate draws level exactly at the first or the last knot."""
    if len(leads[0]) < 2:
        return False, False
    shared = torch.stack([torch.stack([lead[0], lead[1], lead[-2], lead[-1]]) for lead in leads])
    low = (shared[:, 0] & ~shared[:, 1]).any(dim=0) & (shared[:, 0] & shared[:, 1]).any(dim=0)
    high = (shared[:, 3] & ~shared[:, 2]).any(dim=0) & (shared[:, 3] & shared[:, 2]).any(dim=0)
    return bool(low.any()), bool(high.any())


def _largest_germ(
    candidates: Sequence[Tensor], grid: Grid, knots: Sequence[Tensor], leads: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Contest]:
    """Take the lexicographically largest germ, and find the last pieces that are contested."""
    slopes = torch.stack([candidate[: grid.ends] for candidate in candidates])
    intercepts = torch.stack([candidate[-grid.ends :] for candidate in candidates])
    slope = slopes.amax(dim=0)
    intercept = intercepts.masked_fill(slopes != slope, -torch.inf).amax(dim=0)
    lead = torch.stack([each[grid.tails] for each in leads])
    contested = slopes.masked_fill(~lead, -torch.inf).amax(dim=0) < slope
    end, unit = torch.nonzero(contested, as_tuple=True)
    left = grid.tails[end]
    start = torch.stack([each[left, unit] for each in knots])
    span = torch.ones_like(grid.t[left])
    endless = torch.ones_like(left, dtype=torch.bool)
    return slope, intercept, Contest(left, unit, span, start, slopes[:, end, unit], endless)


def _joined(first: Contest, second: Contest) -> Contest:
    def pair(name: str) -> Tensor:
        return torch.cat([getattr(first, name), getattr(second, name)], dim=-1)

    return Contest(*map(pair, ("left", "unit", "span", "start", "growth", "endless")))
