"""A second guard on penultimate features: for inputs near the data that a network sees as new.

It multiplies the temperature by one of its own. Features need not move when inputs do, so this
guard promises nothing about the far field; the guard in the input's own space does.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from farfield.errors import InputError
from farfield.guard.cover import Balls, Cover, conformal_margin, fit_cover
from farfield.guard.members import Held
from farfield.guard.penultimate import split_last_layer
from farfield.guard.program_module import ProgramModule
from farfield.guard.whitening import Whiten, Whitening, fit_whitening

COVERAGE = 0.99
LEAST_UNIT = 1e-6


class FeatureGuard(nn.Module):
    """``1 + (relu(d(features)) / unit)^2``; the unit is the median radius of its balls."""

    def __init__(self, features: ProgramModule, metric: Whitening, cover: Cover) -> None:
        super().__init__()
        self.features, self.metric = features, metric
        self.whiten, self.near = Whiten(metric), Balls(cover)
        self.unit = max(float(cover.radii.median()), LEAST_UNIT)

    def forward(self, rows: Tensor) -> Tensor:
        """The temperature of rows, ``(rows,)`` float64."""
        distance = self.near(self.whiten(self.features(rows).double())).relu()
        hot: Tensor = 1.0 + (distance / self.unit).square()
        return hot


def fit_feature_guard(held: Held, rows: Tensor, prototypes: int, seed: int) -> FeatureGuard:
    """Cover the features of training rows.

    Args:
        held: The model; one instance that ends in a linear layer.
        rows: Training rows.
        prototypes: Number of balls.
        seed: Of k-means.
    """
    if held.network is None:
        raise InputError("features=True needs a model that can be read")
    parts = split_last_layer(held.network)
    weights = {
        name: value.to(rows.dtype) if value.is_floating_point() else value
        for name, value in parts.features.groups[0].instance(0).items()
    }
    module = ProgramModule(parts.features.groups[0].program, weights)
    with torch.no_grad():
        values = torch.cat([module(part) for part in rows.split(1024)]).double().numpy()
    metric = fit_whitening(values)
    units = metric.apply(torch.from_numpy(values)).numpy()
    base, scores, _ = fit_cover(units, prototypes, seed)
    cover = base.grown(conformal_margin(scores, COVERAGE))
    return FeatureGuard(module, metric, cover)
