"""Certified certain uncertainty (Meinke and Hein 2020), of anything that gives probabilities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from farfield.guard.ccu import ccu as fit_ccu
from farfield.reproduce.guard_tasks import GuardTask
from farfield.reproduce.rivals.rival import Rival, Rows, of_probabilities, proven_uniform


def ccu(own: Rows, task: GuardTask, seed: int, *, smooth: bool = True) -> Rival:
    """Mix probabilities with the uniform answer by ``p_in / (lambda p_out)``.

    Args:
        own: The model's probabilities.
        task: The data.
        seed: Of the mixture of Gaussians.
        smooth: Whether the model has slopes.
    """
    X = task.train[0]
    # The densities do not depend on the model: any network of the right shape holds their place.
    empty = nn.Sequential(nn.Flatten(), nn.Linear(X[0].size, task.classes))
    fitted = fit_ccu(empty, X, metric=task.metric, random_state=seed)

    def probabilities(rows: Tensor) -> Tensor:
        share = torch.sigmoid(_log_ratio(fitted, rows))[:, None]
        return share * own(rows) + (1 - share) / task.classes

    radius = fitted.certificate_radius(0.01)
    extra = {"certified_radius": radius if math.isfinite(radius) else None}
    return of_probabilities(probabilities, proven_uniform(task.classes), smooth=smooth, extra=extra)


def _log_ratio(fitted: Any, rows: Tensor) -> Tensor:
    """``log p_in - log (lambda p_out)``, with slopes."""
    units = fitted.metric(rows.double().flatten(1))
    inside = _log_density(units, fitted.weights, fitted.means, fitted.variances)
    middle = np.zeros((1, units.shape[1]))
    outside = _log_density(units, np.zeros(1), middle, np.array([fitted.wide]))
    ratio: Tensor = inside - outside - fitted.log_lambda
    return ratio


def _log_density(units: Tensor, weights: Any, means: Any, variances: Any) -> Tensor:
    weight, mean, variance = (torch.as_tensor(each) for each in (weights, means, variances))
    columns = units.shape[1]
    squares = units.square().sum(dim=1)[:, None] + mean.square().sum(dim=1)
    apart = (squares - 2 * units @ mean.T).clamp(min=0.0)
    each = weight - 0.5 * (apart / variance + columns * (2 * math.pi * variance).log())
    return torch.logsumexp(each, dim=1)
