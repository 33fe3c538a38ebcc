"""Functions of ``t`` that are affine between knots, on many rays at once.

A piecewise-affine network restricted to a ray is affine between finitely many *knots*. A
:class:`Grid` says where the knots of every ray are, a :class:`Trace` gives the values of one layer
there. Rays without an end carry, beside their knots, the germ of what follows the last one:
``slope * t + intercept``. Refining a trace to more knots is interpolation, so it loses nothing.

Knots of one ray that are closer than :data:`COINCIDE` relative to ``t`` are one: units that switch
at the same ``t`` mostly differ in the last digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.exact.germ import Parts

COINCIDE = 2.0**-46


class PieceLogits(NamedTuple):
    """Logits on pieces: at their start, by how much they grow, and probabilities at their end."""

    start: Tensor
    growth: Tensor
    limit: Tensor


@dataclass(frozen=True, eq=False)
class Grid:
    """Where the knots of several rays are.

    Attributes:
        t: ``(knots,)`` ray after ray, increasing on each.
        starts: ``(rays + 1,)`` the first row of each ray, and the number of rows.
        open: ``(rays,)`` whether a ray goes on beyond its last knot.
    """

    t: Tensor
    starts: Tensor
    open: Tensor

    @cached_property
    def rays(self) -> int:
        """How many rays."""
        return len(self.open)

    @cached_property
    def ends(self) -> int:
        """How many rays have no end."""
        return int(self.open.sum())

    @cached_property
    def tails(self) -> Tensor:
        """``(ends,)`` the last knot of each ray without an end."""
        return self.starts[1:][self.open] - 1

    @cached_property
    def ray(self) -> Tensor:
        """``(knots,)`` the ray that each knot is on."""
        places = torch.arange(self.rays, device=self.t.device)
        return places.repeat_interleave(self.starts.diff())

    @cached_property
    def apart(self) -> Tensor:
        """``(rays - 1,)`` rows whose next row belongs to another ray."""
        return self.starts[1:-1] - 1

    @cached_property
    def bounds(self) -> Tensor:
        """``(knots,)`` the next knot of the same ray; infinite after the last."""
        bounds = torch.empty_like(self.t)
        bounds[:-1] = self.t[1:]
        bounds[self.starts[1:] - 1] = torch.inf
        return bounds

    def insert(self, left: Tensor, t: Tensor) -> tuple[Refinement | None, Tensor]:
        """Add knots, each somewhere behind the row ``left``.

        Returns:
            How to bring traces to the new grid (``None`` if it is the old one), and the row of
            each of the given knots in it.
        """
        # Bookkeeping on short arrays, where numpy has the smaller overhead.
        old, after, when = _host(self.t), _host(left), _host(t)
        order = np.lexsort((when, after))
        after, when = after[order], when[order]
        width = np.abs(when) * COINCIDE
        at_left = when - old[after] <= width
        at_right = _host(self.bounds)[after] - when <= width
        first = np.ones(len(when), dtype=bool)
        first[1:] = (after[1:] != after[:-1]) | (when[1:] - when[:-1] > width[1:])
        kept = first & ~at_left & ~at_right
        added = np.bincount(after[kept], minlength=len(old))
        positions = np.arange(len(old)) + np.cumsum(added) - added
        row = after + np.cumsum(kept)
        beyond = positions[np.minimum(after + 1, len(old) - 1)]
        row = np.where(at_left, positions[after], np.where(at_right, beyond, row))
        row = row[first][np.cumsum(first) - 1]
        rows = np.empty_like(row)
        rows[order] = row
        if not kept.any():
            return None, self._near(rows)
        new, before, when = row[kept], after[kept], when[kept]
        merged = np.empty(len(old) + len(new))
        merged[positions], merged[new] = old, when
        starts = np.append(positions[_host(self.starts)[:-1]], len(merged))
        grid = Grid(self._near(merged), self._near(starts), self.open)
        found = (self._near(each) for each in (positions, new, before))
        return Refinement(self, grid, *found), self._near(rows)

    def _near(self, array: NDArray[Any]) -> Tensor:
        """Bring an array to where the knots are."""
        return torch.from_numpy(array).to(self.t.device)


def _host(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.cpu().numpy()
    return array


@dataclass(frozen=True, eq=False)
class Refinement:
    """From a grid to a finer one.

    Attributes:
        old: The coarse grid.
        grid: The fine grid.
        positions: ``(old knots,)`` the new row of each old knot.
        rows: ``(new knots,)`` the rows of the other knots.
        left: ``(new knots,)`` the old row before each of them.
    """

    old: Grid
    grid: Grid
    positions: Tensor
    rows: Tensor
    left: Tensor

    @cached_property
    def behind(self) -> Tensor:
        """``(new knots,)`` whether they lie behind the last old one of their ray."""
        last = torch.zeros(len(self.old.t), dtype=torch.bool, device=self.left.device)
        last[self.old.tails] = True
        return last[self.left]

    @cached_property
    def between(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of new knots between old ones: rows, the old row before, and how far on the way."""
        rows, left = self.rows[~self.behind], self.left[~self.behind]
        start = self.old.t[left]
        return rows, left, (self.grid.t[rows] - start) / (self.old.bounds[left] - start)

    @cached_property
    def beyond(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of new knots behind all old ones: rows, the last row, which end it is, and how far."""
        rows, left = self.rows[self.behind], self.left[self.behind]
        end = torch.searchsorted(self.old.tails, left)
        return rows, left, end, self.grid.t[rows] - self.old.t[left]

    def apply(self, trace: Trace) -> Trace:
        """Interpolate; beyond the last knot follow the slope."""
        knots, ends = trace.knots, self.old.ends
        shape = (len(self.grid.t) + 2 * ends, *knots.shape[1:])
        parts = knots.new_empty(shape)
        if ends:
            parts[:ends], parts[-ends:] = trace.slope, trace.intercept
        fine = parts[ends : ends + len(self.grid.t)]
        fine.index_copy_(0, self.positions, knots)
        row = [-1, *[1] * (knots.ndim - 1)]
        rows, left, weight = self.between
        start, stop = (knots.index_select(0, each) for each in (left, left + 1))
        fine.index_copy_(0, rows, start.lerp_(stop, weight.reshape(row)))
        if ends:
            rows, left, end, step = self.beyond
            grown = trace.slope.index_select(0, end).mul_(step.reshape(row))
            fine.index_copy_(0, rows, grown.add_(knots.index_select(0, left)))
        return Trace(parts, self.grid)


@dataclass(frozen=True, eq=False)
class Trace(Parts):
    """The values of one layer along rays.

    One tensor, so that an affine map is one call: the slopes of rays without an end, the values
    at all knots, the intercepts of rays without an end.

    Attributes:
        grid: Where the knots are.
        terms: From rows of ``parts`` to ``(rows, units)``, the sums of the sizes of all terms that
            a unit's value there is the sum of, if that is known: what its rounding errors are
            relative to.
    """

    grid: Grid
    terms: Callable[[Tensor], Tensor] | None = None

    @property
    def slope(self) -> Tensor:
        """``(ends, ...)`` growth beyond the last knot of rays without an end."""
        return self.parts[: self.grid.ends]

    @property
    def knots(self) -> Tensor:
        """``(knots, ...)`` values at the knots."""
        return self.parts[self.grid.ends : self.grid.ends + len(self.grid.t)]

    @property
    def intercept(self) -> Tensor:
        """``(ends, ...)`` where the last pieces of rays without an end would meet ``t = 0``."""
        return self.parts[self.grid.ends + len(self.grid.t) :]

    @property
    def flat(self) -> Tensor:
        """The tensor with all units of a row in one dimension."""
        return self.parts.reshape(len(self.parts), -1)

    def at(self, t: Tensor) -> Tensor:
        """Evaluate a single ray at any ``t`` from its first knot on, ``(points, ...)``."""
        grid, knots = self.grid, self.knots
        left = (torch.searchsorted(grid.t, t, right=True) - 1).clamp(0, len(knots) - 1)
        after = (left + 1).clamp(max=len(knots) - 1)
        span = (grid.t[after] - grid.t[left]).reshape(-1, *[1] * (knots.ndim - 1))
        step = (t - grid.t[left]).reshape(span.shape)
        inside = torch.lerp(knots[left], knots[after], torch.where(span > 0, step / span, 0.0))
        if not grid.ends:
            return inside
        return torch.where(span > 0, inside, knots[left] + self.slope * step)

    def probabilities_at(self, t: Tensor) -> Tensor:
        """Probabilities of a single ray at any ``t``, if the values are logits."""
        return torch.softmax(self.at(t), dim=-1)

    def lines(self, edges: Tensor) -> tuple[Tensor, Tensor]:
        """Slopes and intercepts of each piece of a single ray."""
        span = (edges[1:] - edges[:-1])[: len(self.knots) - 1, None]
        inner = (self.knots[1:] - self.knots[:-1]) / span
        flat = torch.zeros_like(self.knots) if len(edges) > len(inner) + 1 else inner[:0]
        rest = self.slope if self.grid.ends else flat[: len(edges) - 1 - len(inner)]
        slope = torch.cat([inner, rest])
        count = len(slope) - self.grid.ends
        start = self.knots[:count] - slope[:count] * edges[:count, None]
        return slope, torch.cat([start, self.intercept])

    def ends(self, rows: Tensor, after: Tensor, endless: Tensor) -> PieceLogits:
        """Logits on the pieces behind some knots, up to the knots ``after``."""
        start, stop = self.knots[rows], self.knots[after]
        growth, limit = stop - start, torch.softmax(stop, dim=-1)
        if self.grid.ends:
            leading = self.slope == self.slope.amax(dim=-1, keepdim=True)
            growth[endless] = self.slope
            among = self.intercept.masked_fill(~leading, -torch.inf)
            limit[endless] = torch.softmax(among, dim=-1)
        return PieceLogits(start, growth, limit)

    def places(self) -> PieceLogits:
        """Logits at the knots themselves."""
        still = torch.zeros_like(self.knots)
        return PieceLogits(self.knots, still, torch.softmax(self.knots, dim=-1))

    def refined(self, refinement: Refinement) -> Trace:
        """Interpolate at further knots."""
        return refinement.apply(self)

    def between(self, low: float | None, high: float | None) -> Trace:
        """Cut a window out of a single ray; ``None`` leaves that side as it is."""
        grid = self.grid
        inside = torch.ones_like(grid.t, dtype=torch.bool)
        edges = []
        for bound, keep in ((low, torch.gt), (high, torch.lt)):
            if bound is None:
                edges.append(grid.t.new_empty(0))
            else:
                edges.append(grid.t.new_tensor([bound]))
                inside &= keep(grid.t, bound)
        t = torch.cat([edges[0], grid.t[inside], edges[1]])
        knots = torch.cat([self.at(edges[0]), self.knots[inside], self.at(edges[1])])
        starts = grid.starts.new_tensor([0, len(t)])
        if high is None:
            parts = torch.cat([self.slope, knots, self.intercept])
            return Trace(parts, Grid(t, starts, grid.open))
        return Trace(knots, Grid(t, starts, torch.zeros_like(grid.open)))

    def rays(self, first: int, last: int) -> Trace:
        """Keep the rays from ``first`` up to, not including, ``last``."""
        grid = self.grid
        low, high = int(grid.starts[first]), int(grid.starts[last])
        kept = grid.open[first:last]
        skipped = int(grid.open[:first].sum())
        ends = torch.arange(skipped, skipped + int(kept.sum()), device=self.device)
        knots = torch.arange(low, high, device=self.device) + grid.ends
        rows = torch.cat([ends, knots, ends + grid.ends + len(grid.t)])
        terms = None if self.terms is None else partial(_among, self.terms, rows)
        some = Grid(grid.t[low:high], grid.starts[first : last + 1] - low, kept)
        return Trace(self.parts[rows], some, terms)


def _among(terms: Callable[[Tensor], Tensor], rows: Tensor, few: Tensor) -> Tensor:
    """The terms of some of the rows that were kept."""
    return terms(rows[few])


def union(grids: Sequence[Grid]) -> list[Refinement]:
    """Put the knots of several grids of the same rays together; one refinement for each."""
    t, ray = torch.cat([grid.t for grid in grids]), torch.cat([grid.ray for grid in grids])
    order = torch.argsort(t, stable=True)
    order = order[torch.argsort(ray[order], stable=True)]
    t, ray = t[order], ray[order]
    new = torch.ones_like(t, dtype=torch.bool)
    new[1:] = (ray[1:] != ray[:-1]) | (t[1:] - t[:-1] > t[1:].abs() * COINCIDE)
    row = torch.empty_like(order)
    row[order] = new.cumsum(0) - 1
    starts = torch.searchsorted(ray[new], torch.arange(grids[0].rays + 1, device=t.device))
    merged = Grid(t[new], starts, grids[0].open)
    refinements = []
    for grid, positions in zip(grids, row.split([len(grid.t) for grid in grids]), strict=True):
        count = torch.bincount(positions, minlength=len(merged.t))
        rows = torch.nonzero(count == 0).flatten()
        refinements.append(Refinement(grid, merged, positions, rows, count.cumsum(0)[rows] - 1))
    return refinements


class Gridded(Protocol):
    """Values along rays, known on a grid."""

    @property
    def grid(self) -> Grid:
        """Where the knots are."""

    def refined(self, refinement: Refinement) -> Self:
        """The same values on a finer grid."""


G = TypeVar("G", bound=Gridded)


def together(traces: Sequence[G]) -> list[G]:
    """Bring traces of the same rays to one grid."""
    grids = list({id(trace.grid): trace.grid for trace in traces}.values())
    if len(grids) == 1:
        return list(traces)
    onto = dict(zip(map(id, grids), union(grids), strict=True))
    return [trace.refined(onto[id(trace.grid)]) for trace in traces]
