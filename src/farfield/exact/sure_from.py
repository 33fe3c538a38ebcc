"""From where on a class is there for good: at the end of a ray, and before.

Beyond ``reach`` every logit is ``slope * t + intercept``, and the odds against the winning class
only fall: if it is still lost at ``reach``, the place where that ends has a closed form, or is the
one root of a convex function. If not, ``reach`` is an upper bound, often a poor one: the ray is
walked back, piece by piece, until the class is lost (:mod:`farfield.exact.ray.walk_back`).

Where logits only approach their asymptotes, :mod:`farfield.exact.series.sure` has an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from farfield.errors import UnsupportedOperation
from farfield.exact.piecewise import require_piecewise_affine
from farfield.exact.ray.loss import Loss, others
from farfield.exact.ray.walk_back import WalkBack
from farfield.exact.series.sure import sure_beyond
from farfield.graph.network import Network

if TYPE_CHECKING:
    from farfield.exact.far_field import FarField

# How many products of weights and values walking back may form: some ten seconds on one core.
BUDGET = 5e10


@dataclass(frozen=True, eq=False)
class SureFrom:
    """From where on something holds for good, and whether that place is exact.

    Attributes:
        t: ``(instances, rays)`` from there on it holds; infinite if it never does for good, NaN
            if that is not known.
        exact: ``(instances, rays)`` whether it does not hold just before ``t`` (or from 0 on
            holds always, or never does). Otherwise it holds from ``t`` on *at most*: it may well
            do so from much earlier on.
    """

    t: Tensor
    exact: Tensor

    @property
    def jointly(self) -> SureFrom:
        """``(rays,)`` the same for all instances at once: the last of them decides."""
        never = torch.isinf(self.t).any(dim=0)
        t = self.t.amax(dim=0).masked_fill(never, torch.inf)
        proven = self.t.masked_fill(~self.exact, -torch.inf).amax(dim=0)
        return SureFrom(t, proven == t)


def sure_from(far: FarField, loss: Loss, budget: float = BUDGET) -> SureFrom:
    """Find from where on the winner of every ray is not lost any more.

    Args:
        far: The far field.
        loss: When a class counts as lost.
        budget: How many products of weights and values walking back may form.
    """
    start = torch.where(far.reach.isinf(), 0.0, far.reach).double()
    t, value = _again(far, loss, start)
    known = t.isinf() | (value > 0) | (start == 0)
    unknown = far.asymptotic & ~t.isinf()
    t, exact = t.masked_fill(unknown, torch.nan), known & ~unknown
    open_ = ~exact & ~unknown
    if budget > 0 and far.rays is not None and bool(open_.any()) and _walkable(far.rays[0]):
        walk = WalkBack(*far.rays, far.winner, loss, t, open_, budget)
        with torch.no_grad():
            walk.run()
        exact = exact | ~walk.open & ~unknown
    if budget > 0 and bool(unknown.any()):
        t = torch.where(unknown, sure_beyond(far, loss, unknown, budget), t)
    return SureFrom(t.to(far.slope.dtype), exact)


def _again(far: FarField, loss: Loss, start: Tensor) -> tuple[Tensor, Tensor]:
    """From where on beyond ``start`` winners are not lost; and a positive number where they are."""
    if far.shares is not None:
        # Probabilities at rest, compared as they are: logarithms would round them once more.
        lost = loss.among_shares(far.shares.double(), far.winner)
        return start.masked_fill(lost, torch.inf), lost.to(start)
    slope, gaps, limit = _beyond(far, start)
    value, level = loss.at(gaps), loss.at(limit)
    last = torch.full_like(value, torch.inf).flatten()
    again = loss.found_again(gaps.flatten(0, 1), slope.flatten(0, 1), last, level.flatten())
    return start + torch.where(value > 0, again.reshape(value.shape), 0.0), value


def sure_until(
    network: Network,
    origins: Tensor,
    directions: Tensor,
    stop: Tensor,
    loss: Loss,
    budget: float = BUDGET,
) -> tuple[SureFrom, Tensor]:
    """Find from where on, up to where rays end, the class at their end is not lost any more.

    Args:
        network: The network.
        origins: ``(rays, *input)``.
        directions: ``(rays, *input)``.
        stop: ``(rays,)`` where they end, finite.
        loss: When a class counts as lost.
        budget: As for :func:`sure_from`.

    Returns:
        For every instance and ray from where on; infinite where the class is lost at the end
        itself. And ``(instances, rays)`` the classes.
    """
    ends = origins + stop.reshape(-1, *[1] * (origins.ndim - 1)) * directions
    logits = network.logits(ends).double()
    label = logits.argmax(dim=-1)
    never = loss.at(others(logits, label)) > 0
    t = stop.double().expand_as(never).masked_fill(never, torch.inf)
    walk = WalkBack(network, origins, directions, label, loss, t, ~never & (t > 0), budget)
    if bool(walk.open.any()) and _walkable(network):
        with torch.no_grad():
            walk.run()
    return SureFrom(walk.t, ~walk.open), label


def _beyond(far: FarField, start: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The other classes minus the winner: slopes, values at ``start``, and what these tend to."""
    winner = far.winner[..., None]
    if far.relative is None:
        slope = far.slope - far.slope.gather(-1, winner)
        intercept = far.intercept - far.intercept.gather(-1, winner)
    else:
        slope, intercept = far.relative
    if far.growth is not None:
        # Higher powers, or lower ones, decide who loses: those that do not lead.
        slope = torch.full_like(slope, -1.0)
    slope = slope.double().masked_fill(far.leading, 0.0)
    intercept = intercept.double().scatter(-1, winner, -torch.inf)
    gaps = slope * start[..., None] + intercept
    return slope, gaps, intercept.masked_fill(~far.leading, -torch.inf)


def _walkable(network: Network) -> bool:
    try:
        require_piecewise_affine(network, "walking back")
    except UnsupportedOperation:
        return False
    return True
