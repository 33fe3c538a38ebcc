"""Neighbours: how far the nearest rows are, next to what is usual there.

``score = min_k |u - m_k| / s_k`` over many small groups of rows, ``s_k`` how far rows of group k
usually are from its mean. Small groups stand for rows: no group is smaller than ``min_rows``, so
nothing that is stored is a row. Sees gaps between clusters, and combinations that never occurred.
"""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from torch import Tensor

from farfield.guard.clusters import Grouping
from farfield.guard.views.balls import lengths
from farfield.guard.views.units import Units
from farfield.guard.views.view import Place, Say, View, plainly

MOST_GROUPS = 512
# Rows per group; groups of few rows follow the data closely.
ROWS_PER_GROUP = 20
# No group is taken to be narrower than this share of the usual.
NARROWEST = 0.3


@final
class Neighbours(View):
    """``min_k |u - m_k| / s_k``.

    Args:
        centres: ``(groups, units)``.
        scales: ``(groups,)``.
    """

    name = "neighbours"
    sees = "gaps between groups of rows, and combinations that never occurred"
    grows = True
    centres: Tensor
    scales: Tensor
    inputs: Tensor

    def __init__(self, centres: Tensor, scales: Tensor) -> None:
        super().__init__()
        self.register_buffer("centres", centres.double())
        self.register_buffer("scales", scales.double())

    def attach(self, whitened: Units, reduced: Units) -> None:
        """Find the centres in standard deviations, to say which column is off."""
        self.register_buffer("inputs", reduced.back(self.centres), persistent=False)

    @classmethod
    def fit(cls, reduced: Grouping) -> Neighbours:
        """Cut rows into small groups."""
        found = reduced.into(min(MOST_GROUPS, len(reduced.units) // ROWS_PER_GROUP))
        scales = found.quantiles(0.75)
        usual = float(np.median(scales)) or 1.0
        centres = torch.from_numpy(found.centres)
        wide = torch.from_numpy(np.maximum(scales, NARROWEST * usual))
        return cls(centres, wide)

    def score(self, place: Place) -> Tensor:
        """Distance to the nearest group, in what is usual there."""
        return (lengths(place.reduced, self.centres) / self.scales).amin(dim=1)

    def blame(self, place: Place) -> Tensor:
        """How far each column is from the nearest group's mean, in deviations."""
        nearest = (lengths(place.reduced, self.centres) / self.scales).argmin(dim=1)
        return (place.standard - self.inputs[nearest]).abs()

    def explain(self, place: Place, say: Say, column: int) -> str:
        """Say how far its neighbours are."""
        away = plainly(float(self.score(place)[0]))
        return (
            f"no training rows are like it: the nearest group is {away} times as far as its own "
            f"rows are, mostly by {say(column, float(place.rows[0, column]))}"
        )
