"""The rows that remedies train against: the same noise as CEDA's, never a foreign set."""

from __future__ import annotations

import torch
from torch import Tensor

from farfield.objectives.noise import noise_for
from farfield.reproduce.guard_tasks import GuardTask


def draw(task: GuardTask, count: int, generator: torch.Generator) -> Tensor:
    """Draw noise, ``(count, *input)`` float64."""
    X = torch.from_numpy(task.train[0])
    return noise_for(X.ndim - 1)(X, count, generator)


def standard(task: GuardTask) -> tuple[Tensor, Tensor]:
    """Mean and deviation of every input; one where it never varies."""
    X = torch.from_numpy(task.train[0])
    scale = X.std(dim=0)
    return X.mean(dim=0), torch.where(scale > 0, scale, torch.ones_like(scale))
