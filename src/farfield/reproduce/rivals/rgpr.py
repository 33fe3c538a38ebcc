"""RGPR (Kristiadi, Hein and Hennig 2021): infinitely many further ReLU features, as a variance.

A Gaussian process with the double-sided cubic spline kernel is added to every logit, as the
residual of a Bayesian network. Its variance at x is ``sigma^2 / 3`` times the mean of ``|x_i|^3``
over standardised inputs: small at the data, cubic far away. Logits grow like ``t``, the last
layer's own variance like ``t^2``, so by the probit approximation the answer is
``softmax(z / sqrt(1 + pi / 8 v))`` with ``v ~ t^3``: ``1 / K`` on every ray, whatever features do.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from farfield.reproduce.guard_tasks import GuardTask
from farfield.reproduce.rivals.base import Base
from farfield.reproduce.rivals.laplace import fit, with_one
from farfield.reproduce.rivals.rival import Rival, of_probabilities, proven_uniform

PROBIT = math.pi / 8
# sigma^2 is the largest of these at which training rows lose at most so many nats on average: no
# input but the training rows is looked at.
VARIANCES = (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
LOST, ROWS = 0.01, 2000


def rgpr(base: Base, task: GuardTask) -> Rival:
    """Add the residual to a last-layer Laplace approximation."""
    X, y = task.train
    laplace = fit(base, task)
    mean = torch.from_numpy(X.mean(axis=0))
    scale = X.std(axis=0)
    # Columns that never vary are measured in their typical size, so that no direction is free.
    usual = float(scale[scale > 0].mean()) if (scale > 0).any() else 1.0
    unit = torch.from_numpy(np.where(scale > 0, scale, usual))

    def cubes(rows: Tensor) -> Tensor:
        return ((rows.double() - mean) / unit).abs().pow(3).flatten(1).mean(dim=1) / 3

    def answer(features: Tensor, further: Tensor) -> Tensor:
        """Probabilities, given features and the residual's variance."""
        known = with_one(features)
        outputs = known @ laplace.mean.T
        own = torch.einsum("ni,kij,nj->nk", known, laplace.covariance, known).clamp(min=0.0)
        scaled = outputs / (1 + PROBIT * (own + further[:, None])).sqrt()
        if len(laplace.mean) == 1:
            return torch.cat([torch.sigmoid(-scaled), torch.sigmoid(scaled)], dim=1)
        return torch.softmax(scaled, dim=1)

    features, codes = base.known[:ROWS], torch.from_numpy(y[:ROWS])
    residual = cubes(torch.from_numpy(X[:ROWS]))

    def lost(variance: float) -> float:
        p = answer(features, variance * residual)
        return -float(p[torch.arange(len(p)), codes].clamp(min=1e-12).log().mean())

    free = lost(0.0)
    fine = [each for each in VARIANCES if lost(each) <= free + LOST]
    variance = max(fine, default=VARIANCES[0])
    return of_probabilities(
        lambda rows: answer(base.features(rows), variance * cubes(rows)),
        proven_uniform(task.classes),
        extra={"variance": variance},
    )
