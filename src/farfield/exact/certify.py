"""Which far fields are proven, and exact arithmetic for those that floating point cannot decide."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from farfield.exact.far_field import FarField
from farfield.exact.leads import SLACK
from farfield.exact.matrix import ExactBudget, Integers, Matrix, quotient
from farfield.exact.rational import NotRational, Rational, RationalDomain, walk_exactly
from farfield.graph.network import InstanceGroup, Network

# Rays that share one exact walk: many through a small network, one through a large one.
BLOCK = 32
WIDE = 4096


def winner_proven(
    slope: Tensor, intercept: Tensor, slope_error: Tensor, intercept_error: Tensor
) -> Tensor:
    """Whether it is proven which logits grow fastest, and which of those is largest.

    All arguments ``(instances, rays, classes)``; the result ``(instances, rays)``.
    """
    top = slope.argmax(dim=-1, keepdim=True)
    gap = slope.gather(-1, top) - slope
    bound = (slope_error.gather(-1, top) + slope_error) * SLACK
    same = (gap == 0) & (bound == 0)
    itself = torch.zeros_like(same).scatter(-1, top, True)
    slopes_proven = ((gap > bound) | same | itself).all(dim=-1)
    leading = same | itself
    among = intercept.masked_fill(~leading, -torch.inf)
    first = among.argmax(dim=-1, keepdim=True)
    lead = among.gather(-1, first) - among
    doubt = (intercept_error.gather(-1, first) + intercept_error) * SLACK
    itself = torch.zeros_like(same).scatter(-1, first, True)
    behind = (lead > doubt) | ((lead == 0) & (doubt == 0)) | itself | ~leading
    return slopes_proven & behind.all(dim=-1)


def settle_exactly(
    network: Network,
    far: FarField,
    group: InstanceGroup,
    index: int,
    given: tuple[Tensor, Tensor],
    budget: ExactBudget,
) -> None:
    """Recompute the unproven rays of an instance in rational arithmetic.

    Args:
        network: The network.
        far: Where the results go.
        group: The group of the instance.
        index: Its place among the members.
        given: Directions, then origins.
        budget: Runs out on networks that are too large.

    Raises:
        BudgetSpent: If it does.
    """
    if far.certified is None:
        raise ValueError("the far field was not computed with bounds")
    member, constants = group.members[index], group.instance(index)
    matrices: dict[tuple[int, int], Matrix] = {}

    def settle(rays: Tensor, pair: Tensor) -> None:
        """Settle some rays; one by one if one of them has no rational value."""
        try:
            value, domain, undecided = walk_exactly(
                group.program, constants, pair, matrices, budget
            )
        except NotRational:
            rows = pair.unflatten(0, (2, -1))
            for place, ray in enumerate(rays.split(1) if len(rays) > 1 else ()):
                settle(ray, rows[:, place])
            return
        far.undecided[member, rays.to(far.undecided.device)] = undecided
        _write(far, member, rays, _as_classes(network, value), value, domain, undecided)

    open_rays = torch.nonzero(~far.certified[member]).flatten()
    size = max(1, min(BLOCK, WIDE // group.program.width))
    for block in open_rays.split(size) if len(open_rays) else ():
        settle(block, torch.cat([pick(rows, block) for rows in given]))


def pick(rows: Tensor, rays: Tensor) -> Tensor:
    """Rows of some rays; one row stands for all."""
    return rows[rays] if len(rows) > 1 else rows.expand(len(rays), *rows.shape[1:])


def _as_classes(network: Network, value: Rational) -> Integers:
    """The numerators as ``(2, rays, classes)``; a single logit ``f`` becomes ``(0, f)``."""
    pair = value.pair
    if not network.one_logit:
        return pair
    logit = pair.reshape(*pair.shape[:2], 1)
    return np.concatenate([logit * 0, logit], axis=-1)


def _write(
    far: FarField,
    member: int,
    rays: Tensor,
    pair: Integers,
    value: Rational,
    domain: RationalDomain,
    undecided: Tensor,
) -> None:
    """Round the exact germs once, and keep what rounding would blur: differences, and who leads."""
    if far.certified is None or far.relative is None or far.reach_bounds is None:
        raise ValueError("the far field was not computed with bounds")
    leading = np.equal(pair[0], pair[0].max(axis=-1, keepdims=True)).astype(bool)
    if far.shares is not None:
        leading &= np.greater(pair[1], 0).astype(bool)
    winner = [
        int(np.argmax(np.where(ahead, values, values.min() - 1)))
        for ahead, values in zip(leading, pair[1], strict=True)
    ]
    best = np.take_along_axis(pair, np.array(winner)[None, :, None], axis=-1)
    rounded = np.vectorize(lambda top: quotient(top, value.denominator), otypes=[float])
    germs, relative = (torch.from_numpy(rounded(each)) for each in (pair, pair - best))
    where = rays.to(far.slope.device)
    if far.shares is not None:
        # Probabilities: what is known of their differences is not that of their logarithms.
        far.shares[member, where] = germs[1].to(far.shares)
        germs[1] = torch.log(torch.where(torch.from_numpy(leading), germs[1], 1.0))
        relative[1] = germs[1] - germs[1].gather(-1, torch.tensor(winner)[:, None])
    far.slope[member, where], far.intercept[member, where] = germs.to(far.slope)
    far.relative[:, member, where] = relative.to(far.slope)
    far.leading[member, where] = torch.from_numpy(leading).to(far.leading)
    far.reach[member, where] = torch.from_numpy(domain.reach).to(far.reach)
    around = np.stack([np.nextafter(domain.reach, 0.0), np.nextafter(domain.reach, np.inf)])
    far.reach_bounds[:, member, where] = torch.from_numpy(around).to(far.reach)
    far.asymptotic[member, where] = torch.from_numpy(domain.asymptotic).to(far.asymptotic)
    finite = torch.isfinite(germs).all(dim=-1).all(dim=0) & torch.isfinite(relative).all(
        dim=-1
    ).all(dim=0)
    far.certified[member, where] = finite.to(far.certified) & ~undecided.to(far.certified)
