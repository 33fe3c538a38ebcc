"""Last-layer Laplace (Kristiadi et al. 2020), and a mixture of several (Eschenhagen et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.guard_data import Task
from benchmarks.rivals.base import Base
from benchmarks.rivals.rival import Rival, of_probabilities
from farfield.guard.laplace import LastLayerLaplace, last_layer_laplace


def laplace(model: Any, task: Task) -> Rival:
    """One network whose last layer is uncertain."""
    return mixture([model], task)


def mixture(models: Sequence[Any], task: Task) -> Rival:
    """The mean over independently trained networks, each with an uncertain last layer."""
    fitted = [fit(model, task) for model in models]
    bases = [Base.of(model, task) for model in models]

    def probabilities(rows: Tensor) -> Tensor:
        return torch.stack([answer(one, rows) for one in fitted]).mean(dim=0)

    def far(origin: Tensor, rays: Tensor) -> Tensor:
        limits = torch.stack([one.at_infinity(origin, rays) for one in fitted])
        return limits.mean(dim=0).amax(dim=1)

    def still(origin: Tensor, rays: Tensor) -> Tensor:
        return torch.stack([base.still(origin, rays) for base in bases]).any(dim=0)

    return of_probabilities(probabilities, far, still=still)


def fit(model: Any, task: Task) -> LastLayerLaplace:
    """Give a last layer its Gaussian posterior."""
    return last_layer_laplace(model, task.train[0], prior_precision=1.0)


def answer(fitted: LastLayerLaplace, rows: Tensor) -> Tensor:
    """Probabilities with slopes."""
    return fitted._answer(fitted._features(rows), 1.0)
