"""The affine pieces of rays, and what softmax makes of them.

On a piece the logits are ``start + growth * u`` for ``0 <= u <= 1`` (``u >= 0`` where it has no
end), so the probability of class k is ``1 / (1 + exp(g_k(u)))`` with
``g_k(u) = log sum_j exp(start_j - start_k + (growth_j - growth_k) u)``, a convex function: where a
confidence is reached, and where it is highest, are one-dimensional convex problems.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.exact.ray.knots import Trace

# How many numbers a temporary of the solvers may hold.
CHUNK = 1 << 20


@dataclass(frozen=True, eq=False)
class AffinePieces:
    """Pieces of several rays, instances merged.

    Attributes:
        t: ``(pieces,)`` where each starts.
        span: ``(pieces,)`` its length; 1 where it has no end.
        endless: ``(pieces,)`` whether it has no end.
        ray: ``(pieces,)`` the ray it is on.
        start: ``(instances, pieces, classes)`` logits at the start.
        growth: ``(instances, pieces, classes)`` growth of the logits over one span.
        limit: ``(instances, pieces, classes)`` probabilities at the end; in the limit if endless.
    """

    t: Tensor
    span: Tensor
    endless: Tensor
    ray: Tensor
    start: Tensor
    growth: Tensor
    limit: Tensor

    @property
    def last(self) -> Tensor:
        """``(pieces,)`` the largest ``u``: 1, or infinite."""
        return torch.where(self.endless, torch.inf, 1.0).to(self.t)

    def __len__(self) -> int:
        return len(self.t)

    def __getitem__(self, rows: Tensor | slice) -> AffinePieces:
        """Some of the pieces."""
        flat = (self.t[rows], self.span[rows], self.endless[rows], self.ray[rows])
        deep = (self.start[:, rows], self.growth[:, rows], self.limit[:, rows])
        return AffinePieces(*flat, *deep)

    def chunks(self, per_piece: int) -> Iterator[AffinePieces]:
        """Cut into parts for which ``per_piece`` numbers each stay within bounds."""
        size = max(1, CHUNK // per_piece)
        for first in range(0, len(self), size):
            yield self[slice(first, first + size)]

    def place(self, u: Tensor, piece: Tensor) -> Tensor:
        """The ``t`` of a place on a piece."""
        return self.t[piece] + self.span[piece] * u


def pieces_of(traces: list[Trace]) -> AffinePieces:
    """Read the pieces off traces that share a grid; a ray of length zero is one short piece."""
    grid = traces[0].grid
    rows = torch.arange(len(grid.t), device=grid.t.device)
    after = (rows + 1).clamp(max=len(rows) - 1)
    last = torch.zeros_like(rows, dtype=torch.bool)
    last[grid.starts[1:] - 1] = True
    tail = torch.zeros_like(last)
    tail[grid.tails] = True
    alone = torch.zeros_like(last)
    alone[grid.starts[:-1][(grid.starts.diff() == 1) & ~grid.open]] = True
    kept = torch.nonzero(~last | tail | alone).flatten()
    after = torch.where(last, rows, after)[kept]
    endless = tail[kept]
    start = torch.stack([trace.knots[kept] for trace in traces])
    stop = torch.stack([trace.knots[after] for trace in traces])
    growth, limit = stop - start, torch.softmax(stop, dim=-1)
    span = torch.where(endless, 1.0, grid.t[after] - grid.t[kept])
    if grid.ends:
        slope = torch.stack([trace.slope for trace in traces])
        intercept = torch.stack([trace.intercept for trace in traces])
        leading = slope == slope.amax(dim=-1, keepdim=True)
        growth[:, endless] = slope
        limit[:, endless] = torch.softmax(intercept.masked_fill(~leading, -torch.inf), dim=-1)
    return AffinePieces(grid.t[kept], span, endless, grid.ray[kept], start, growth, limit)


def per_ray(values: Tensor, ray: Tensor, rays: int, kind: str, fill: float) -> Tensor:
    """The largest (``"amax"``) or smallest (``"amin"``) value of each ray."""
    out = values.new_full((rays,), fill)
    return out.scatter_reduce_(0, ray, values, kind)
