"""Walk back along rays, from where their last piece begins towards the origin.

The last place at which a class is *lost* (its confidence below a level, or another class ahead)
lies close to infinity more often than close to the origin, and pieces are few and long far out:
stretches of ``t`` are walked from the outermost to the innermost, and a ray is done in the first
that holds such a place.

On a piece the log-odds against a class are convex, so the stretch of it on which the class is not
lost is an interval: if the class is not lost at both ends of a piece, it is not lost in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.errors import NumericalOverflow
from farfield.exact.ray.boxes import BoxDomain
from farfield.exact.ray.jump_back import JumpBack
from farfield.exact.ray.jump_walk import JumpWalk
from farfield.exact.ray.knots import Trace
from farfield.exact.ray.line import walks, with_classes
from farfield.exact.ray.line_domain import LineDomain
from farfield.exact.ray.line_walk import BUDGET, LineWalk
from farfield.exact.ray.loss import Loss, others
from farfield.exact.ray.narrowing import Narrowing
from farfield.exact.ray.rays import Rays
from farfield.exact.ray.tree_back import TreeBack
from farfield.graph.network import Network

# Each stretch begins at this share of where it ends, the last one at the origin.
SHARE = 1 / 8
STRETCHES = 6


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
        plain: list[tuple[int, LineWalk]] = []
        jumping: list[tuple[int, JumpBack]] = []
        try:
            for place, walk in walks(self.network, None, BUDGET):
                if not bool(self.open[place].any()):
                    continue
                if not isinstance(walk, JumpWalk):
                    plain.append((place, walk))
                elif not self._trees(place, walk):
                    back = JumpBack(walk, self._rays(), self.label[place], self.loss)
                    jumping.append((place, back))
            for place, each in plain:
                self._narrow(place, each)
            for stretch in range(STRETCHES):
                share = SHARE if stretch < STRETCHES - 1 else 0.0
                for place, each in plain:
                    self._stretch(place, each, share)
            while bool(self.open[[place for place, _ in jumping]].any()):
                for place, back in jumping:
                    self._jumps(place, back)
        except Spent:
            return

    def _rays(self) -> tuple[Tensor, Tensor]:
        """``(rays, *input)`` origins and directions."""
        origins, directions = (
            values.double().expand(self.t.shape[1], *values.shape[1:])
            for values in (self.origins, self.directions)
        )
        return origins, directions

    def _trees(self, place: int, walk: JumpWalk) -> bool:
        """Follow the open rays of an instance that is an ensemble of trees; whether it is one."""
        back = TreeBack.of(walk)
        if back is None:
            return False
        every = torch.nonzero(self.open[place]).flatten()
        for rows in every.split(back.size):
            self.budget -= len(rows) * back.work
            if self.budget < 0:
                raise Spent
            origins, directions = (each[rows] for each in self._rays())
            high, label = self.t[place, rows], self.label[place, rows]
            last = back.last_loss(origins, directions, high, label, self.loss)
            if last is None:
                return False
            self._note(place, rows, torch.zeros_like(high), last)
        return True

    def _jumps(self, place: int, back: JumpBack) -> None:
        """Walk the next stretch of every open ray of an instance that jumps."""
        every = torch.nonzero(self.open[place]).flatten()
        for rows in every.split(back.size):
            before = back.walk.cells
            low, last = back.stretch(rows, self.t[place, rows])
            self._note(place, rows, low, last)
            self.budget -= (back.walk.cells - before) * back.walk.work
            if self.budget < 0:
                raise Spent
        back.go_on()

    def _note(self, place: int, rows: Tensor, low: Tensor, last: Tensor) -> None:
        """Keep what is known of rays that were walked back to ``low``."""
        lost = last > -torch.inf
        self.t[place, rows] = torch.where(lost, last, low)
        self.open[place, rows] = ~lost & (low > 0)

    def _narrow(self, place: int, walk: LineWalk) -> None:
        """Leave out of every ray what bounds can prove, and walk what is left if it is short."""
        narrowing = Narrowing(self.network, walk.program, walk.constants, self.loss)
        for rows in self._open(place, walk):
            origins, directions = (each[rows] for each in self._rays())
            high, label = self.t[place, rows], self.label[place, rows]
            low, high = narrowing.narrow(origins, directions, high, label)
            self.t[place, rows], self.open[place, rows] = high, high > 0
            self._pay(narrowing.domain)
            known = torch.nonzero(low > 0).flatten()
            self._walk(place, walk, rows[known], low[known])

    def _stretch(self, place: int, walk: LineWalk, share: float) -> None:
        """Walk the next stretch of every ray of one instance that is still open."""
        for rows in self._open(place, walk):
            self._walk(place, walk, rows, self.t[place, rows] * share)

    def _open(self, place: int, walk: LineWalk) -> tuple[Tensor, ...]:
        """The open rays of an instance, as many at a time as fit."""
        size = max(1, BUDGET // (3 * walk.program.width))
        every = torch.nonzero(self.open[place]).flatten()
        parts: tuple[Tensor, ...] = every.split(size)
        return parts

    def _walk(self, place: int, walk: LineWalk, rows: Tensor, low: Tensor) -> None:
        """Walk some rays back to ``low``."""
        if not len(rows):
            return
        try:
            last = self._last_loss(place, walk, rows, low, self.t[place, rows])
        except NumericalOverflow:
            # Numbers that cannot be followed: what is known so far stays an upper bound.
            return
        self._note(place, rows, low, last)

    def _pay(self, domain: LineDomain | BoxDomain) -> None:
        """Pay for the products that were formed."""
        self.budget -= domain.products
        domain.products = 0.0
        if self.budget < 0:
            raise Spent

    def _last_loss(
        self, place: int, walk: LineWalk, rows: Tensor, low: Tensor, high: Tensor
    ) -> Tensor:
        """Where between ``low`` and ``high`` the class is lost last; minus infinity if nowhere."""
        origins, directions = (each[rows] for each in self._rays())
        origins = origins + low.reshape(-1, *[1] * (origins.ndim - 1)) * directions
        ((_, start),) = Rays(origins, directions, high - low, None).starts(len(rows))
        last, label = torch.full_like(low, -torch.inf), self.label[place, rows]
        for window in walk.windows(start):
            self._pay(walk.domain)
            trace = with_classes(self.network, window, 0).trace
            part = slice(window.first, window.first + trace.grid.rays)
            last[part] = torch.maximum(last[part], last_loss(trace, label[part], self.loss))
        return low + last


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
