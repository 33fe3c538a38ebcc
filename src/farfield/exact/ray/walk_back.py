"""Walk back along rays, from where their last piece begins towards the origin.

The last place at which a class is *lost* (its confidence below a level, or another class ahead)
lies close to infinity more often than close to the origin, and pieces are few and long far out:
stretches of ``t`` are walked from the outermost to the innermost, and a ray is done in the first
that holds such a place.

On a piece the log-odds against a class are convex, so the stretch of it on which the class is not
lost is an interval: if the class is not lost at both ends of a piece, it is not lost in between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from farfield.errors import NumericalOverflow
from farfield.exact.ray.broken import Broken
from farfield.exact.ray.confidence import Odds, first_root
from farfield.exact.ray.jump_walk import JumpWalk
from farfield.exact.ray.knots import Trace
from farfield.exact.ray.line import walks, with_classes
from farfield.exact.ray.line_walk import BUDGET, LineWalk
from farfield.exact.ray.pieces import per_ray
from farfield.exact.ray.rays import Rays
from farfield.exact.ray.spans import Spans
from farfield.graph.network import Network

# Each stretch begins at this share of where it ends, the last one at the origin.
SHARE = 1 / 8
STRETCHES = 6


class Loss(Protocol):
    """What it means for a class to be lost, given the other logits minus its own."""

    def at(self, gaps: Tensor) -> Tensor:
        """``(points,)`` from ``(points, classes)``: positive where the class is lost."""
        ...

    def found_again(self, gaps: Tensor, growth: Tensor, last: Tensor, limit: Tensor) -> Tensor:
        """The ``u`` from which on ``gaps + growth * u`` is no loss, up to ``last``.

        Args:
            gaps: ``(problems, classes)`` where the class may be lost; minus infinity at itself.
            growth: ``(problems, classes)``, zero at the class itself.
            last: ``(problems,)`` the largest ``u``, perhaps infinite.
            limit: ``(problems,)`` the value of :meth:`at` there, or what it tends to.

        Returns:
            ``(problems,)``; infinite where the class is lost for good.
        """
        ...

    def among_shares(self, shares: Tensor, label: Tensor) -> Tensor:
        """Whether the class is lost, given the probabilities of all."""
        ...


@dataclass(frozen=True)
class Unsure:
    """A class is lost where its confidence is below a level."""

    confidence: float

    @property
    def goal(self) -> float:
        """The log-odds against a class that has just this confidence."""
        return math.log1p(-self.confidence) - math.log(self.confidence)

    def at(self, gaps: Tensor) -> Tensor:
        """The log-odds against the class, minus those at the level."""
        return torch.logsumexp(gaps, dim=-1) - self.goal

    def found_again(self, gaps: Tensor, growth: Tensor, last: Tensor, limit: Tensor) -> Tensor:
        """By Newton's method, which never passes the first root of a convex function."""
        return first_root(Odds(gaps, growth, last, limit + self.goal), self.goal)

    def among_shares(self, shares: Tensor, label: Tensor) -> Tensor:
        """Whether its probability is below the level."""
        return shares.gather(-1, label[..., None])[..., 0] < self.confidence


@dataclass(frozen=True)
class Overtaken:
    """A class is lost where another logit is above its own."""

    def at(self, gaps: Tensor) -> Tensor:
        """By how much another class leads."""
        return gaps.amax(dim=-1)

    def found_again(self, gaps: Tensor, growth: Tensor, last: Tensor, limit: Tensor) -> Tensor:
        """The last crossing with a class that led."""
        crossing = torch.where(growth < 0, -gaps / growth, torch.inf)
        return torch.where(gaps > 0, crossing, 0.0).amax(dim=-1)

    def among_shares(self, shares: Tensor, label: Tensor) -> Tensor:
        """Whether another probability is larger."""
        return shares.gather(-1, label[..., None])[..., 0] < shares.amax(dim=-1)


def others(logits: Tensor, label: Tensor) -> Tensor:
    """All logits minus that of a class, ``(points, classes)``; minus infinity at the class."""
    own = label[..., None]
    level = logits.gather(-1, own)
    # A class that has no probability at all is lost.
    gaps = torch.where(level == -torch.inf, torch.inf, logits - level)
    return gaps.scatter(-1, own, -torch.inf)


class Spent(Exception):  # noqa: N818 - a signal within the walk, not an error
    """The budget is used up."""


@dataclass(eq=False)
class WalkBack:
    """The walk of all rays of all instances.

    Attributes:
        network: The network, of affine pieces.
        origins: ``(rays, *input)``, or one row for all.
        directions: ``(rays, *input)``, or one row for all.
        label: ``(instances, rays)`` the classes in question.
        loss: When they are lost.
        t: ``(instances, rays)`` from where on they are known not to be lost; lowered by the walk.
        open: ``(instances, rays)`` whether that may be so from even earlier on.
        budget: How many products of weights and values may be formed.
    """

    network: Network
    origins: Tensor
    directions: Tensor
    label: Tensor
    loss: Loss
    t: Tensor
    open: Tensor
    budget: float

    def run(self) -> None:
        """Walk until every place is found, or the budget is spent."""
        every = walks(self.network, None, BUDGET)
        chosen = [(place, walk) for place, walk in every if bool(self.open[place].any())]
        try:
            for stretch in range(STRETCHES):
                share = SHARE if stretch < STRETCHES - 1 else 0.0
                for place, walk in chosen:
                    self._stretch(place, walk, share)
        except Spent:
            return

    def _stretch(self, place: int, walk: LineWalk | JumpWalk, share: float) -> None:
        """Walk the next stretch of every ray of one instance that is still open."""
        if isinstance(walk, JumpWalk):
            size = walk.size
        else:
            size = max(1, BUDGET // (3 * walk.program.width))
        every = torch.nonzero(self.open[place]).flatten()
        for first in range(0, len(every), size):
            rows = every[first : first + size]
            high = self.t[place, rows]
            low = high * share
            try:
                last = self._last_loss(place, walk, rows, low, high)
            except NumericalOverflow:
                # Numbers that cannot be followed: what is known so far stays an upper bound.
                continue
            lost = last > -torch.inf
            self.t[place, rows] = torch.where(lost, last, low)
            self.open[place, rows] = ~lost & (low > 0)

    def _last_loss(
        self, place: int, walk: LineWalk | JumpWalk, rows: Tensor, low: Tensor, high: Tensor
    ) -> Tensor:
        """Where between ``low`` and ``high`` the class is lost last; minus infinity if nowhere."""
        origins, directions = (
            values.double().expand(self.t.shape[1], *values.shape[1:])[rows]
            for values in (self.origins, self.directions)
        )
        if isinstance(walk, JumpWalk):
            return self._last_jump(place, walk, rows, (origins, directions, Spans.of(high, low)))
        origins = origins + low.reshape(-1, *[1] * (origins.ndim - 1)) * directions
        ((_, start),) = Rays(origins, directions, high - low, None).starts(len(rows))
        last, label = torch.full_like(low, -torch.inf), self.label[place, rows]
        for window in walk.windows(start):
            self.budget -= walk.domain.products
            walk.domain.products = 0.0
            if self.budget < 0:
                raise Spent
            trace = with_classes(self.network, window, 0).trace
            part = slice(window.first, window.first + trace.grid.rays)
            last[part] = torch.maximum(last[part], last_loss(trace, label[part], self.loss))
        return low + last

    def _last_jump(
        self, place: int, walk: JumpWalk, rows: Tensor, rays: tuple[Tensor, Tensor, Spans]
    ) -> Tensor:
        """The same for a network that jumps."""
        before = walk.cells
        found = walk.stretch(*rays, len(rows))
        self.budget -= (walk.cells - before) * walk.work
        if self.budget < 0:
            raise Spent
        return last_loss_of_broken(found, self.label[place, rows], self.loss)


def last_loss(trace: Trace, label: Tensor, loss: Loss) -> Tensor:
    """The last ``t`` of rays that end at which a class is lost; minus infinity if nowhere.

    Args:
        trace: The logits along the rays.
        label: ``(rays,)`` the classes.
        loss: When they are lost.
    """
    grid = trace.grid
    gaps = others(trace.knots, label[grid.ray])
    value = loss.at(gaps)
    places = torch.arange(len(value), device=value.device)
    knot = torch.full_like(grid.starts[1:], -1)
    knot.scatter_reduce_(0, grid.ray, torch.where(value > 0, places, -1), "amax")
    last = torch.where(knot >= 0, grid.t[knot], -torch.inf)
    inner = torch.nonzero((knot >= 0) & (knot < grid.starts[1:] - 1)).flatten()
    here, after = knot[inner], knot[inner] + 1
    growth = (gaps[after] - gaps[here]).nan_to_num(nan=0.0)
    one = torch.ones_like(last[inner])
    u = loss.found_again(gaps[here], growth, one, value[after]).clamp(max=1.0)
    last[inner] = torch.lerp(grid.t[here], grid.t[after], u)
    return last


def last_loss_of_broken(found: Broken, label: Tensor, loss: Loss) -> Tensor:
    """Do the same for values that jump: on each piece, and at the knots themselves."""
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
    return per_ray(
        t,
        grid.ray[torch.cat([torch.nonzero(at_knots).flatten(), rows[inside]])],
        rays,
        "amax",
        -torch.inf,
    )


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
