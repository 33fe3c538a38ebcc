"""PreLoad (Rashid et al. 2023): one more class, whose logit outgrows all others.

    z_0(x) = sum_i exp(a_i) phi_i(x)^2 + c

on penultimate features phi: where features move, ``z_0`` grows quadratically, all other logits
linearly. Here features stay as they are, and the last layer is trained again with noise as
examples of the further class, whose probability is shared out evenly among the others. If features
do not move, nothing does.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor

from farfield.reproduce.guard_tasks import GuardTask
from farfield.reproduce.rivals.base import Base
from farfield.reproduce.rivals.rival import Rival, in_batches, of_probabilities

STEPS, ROWS, RATE = 600, 256, 1e-2
# Noise that features are computed of, once.
NOISE = 4096


def preload(base: Base, task: GuardTask, seed: int) -> Rival:
    """Train the last layer again, with one more class."""
    weight, bias, growth, constant = _train(base, task, seed)

    def answer(features: Tensor) -> Tensor:
        further = features.square() @ growth.exp() + constant
        logits = torch.cat([features @ weight.T + bias, further[:, None]], dim=1)
        p = torch.softmax(logits, dim=1)
        return p[:, :-1] + p[:, -1:] / task.classes

    def far(origin: Tensor, rays: Tensor) -> Tensor:
        slope, intercept = base.line(origin, rays)
        rest = answer(intercept).amax(dim=1)
        moves = (slope != 0).any(dim=1)
        return torch.where(moves, torch.full_like(rest, 1.0 / task.classes), rest)

    return of_probabilities(lambda rows: answer(base.features(rows)), far, still=base.still)


def _train(base: Base, task: GuardTask, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    images = task.train[0].ndim > 2
    inside = base.known
    foreign = in_batches(base.features, task.draw(NOISE // (4 if images else 1), generator))
    labels = torch.from_numpy(task.train[1])
    usual = inside.square().mean().clamp(min=1e-12)
    growth = torch.full((inside.shape[1],), -3.0, dtype=torch.float64) - usual.log()
    further = torch.tensor(-3.0, dtype=torch.float64)
    values = [base.weight.clone(), base.bias.clone(), growth, further]
    for value in values:
        value.requires_grad_()
    weight, bias, growth, further = values
    # The last layer keeps what it has learnt; the further class is new.
    slow: dict[str, Any] = {"params": [weight, bias], "lr": RATE / 10}
    optimizer = torch.optim.Adam([slow, {"params": [growth, further]}], RATE)
    for _ in range(STEPS):
        own = torch.randint(len(inside), (ROWS,), generator=generator)
        other = torch.randint(len(foreign), (ROWS,), generator=generator)
        features = torch.cat([inside[own], foreign[other]])
        targets = torch.cat([labels[own], torch.full((ROWS,), task.classes)])
        extra = features.square() @ growth.exp() + further
        logits = torch.cat([features @ weight.T + bias, extra[:, None]], dim=1)
        optimizer.zero_grad()
        F.cross_entropy(logits, targets).backward()
        optimizer.step()
    return weight.detach(), bias.detach(), growth.detach(), further.detach()
