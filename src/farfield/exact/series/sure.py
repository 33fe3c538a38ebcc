"""From where on a class is there for good, where logits only approach their asymptotes.

From ``T`` on every logit is as close to its asymptote as :mod:`farfield.exact.series.settling`
bounds it. If the class is not lost at ``T`` with all bounds against it, and the asymptotes of the
others do not catch up, it is not lost from ``T`` on. The least ``T`` for which that is proven is an
upper bound of the true place, often far above it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from farfield.exact.leads import SLACK
from farfield.exact.ray.loss import Loss
from farfield.exact.series.settling import FACTOR, HALVINGS, Accept, FarBounds, searched
from farfield.graph.network import InstanceGroup

if TYPE_CHECKING:
    from farfield.exact.far_field import FarField


def sure_beyond(far: FarField, loss: Loss, where: Tensor, budget: float) -> Tensor:
    """``(instances, rays)`` a ``t`` from which on winners are not lost; NaN where none is found.

    Args:
        far: The far field.
        loss: When a class counts as lost.
        where: ``(instances, rays)`` which rays to look at.
        budget: About how many products of weights and values may be formed.
    """
    found = torch.full(where.shape, torch.nan, dtype=torch.float64)
    if far.rays is None or far.shares is not None:
        return found
    found = searched(far, _affordable(far, where, budget), _Kept(far, loss), found)
    # A little later, lest single precision round it down.
    return found.masked_fill(found.isinf(), torch.nan) * (1 + 2.0**-20)


class _Kept:
    """Whether the winners of some rays are kept from where their bounds start."""

    def __init__(self, far: FarField, loss: Loss) -> None:
        self.far, self.loss = far, loss

    def __call__(self, member: int, places: Tensor) -> Accept:
        winner = self.far.winner[member, places][:, None]
        leading = self.far.leading[member, places]
        return lambda bounds: self._kept(bounds, winner, leading)

    def _kept(self, bounds: FarBounds, winner: Tensor, leading: Tensor) -> Tensor:
        """Bound the lead of every other class by one that does not grow, order by order."""
        start = bounds.start[:, None] ** (1 / bounds.per) / SLACK
        slope = torch.zeros_like(leading, dtype=torch.float64)
        falls = torch.ones_like(winner[:, 0], dtype=torch.bool)
        for order in range(max(bounds.coefficients, default=0), 0, -1):
            gap = self._ahead(bounds, order, winner).masked_fill(leading, 0.0)
            slope = slope * start + gap
            falls = falls & (slope <= 0).all(dim=1)
        off = self._classes(bounds.off)
        gaps = slope * start + self._ahead(bounds, 0, winner) + off + off.gather(1, winner)
        gaps = gaps.scatter(1, winner, -torch.inf)
        return falls & (self.loss.at(gaps) <= 0)

    def _ahead(self, bounds: FarBounds, order: int, winner: Tensor) -> Tensor:
        """The most that coefficients of an order are above the winner's; zero at itself."""
        if order not in bounds.coefficients:
            return torch.zeros_like(self._classes(bounds.off))
        value = self._classes(bounds.coefficients[order])
        error = self._classes(bounds.errors[order])
        gap = value - value.gather(1, winner) + (error + error.gather(1, winner)) * 1.0001
        return gap.scatter(1, winner, 0.0)

    def _classes(self, values: Tensor) -> Tensor:
        assert self.far.rays is not None
        return self.far.rays[0].as_classes(values[None])[0]


def _affordable(far: FarField, where: Tensor, budget: float) -> Tensor:
    """The first rays, as many as the budget allows for."""
    assert far.rays is not None
    cost = torch.ones(len(where), dtype=torch.float64)
    for group in far.rays[0].groups:
        cost[list(group.members)] = _work(group) * FACTOR * (HALVINGS + 2)
    spent = (where * cost[:, None]).flatten().cumsum(0).reshape(where.shape)
    return where & (spent <= budget)


def _work(group: InstanceGroup) -> float:
    """About how many products the evaluation of one row takes."""
    constants, total = group.instance(0), 0.0
    for step in group.program.steps:
        if step.constant or step.shape is None:
            continue
        weights = [constants[name] for name in step.refs() if name in constants]
        fan = max((w.numel() / w.shape[0] for w in weights if w.ndim > 1), default=1.0)
        total += abs(math.prod(step.shape)) * fan
    return max(total, 1.0)
