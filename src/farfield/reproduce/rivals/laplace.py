"""Last-layer Laplace (Kristiadi et al. 2020), and mixtures of it (Eschenhagen et al. 2021)."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from farfield.guard.laplace import LastLayerLaplace, last_layer_laplace
from farfield.reproduce.guard_tasks import GuardTask
from farfield.reproduce.rivals.base import Base
from farfield.reproduce.rivals.rival import Rival, of_probabilities


def mixture(bases: Sequence[Base], task: GuardTask) -> Rival:
    """The mean over independently trained networks, or one, each with an uncertain last layer."""
    fitted = [(base, fit(base, task)) for base in bases]

    def probabilities(rows: Tensor) -> Tensor:
        answers = [one._answer(with_one(base.features(rows)), 1.0) for base, one in fitted]
        return torch.stack(answers).mean(dim=0)

    def far(origin: Tensor, rays: Tensor) -> Tensor:
        limits = torch.stack([one.at_infinity(origin, rays) for _, one in fitted])
        return limits.mean(dim=0).amax(dim=1)

    def still(origin: Tensor, rays: Tensor) -> Tensor:
        return torch.stack([base.still(origin, rays) for base in bases]).any(dim=0)

    return of_probabilities(probabilities, far, still=still)


@functools.cache
def fit(base: Base, task: GuardTask) -> LastLayerLaplace:
    """Give a last layer its Gaussian posterior."""
    return last_layer_laplace(base.model, task.train[0], prior_precision=1.0)


def with_one(features: Tensor) -> Tensor:
    """Features and the constant that the bias belongs to."""
    return torch.cat([features, features.new_ones(len(features), 1)], dim=1)
