"""Which directions a remedy is blind in: at infinity in closed form, or far out."""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import Tensor

from benchmarks.guard_data import Task
from benchmarks.rivals.rival import ACCEPTED, BLIND, Rays, Rival, in_batches

RAYS, SEED = 500, 0
# Wide inputs are looked at along fewer rays.
WIDE, WIDE_AXES, WIDE_RAYS = 800, 100, 100
# What has no closed form is evaluated this many times as far from the mean as the data goes.
FAR = 1e6
# Directions move a little in every column, those that never vary too.
LEAST = 0.03


@functools.cache
def rays(task: Task) -> dict[str, Tensor]:
    """Both ends of every axis, and directions with the data's own covariance."""
    X = task.train[0]
    flat = torch.from_numpy(X.reshape(len(X), -1))
    columns, generator = flat.shape[1], torch.Generator().manual_seed(SEED)
    axes = torch.eye(columns, dtype=torch.float64)
    if columns > WIDE:
        axes = axes[torch.randperm(columns, generator=generator)[:WIDE_AXES]]
    count = RAYS if columns <= WIDE else WIDE_RAYS
    unit = flat.std(dim=0)
    unit = torch.where(unit > 0, unit, unit[unit > 0].mean())
    some = flat[torch.randperm(len(flat), generator=generator)[:2000]]
    normal = torch.randn(count, len(some), generator=generator).double() / len(some) ** 0.5
    free = LEAST * torch.randn(count, columns, generator=generator).double()
    sphere = normal @ (some - some.mean(dim=0)) + free * unit
    shape = X.shape[1:]
    return {
        "axes": torch.cat([axes, -axes]).reshape(-1, *shape),
        "sphere": sphere.reshape(-1, *shape),
    }


def blindness(task: Task, rival: Rival) -> dict[str, float]:
    """The share of rays on which it is as sure at the end as it is at the data.

    Of probabilities: at least 99% for one class. Of scores: not above what 95% of the training rows
    stay under, so that the end of the ray counts as known.
    """
    far = rival.far or _evaluated(task, rival)
    scores = not rival.by_confidence
    limit = _usual(task, rival) if scores else BLIND
    shares = {}
    for name, each in rays(task).items():
        found = far(_origin(task), each)
        shares[name] = float(((found <= limit) if scores else (found >= limit)).double().mean())
    return shares


def stillness(task: Task, still: Rays) -> dict[str, float]:
    """The share of rays on which features stand still in the end."""
    return {
        name: float(still(_origin(task), each).double().mean()) for name, each in rays(task).items()
    }


@functools.cache
def _origin(task: Task) -> Tensor:
    return torch.from_numpy(task.train[0].mean(axis=0))


def _usual(task: Task, rival: Rival) -> float:
    rows = torch.from_numpy(task.train[0][:2000])
    return float(torch.quantile(in_batches(rival.uncertainty, rows), ACCEPTED))


def _evaluated(task: Task, rival: Rival) -> Rays:
    X = task.train[0]
    flat = (X - X.mean(axis=0)).reshape(len(X), -1)
    away = FAR * float(np.linalg.norm(flat, axis=1).max())

    def far(origin: Tensor, each: Tensor) -> Tensor:
        lengths = each.flatten(1).norm(dim=1).reshape(-1, *[1] * (each.ndim - 1))
        return 1.0 - in_batches(rival.uncertainty, origin + away * each / lengths)

    return far
