"""Where one network reaches a confidence along a ray, and the highest it ever has.

Both by Newton's method on the convex functions of :mod:`farfield.exact.ray.pieces`. From the left
of the first root of a convex function, Newton's steps never pass it: a tangent lies below the
function. So the first place is found, not just any.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.exact.ray.pieces import AffinePieces, per_ray

STEPS = 200
HALVINGS = 64


@dataclass(frozen=True, eq=False)
class Odds:
    """``g(u) = log sum_j exp(offset_j + rate_j u)``: minus the log-odds of a class on a piece.

    Attributes:
        offset: ``(problems, classes)``, minus infinity at the class itself.
        rate: ``(problems, classes)``, zero at the class itself.
        last: ``(problems,)`` the largest ``u``.
        limit: ``(problems,)`` the value there, or what it tends to.
    """

    offset: Tensor
    rate: Tensor
    last: Tensor
    limit: Tensor

    def __getitem__(self, rows: Tensor) -> Odds:
        return Odds(self.offset[rows], self.rate[rows], self.last[rows], self.limit[rows])

    def at(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Value and derivative."""
        exponents = self.offset + self.rate * u[:, None]
        value = torch.logsumexp(exponents, dim=1)
        return value, (torch.exp(exponents - value[:, None]) * self.rate).sum(dim=1)

    def floor(self) -> Tensor:
        """A lower bound: every term at the end where it is smaller."""
        reach = torch.where(self.rate < 0, self.rate * self.last[:, None], 0.0)
        return torch.logsumexp(self.offset + reach, dim=1)


def odds_of(pieces: AffinePieces) -> Odds:
    """All problems of all pieces of one network, class after class within a piece."""
    start, growth = pieces.start[0], pieces.growth[0]
    classes = start.shape[1]
    itself = torch.eye(classes, dtype=torch.bool, device=start.device)
    offset = (start[:, None, :] - start[:, :, None]).masked_fill(itself, -torch.inf)
    rate = growth[:, None, :] - growth[:, :, None]
    last = pieces.last[:, None].expand(-1, classes)
    ended = torch.logsumexp(offset + rate, dim=2)
    limit = torch.where(pieces.endless[:, None], -torch.logit(pieces.limit[0]), ended)
    return Odds(offset.flatten(0, 1), rate.flatten(0, 1), last.reshape(-1), limit.reshape(-1))


def first_reaching(pieces: AffinePieces, rays: int, confidence: float) -> Tensor:
    """The smallest ``t`` at which some class has the confidence, ``(rays,)``; infinite if none."""
    goal = float(torch.logit(torch.tensor(1 - confidence, dtype=torch.float64)))
    found = pieces.t.new_full((rays,), torch.inf)
    classes = pieces.start.shape[-1]
    for part in pieces.chunks(classes * classes):
        odds = odds_of(part)
        problem = torch.nonzero(odds.floor() <= goal).flatten()
        u = first_root(odds[problem], goal)
        piece = problem // classes
        t = torch.where(torch.isfinite(u), part.place(u, piece), torch.inf)
        first = per_ray(t, part.ray[piece], rays, "amin", torch.inf)
        found = torch.minimum(found, first)
    return found


def first_root(odds: Odds, goal: float) -> Tensor:
    """The first ``u`` with ``g(u) <= goal``, infinite if there is none."""
    u = torch.zeros_like(odds.last)
    answer = torch.full_like(u, torch.inf)
    # A limit is not attained: an endless g that only tends to the goal never gets there.
    falling = torch.isfinite(odds.limit) & torch.isinf(odds.last) & (odds.limit >= goal)
    value, gradient = odds.at(u)
    answer[value <= goal] = 0.0
    open_ = torch.nonzero((value > goal) & ~falling).flatten()
    for _ in range(STEPS):
        if not len(open_):
            break
        part, here = odds[open_], u[open_]
        value, gradient = part.at(here)
        following = here + (goal - value) / gradient
        # Rounding must not carry a root that is there past the end of its piece.
        following = torch.where(part.limit <= goal, following.minimum(part.last), following)
        done = (value <= goal) | (following <= here) & (gradient < 0)
        answer[open_[done]] = here[done]
        u[open_] = following
        goes_on = ~done & (gradient < 0) & (following <= part.last) & torch.isfinite(following)
        open_ = open_[goes_on]
    answer[open_] = u[open_]
    return answer


def highest(pieces: AffinePieces, rays: int) -> Tensor:
    """The supremum of the confidence along each ray, ``(rays,)``."""
    classes = pieces.start.shape[-1]
    lowest = pieces.t.new_full((rays,), torch.inf)
    for part in pieces.chunks(classes * classes):
        odds = odds_of(part)
        ray = part.ray.repeat_interleave(classes)
        at_start, gradient = odds.at(torch.zeros_like(odds.last))
        at_ends = torch.minimum(at_start, odds.limit)
        lowest = torch.minimum(lowest, per_ray(at_ends, ray, rays, "amin", torch.inf))
        dips = (odds.floor() < lowest[ray]) & (gradient < 0)
        inner = torch.nonzero(dips).flatten()
        least = per_ray(_least(odds[inner]), ray[inner], rays, "amin", torch.inf)
        lowest = torch.minimum(lowest, least)
    return torch.sigmoid(-lowest)


def _least(odds: Odds) -> Tensor:
    """The smallest value of convex functions that fall at ``u = 0``."""
    low = torch.zeros_like(odds.last)
    high = torch.where(torch.isinf(odds.last), 1.0, odds.last)
    for _ in range(STEPS):
        _, gradient = odds.at(high)
        longer = torch.isinf(odds.last) & (gradient < 0) & (high < 1e300)
        if not bool(longer.any()):
            break
        low, high = torch.where(longer, high, low), torch.where(longer, high * 4, high)
    for _ in range(HALVINGS):
        middle = low + (high - low) / 2
        falls = odds.at(middle)[1] < 0
        low, high = torch.where(falls, middle, low), torch.where(falls, high, middle)
    return torch.minimum(odds.at(low)[0], odds.at(high)[0])
