"""From pairwise to class probabilities, as libsvm does it.

Wu, Lin and Weng 2004, second method: the probabilities ``p`` that minimise
``sum_{i != j} (r_ji p_i - r_ij p_j)^2``, by a fixed-point iteration that stops early. The stopping
rule is part of what the model says, so the same steps are taken here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.graph.rules import RowFunction

# No pairwise probability comes closer to 0 or 1 than this.
SMALLEST = 1e-7
# How far beside a place its neighbours are asked, and by how much they may differ from one another.
BESIDE, JUMP = 1e-9, 1e-6


class PairwiseCoupling(RowFunction):
    """Probabilities of classes from the decision values of all pairs of them.

    A pair's probability is ``1 / (1 + exp(slope f + offset))``, Platt's.

    Args:
        slopes: ``(pairs,)``.
        offsets: ``(pairs,)``.
        classes: How many classes there are.
    """

    by_order = True

    def __init__(self, slopes: Any, offsets: Any, classes: int) -> None:
        self.slopes = torch.from_numpy(np.array(slopes, dtype=np.float64))
        self.offsets = torch.from_numpy(np.array(offsets, dtype=np.float64))
        self.classes = classes

    def __call__(self, rows: Tensor) -> Tensor:
        """Evaluate."""
        exponent = rows.double() * self.slopes + self.offsets
        return self._coupled(torch.sigmoid(-exponent)).to(rows)

    def limit(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Pairs whose value moves end at 0, 1/2 or 1, and so do not overflow on the way."""
        exponent = intercept.double() * self.slopes + self.offsets
        motion = slope.double() * self.slopes
        ends = torch.where(motion > 0, 0.0, torch.where(motion < 0, 1.0, torch.sigmoid(-exponent)))
        return self._coupled(ends).to(slope)

    def steady(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Where the iteration takes as many steps just beside: it jumps where these change."""
        apart = BESIDE * (1 + intercept.abs())
        below, above = (self.limit(slope, intercept + sign * apart) for sign in (-1, 1))
        return (above - below).abs().amax(dim=1) <= JUMP

    def _coupled(self, pairs: Tensor) -> Tensor:
        """Couple ``(rows, pairs)`` probabilities of the first of each pair."""
        count = self.classes
        pairs = pairs.clamp(SMALLEST, 1 - SMALLEST)
        upper = torch.triu_indices(count, count, 1)
        ratios = pairs.new_zeros(len(pairs), count, count)
        ratios[:, upper[0], upper[1]] = pairs
        ratios[:, upper[1], upper[0]] = 1 - pairs
        turned = ratios.mT
        matrix = -turned * ratios
        matrix.diagonal(dim1=1, dim2=2).copy_(turned.square().sum(dim=2))
        return _iterate(matrix)


def _iterate(matrix: Tensor) -> Tensor:
    """Minimise ``p' matrix p`` over probabilities, row by row until each stops."""
    count = matrix.shape[1]
    found = matrix.new_full(matrix.shape[:2], 1.0 / count)
    active = torch.arange(len(matrix))
    for _ in range(max(100, count)):
        own, share = matrix[active], found[active]
        product = (own * share[:, None]).sum(dim=2)
        total = (share * product).sum(dim=1)
        going = (product - total[:, None]).abs().amax(dim=1) >= 0.005 / count
        active, own, share = active[going], own[going], share[going]
        product, total = product[going], total[going]
        if not len(active):
            break
        for place in range(count):
            diagonal = own[:, place, place]
            step = (total - product[:, place]) / diagonal
            share = share.clone()
            share[:, place] += step
            grown = 1 + step
            total = (total + step * (step * diagonal + 2 * product[:, place])) / grown / grown
            product = (product + step[:, None] * own[:, place]) / grown[:, None]
            share = share / grown[:, None]
        found[active] = share
    return found
