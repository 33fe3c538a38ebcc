"""Energy (Liu et al. 2020): ``-log sum_k exp z_k`` as the score, post hoc and fine-tuned.

Fine-tuning adds ``(E(x) - m_in)_+^2`` on data and ``(m_out - E(x))_+^2`` on foreign rows to the
cross-entropy; the foreign rows are CEDA's noise here. Far out the energy follows the logit that
grows fastest: it goes to minus infinity wherever any logit grows, and calls such rows known.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor, nn

from farfield.reproduce.guard_tasks import GuardTask
from farfield.reproduce.rivals.base import Base
from farfield.reproduce.rivals.rival import Rival

STEPS, ROWS, RATE, WEIGHT = 400, 128, 1e-3, 0.1
# The data's margin is the mean energy of its rows, that of foreign rows so much above it.
MARGIN = 5.0


def energy(base: Base) -> Rival:
    """Rank by the energy; probabilities are the network's own."""

    def uncertainty(rows: Tensor) -> Tensor:
        return -torch.logsumexp(base.logits(rows), dim=1)

    def far(origin: Tensor, rays: Tensor) -> Tensor:
        slope, starts = base.fastest(origin, rays)
        rest = -torch.logsumexp(starts, dim=1)
        return torch.where(slope == 0, rest, -slope.sign() * torch.inf)

    return Rival(uncertainty, base.probabilities, far, still=base.still)


def energy_tuned(base: Base, task: GuardTask, seed: int) -> Rival:
    """Fine-tune a multilayer perceptron, then rank by its energy."""
    generator = torch.Generator().manual_seed(seed)
    mean, scale = (each.float() for each in task.standard)
    X, y = torch.from_numpy(task.train[0]).float(), torch.from_numpy(task.train[1])
    net = _standardised(base.model.module_, mean, scale)
    with torch.no_grad():
        usual = float(-torch.logsumexp(net((X - mean) / scale), dim=1).mean())
    optimizer = torch.optim.Adam(net.parameters(), RATE)
    for _ in range(STEPS):
        places = torch.randint(len(X), (ROWS,), generator=generator)
        logits = net((X[places] - mean) / scale)
        foreign = net((task.draw(ROWS, generator).float() - mean) / scale)
        inside, outside = (-torch.logsumexp(each, dim=1) for each in (logits, foreign))
        above = F.relu(inside - usual).square().mean()
        below = F.relu((usual + MARGIN) - outside).square().mean()
        optimizer.zero_grad()
        (F.cross_entropy(logits, y[places]) + WEIGHT * (above + below)).backward()
        optimizer.step()
    first = net[0]
    assert isinstance(first, nn.Linear), "a multilayer perceptron begins with a linear layer"
    with torch.no_grad():
        first.weight /= scale
        first.bias.sub_(first.weight @ mean)
    return energy(Base.of(net.requires_grad_(False).double(), task))


def _standardised(network: nn.Sequential, mean: Tensor, scale: Tensor) -> nn.Sequential:
    """A copy that takes standardised inputs."""
    net = copy.deepcopy(network).float().requires_grad_(True)
    first = net[0]
    assert isinstance(first, nn.Linear), "a multilayer perceptron begins with a linear layer"
    with torch.no_grad():
        first.bias.add_(first.weight @ mean)
        first.weight *= scale
    return net
