"""Walk back along rays of a model that jumps, some pieces at a time.

Trees have most of their breakpoints near the data and few far out: beyond ``t`` there are about
``K / t``, as thresholds are ``(c - b) / s`` of slopes ``s`` that are rarely small. So stretches are
chosen by how many pieces they should hold, from the last of them and twice as many each time.
"""

from __future__ import annotations

import torch
from torch import Tensor

from farfield.exact.ray.broken import Broken
from farfield.exact.ray.jump_walk import JumpWalk
from farfield.exact.ray.loss import Loss, others
from farfield.exact.ray.pieces import per_ray
from farfield.exact.ray.spans import Spans

# How many cells a first stretch should hold, and a last.
FEWEST, MOST = 32, 1 << 14
# How many cells all rays of a stretch should hold together.
TOGETHER = 1 << 15
# A stretch begins at this share of where it ends at least, unless it is the last.
SHARE = 1 / 8
ROUNDS = 64


class JumpBack:
    """The walk of all rays of one instance.

    Args:
        walk: How to follow rays.
        rays: ``(rays, *input)`` origins and directions.
        label: ``(rays,)`` the classes in question.
        loss: When they are lost.
    """

    def __init__(
        self, walk: JumpWalk, rays: tuple[Tensor, Tensor], label: Tensor, loss: Loss
    ) -> None:
        self.walk, self.rays, self.label, self.loss = walk, rays, label, loss
        self.round = 0
        self.wanted = FEWEST
        # The K of each ray, as far as the last stretch tells.
        self.beyond = rays[0].new_full((len(label),), torch.nan)

    @property
    def size(self) -> int:
        """How many rays to look at together."""
        return max(self.walk.size, TOGETHER // self.wanted)

    def stretch(self, rows: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Walk a stretch of some rays: where it begins, and where a class is lost last on it.

        Minus infinity where it is not.
        """
        low = self._low(rows, high)
        origins, directions = (each[rows] for each in self.rays)
        found, cells = self.walk.stretch(origins, directions, Spans.of(high, low), len(rows))
        self.beyond[rows] = cells * low * high / (high - low)
        return low, last_loss_of_broken(found, self.label[rows], self.loss)

    def go_on(self) -> None:
        """Make the next stretches longer."""
        self.round += 1
        self.wanted = min(2 * self.wanted, MOST)

    def _low(self, rows: Tensor, high: Tensor) -> Tensor:
        """Where a stretch should begin."""
        beyond = self.beyond[rows]
        low = 1 / (1 / high + self.wanted / beyond)
        low = torch.where(beyond.isnan(), high / 2, torch.maximum(low, SHARE * high))
        return low.masked_fill((beyond <= self.wanted * high) | (self.round >= ROUNDS), 0.0)


def last_loss_of_broken(found: Broken, label: Tensor, loss: Loss) -> Tensor:
    """The last ``t`` of rays that end at which a class is lost; minus infinity if nowhere.

    Args:
        found: The outputs along the rays; looked at on each piece, and at the knots themselves.
        label: ``(rays,)`` the classes.
        loss: When they are lost.
    """
    grid, rays = found.grid, found.grid.rays
    label = label[grid.ray]
    rows = torch.nonzero(grid.bounds < torch.inf).flatten()
    if found.shares:
        at_knots = loss.among_shares(found.knots, label)
        inside = loss.among_shares(found.intercepts[rows], label[rows])
        ends = grid.t[rows + 1]
    else:
        at_knots = loss.at(others(found.knots, label)) > 0
        inside, ends = _last_on_pieces(found, rows, label[rows], loss)
    t = torch.cat([grid.t[at_knots], ends[inside]])
    ray = torch.cat([grid.ray[at_knots], grid.ray[rows[inside]]])
    return per_ray(t, ray, rays, "amax", -torch.inf)


def _last_on_pieces(
    found: Broken, rows: Tensor, label: Tensor, loss: Loss
) -> tuple[Tensor, Tensor]:
    """Whether a class is lost on the pieces behind some knots, and where it is so last."""
    start, growth, _ = found.ends(rows, rows + 1, torch.zeros_like(rows, dtype=torch.bool))
    gaps, after = others(start, label), others(start + growth, label)
    value, level = loss.at(gaps), loss.at(after)
    inner = torch.nonzero((value > 0) & (level <= 0)).flatten()
    # Minus infinity at the class itself does not grow.
    rise = (after - gaps).nan_to_num(nan=0.0)[inner]
    u = torch.ones_like(value)
    u[inner] = loss.found_again(gaps[inner], rise, u[inner], level[inner]).clamp(max=1.0)
    t = torch.lerp(found.grid.t[rows], found.grid.t[rows + 1], u)
    return (value > 0) | (level > 0), t
