"""DDU (Mukhoti et al. 2023): the density of penultimate features, one Gaussian for each class.

Its post-hoc part, on the network as it is; the paper also trains with spectral normalisation, so
that features move with inputs. Where they do not move on a ray, the density stays what it is there.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from farfield.reproduce.guard_tasks import GuardTask
from farfield.reproduce.rivals.base import Base
from farfield.reproduce.rivals.rival import Rival

# What is added to covariances, in units of the features' mean variance.
RIDGE = 1e-4


def ddu(base: Base, task: GuardTask) -> Rival:
    """Fit Gaussians to the features of each class."""
    features = base.known
    labels = torch.from_numpy(task.train[1])
    size = features.shape[1]
    ridge = RIDGE * features.var(dim=0).mean().clamp(min=1e-12) * torch.eye(size).double()
    means, factors, weights = [], [], []
    for code in range(task.classes):
        own = features[labels == code]
        means.append(own.mean(dim=0))
        factors.append(torch.linalg.cholesky(torch.cov(own.T) + ridge))
        weights.append(math.log(len(own) / len(features)))
    mean, factor = torch.stack(means), torch.stack(factors)
    constant = torch.tensor(weights).double() - factor.diagonal(dim1=1, dim2=2).log().sum(dim=1)

    def score(values: Tensor) -> Tensor:
        """Minus the logarithm of the density."""
        gaps = (values[None] - mean[:, None]).mT
        squares = torch.linalg.solve_triangular(factor, gaps, upper=False).square().sum(dim=1)
        return -torch.logsumexp(constant[:, None] - 0.5 * squares, dim=0)

    def far(origin: Tensor, rays: Tensor) -> Tensor:
        slope, intercept = base.line(origin, rays)
        moves = (slope != 0).any(dim=1)
        return score(intercept).masked_fill(moves, torch.inf)

    return Rival(lambda rows: score(base.features(rows)), None, far, still=base.still)
