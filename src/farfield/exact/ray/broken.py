"""Functions of ``t`` that are affine between knots and may jump at them, on many rays at once.

Beside the values *at* the knots, each piece has an affine function of its own: a jump belongs to
one side, and at a knot where several columns pass a break in opposite directions the value may be
that of neither side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.exact.ray.knots import Grid, PieceLogits, Refinement
from farfield.exact.ray.spans import Spans


@dataclass(frozen=True, eq=False)
class Broken:
    """The output of one instance along rays.

    Attributes:
        grid: Where the knots are.
        knots: ``(knots, classes)`` outputs at the knots.
        slopes: ``(knots, classes)`` growth on the piece behind each knot; zero behind the last
            knot of a ray that ends.
        intercepts: ``(knots, classes)`` where the line of that piece meets ``t = 0``; the output
            at the last knot of a ray that ends.
        shares: Whether outputs are probabilities, all at rest, and not logits.
    """

    grid: Grid
    knots: Tensor
    slopes: Tensor
    intercepts: Tensor
    shares: bool

    @classmethod
    def of(cls, spans: Spans, out: Tensor, rays: int, shares: bool) -> Broken:
        """Put cells of rays together, leaving out places at which nothing changes.

        Args:
            spans: All cells of all rays, in order.
            out: ``(2, cells, classes)`` slopes and intercepts.
            rays: How many rays.
            shares: Whether outputs are probabilities.
        """
        spans, out = merged(spans, out)
        slope, intercept = out
        open_ = torch.zeros(rays, dtype=torch.bool)
        open_[spans.ray[spans.high.isinf()]] = True
        place = torch.nonzero(spans.is_place).flatten()
        ray, t = spans.ray[place], spans.low[place]
        values = slope[place] * t[:, None] + intercept[place]
        behind = (place + 1).clamp(max=len(spans) - 1)
        goes_on = (spans.ray[behind] == ray) & (behind > place)
        slopes = torch.where(goes_on[:, None], slope[behind], 0.0)
        intercepts = torch.where(goes_on[:, None], intercept[behind], values)
        starts = torch.searchsorted(ray, torch.arange(rays + 1))
        return cls(Grid(t, starts, open_), values, slopes, intercepts, shares)

    @classmethod
    def join(cls, parts: Sequence[Broken]) -> Broken:
        """Put the rays of several together."""
        sizes = torch.tensor([0, *(len(part.grid.t) for part in parts)]).cumsum(0).tolist()
        starts = [part.grid.starts[:-1] + first for part, first in zip(parts, sizes, strict=False)]
        grid = Grid(
            torch.cat([part.grid.t for part in parts]),
            torch.cat([*starts, torch.tensor(sizes[-1:])]),
            torch.cat([part.grid.open for part in parts]),
        )
        knots, slopes, intercepts = (
            torch.cat([getattr(part, name) for part in parts])
            for name in ("knots", "slopes", "intercepts")
        )
        return cls(grid, knots, slopes, intercepts, parts[0].shares)

    def logits(self, outputs: Tensor) -> Tensor:
        """Read outputs as logits: probabilities by their logarithms."""
        return torch.log(outputs) if self.shares else outputs

    def probabilities(self, outputs: Tensor) -> Tensor:
        """Read outputs as probabilities."""
        return outputs if self.shares else torch.softmax(outputs, dim=-1)

    def outputs_at(self, t: Tensor) -> Tensor:
        """Evaluate a single ray at any ``t`` from its first knot on, ``(points, classes)``."""
        grid = self.grid
        left = (torch.searchsorted(grid.t, t, right=True) - 1).clamp(min=0)
        inside = _along(self.slopes[left], self.intercepts[left], t)
        return torch.where((grid.t[left] == t)[:, None], self.knots[left], inside)

    def at(self, t: Tensor) -> Tensor:
        """Logits of a single ray at any ``t``, ``(points, classes)``."""
        return self.logits(self.outputs_at(t))

    def probabilities_at(self, t: Tensor) -> Tensor:
        """Probabilities of a single ray at any ``t``, ``(points, classes)``."""
        return self.probabilities(self.outputs_at(t))

    def lines(self, edges: Tensor) -> tuple[Tensor, Tensor]:
        """Slopes and intercepts of the logits on each piece of a single ray."""
        rows = slice(0, len(edges) - 1)
        return self.slopes[rows], self.logits(self.intercepts[rows])

    def ends(self, rows: Tensor, after: Tensor, endless: Tensor) -> PieceLogits:
        """Logits on the pieces behind some knots, up to the knots ``after``."""
        t, slope, intercept = self.grid.t, self.slopes[rows], self.intercepts[rows]
        span = torch.where(endless, 1.0, t[after] - t[rows])[:, None]
        start = slope * t[rows][:, None] + intercept
        if self.shares:
            return PieceLogits(torch.log(intercept), slope, intercept)
        leading = slope == slope.amax(dim=-1, keepdim=True)
        level = torch.where(endless[:, None], intercept.masked_fill(~leading, -torch.inf), start)
        grown = torch.where(endless[:, None], 0.0, slope * span)
        return PieceLogits(start, slope * span, torch.softmax(level + grown, dim=-1))

    def places(self) -> PieceLogits:
        """Logits at the knots themselves."""
        still = torch.zeros_like(self.knots)
        return PieceLogits(self.logits(self.knots), still, self.probabilities(self.knots))

    def refined(self, refinement: Refinement) -> Broken:
        """Add knots at which nothing changes."""
        grid, rows, left = refinement.grid, refinement.rows, refinement.left

        def put(old: Tensor, new: Tensor) -> Tensor:
            every = old.new_empty(len(grid.t), old.shape[1])
            every[refinement.positions], every[rows] = old, new
            return every

        slopes, intercepts = self.slopes[left], self.intercepts[left]
        return Broken(
            grid,
            put(self.knots, _along(slopes, intercepts, grid.t[rows])),
            put(self.slopes, slopes),
            put(self.intercepts, intercepts),
            self.shares,
        )

    def rays(self, first: int, last: int) -> Broken:
        """Keep the rays from ``first`` up to, not including, ``last``."""
        grid = self.grid
        part = slice(int(grid.starts[first]), int(grid.starts[last]))
        some = Grid(grid.t[part], grid.starts[first : last + 1] - part.start, grid.open[first:last])
        parts = (self.knots[part], self.slopes[part], self.intercepts[part])
        return Broken(some, *parts, self.shares)


def _along(slope: Tensor, intercept: Tensor, t: Tensor) -> Tensor:
    """Evaluate lines, also infinitely far out."""
    return torch.where(slope == 0, intercept, slope * t[:, None] + intercept)


def merged(spans: Spans, out: Tensor) -> tuple[Spans, Tensor]:
    """Leave out places at which nothing changes: the stretches on either side become one."""
    same = torch.zeros(len(spans), dtype=torch.bool)
    same[1:] = (out[:, 1:] == out[:, :-1]).all(dim=0).all(dim=1) & (spans.ray.diff() == 0)
    following = torch.zeros_like(same)
    following[:-1] = same[1:]
    # A place with a stretch on either side, all three alike.
    dropped = spans.is_place & same & following
    dropped[1:] |= dropped[:-1].clone()
    kept = torch.nonzero(~dropped).flatten()
    last = torch.cat([kept[1:], kept.new_tensor([len(spans)])]) - 1
    return Spans(spans.ray[kept], spans.low[kept], spans.high[last]), out[:, kept]
