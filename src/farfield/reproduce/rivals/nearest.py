"""Deep nearest neighbours (Sun et al. 2022): how far the k-th neighbour is, on unit features.

Features are divided by their length, so on a ray they end at their direction: a point of the
sphere, as near to the data's as any other. The same on standardised inputs, for models without
features, where distances do grow.
"""

from __future__ import annotations

import torch
from torch import Tensor

from farfield.reproduce.guard_tasks import GuardTask
from farfield.reproduce.rivals.base import Base
from farfield.reproduce.rivals.rival import Rival

NEIGHBOURS = 10
MOST = 5000


def nearest(base: Base, task: GuardTask, seed: int) -> Rival:
    """Rank by the distance to the k-th neighbour among the data's features."""
    data = _unit(base.known[_sample(task, seed)])

    def score(values: Tensor) -> Tensor:
        return _kth(_unit(values), data)

    def far(origin: Tensor, rays: Tensor) -> Tensor:
        slope, intercept = base.line(origin, rays)
        moves = (slope != 0).any(dim=1, keepdim=True)
        return score(torch.where(moves, slope, intercept))

    return Rival(lambda rows: score(base.features(rows)), None, far, still=base.still)


def nearest_inputs(task: GuardTask, seed: int) -> Rival:
    """Rank by the distance to the k-th neighbour among standardised rows."""
    mean, scale = task.standard
    X = torch.from_numpy(task.train[0])
    data = ((X[_sample(task, seed)] - mean) / scale).flatten(1)

    def score(rows: Tensor) -> Tensor:
        return _kth(((rows.double() - mean) / scale).flatten(1), data)

    far = torch.tensor(torch.inf, dtype=torch.float64)
    return Rival(score, None, lambda _, rays: far.expand(len(rays)), smooth=False)


def _sample(task: GuardTask, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(len(task.train[0]), generator=generator)[:MOST]


def _unit(features: Tensor) -> Tensor:
    lengths: Tensor = features.norm(dim=1, keepdim=True)
    return features / lengths.clamp(min=1e-12)


def _kth(values: Tensor, data: Tensor) -> Tensor:
    apart = torch.cdist(values, data)
    return apart.topk(NEIGHBOURS, dim=1, largest=False).values[:, -1]
