"""The affine pieces of rays, and what softmax makes of them.

On a piece the logits are ``start + growth * u`` for ``0 <= u <= 1`` (``u >= 0`` where it has no
end), so the probability of class k is ``1 / (1 + exp(g_k(u)))`` with
``g_k(u) = log sum_j exp(start_j - start_k + (growth_j - growth_k) u)``, a convex function: where a
confidence is reached, and where it is highest, are one-dimensional convex problems.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.exact.ray.broken import Broken
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

    @property
    def at_rest(self) -> bool:
        """Whether no logit changes on any piece."""
        return not bool(self.growth.any())

    @property
    def confidence(self) -> Tensor:
        """``(pieces,)`` the confidence of the mean over instances at the end of each piece."""
        return self.limit.mean(dim=0).amax(dim=-1)

    def before(self, other: AffinePieces) -> AffinePieces:
        """These pieces, then others."""
        flat = ("t", "span", "endless", "ray")
        deep = ("start", "growth", "limit")
        return AffinePieces(
            *(torch.cat([getattr(self, name), getattr(other, name)]) for name in flat),
            *(torch.cat([getattr(self, name), getattr(other, name)], dim=1) for name in deep),
        )

    def chunks(self, per_piece: int) -> Iterator[AffinePieces]:
        """Cut into parts for which ``per_piece`` numbers each stay within bounds."""
        size = max(1, CHUNK // per_piece)
        for first in range(0, len(self), size):
            yield self[slice(first, first + size)]

    def place(self, u: Tensor, piece: Tensor) -> Tensor:
        """The ``t`` of a place on a piece."""
        return self.t[piece] + self.span[piece] * u


def pieces_of(traces: Sequence[Trace | Broken]) -> AffinePieces:
    """Read the pieces off traces that share a grid; a ray of length zero is one short piece.

    If some of them jump, the knots are pieces of length zero as well.
    """
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
    span = torch.where(endless, 1.0, grid.t[after] - grid.t[kept])
    ends = [trace.ends(kept, after, endless) for trace in traces]
    deep = (torch.stack(part) for part in zip(*ends, strict=True))
    found = AffinePieces(grid.t[kept], span, endless, grid.ray[kept], *deep)
    if not any(isinstance(trace, Broken) for trace in traces):
        return found
    places = [trace.places() for trace in traces]
    deep = (torch.stack(part) for part in zip(*places, strict=True))
    still = torch.zeros_like(grid.t)
    knots = AffinePieces(grid.t, still, still > 0, grid.ray, *deep)
    return knots.before(found)


def per_ray(values: Tensor, ray: Tensor, rays: int, kind: str, fill: float) -> Tensor:
    """The largest (``"amax"``) or smallest (``"amin"``) value of each ray."""
    out = values.new_full((rays,), fill)
    return out.scatter_reduce_(0, ray, values, kind)
