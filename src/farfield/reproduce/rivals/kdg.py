"""Kernel density networks (Dey et al. 2022): a Gaussian in place of each linear piece.

The training rows populate some of the network's polytopes. Each becomes a Gaussian: its centre and
its diagonal covariance are means over training rows, weighed by how alike activation patterns are
(the share of units that agree, layer by layer, multiplied over layers, to a power). With ``n_ry``
rows of class y in polytope r, and b a small constant,

    f_y(x) = sum_r n_ry / n_y N(x; mu_r, S_r) + b,        p(y | x) ~ f_y(x) P(y):

where every Gaussian has vanished only b is left, and the answer is how frequent classes are.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from farfield.reproduce.guard_tasks import GuardTask
from farfield.reproduce.rivals.base import Base
from farfield.reproduce.rivals.rival import Rival, of_probabilities

# Polytopes are those of so many training rows; a quarter as many choose the power.
MOST = 1000
POWERS = (1.0, 4.0, 16.0, 64.0)
LEAST_VARIANCE = 1e-2


def kdg(base: Base, task: GuardTask, seed: int) -> Rival:
    """Replace the pieces of a multilayer perceptron; rows set apart choose the power."""
    generator = torch.Generator().manual_seed(seed)
    X, y = torch.from_numpy(task.train[0]), torch.from_numpy(task.train[1])
    mean, scale = task.standard
    order = torch.randperm(len(X), generator=generator)
    count = min(MOST, len(X) * 4 // 5)
    chosen, apart = order[:count], order[count : count + MOST // 4]
    alike = _alike(base.model.module_, X[chosen].float())
    prior = torch.bincount(y, minlength=task.classes).double() / len(y)
    units = (X - mean) / scale

    def answer_with(power: float) -> nn.Module:
        return _Mixture(alike**power, units[chosen], y[chosen], prior)

    def loss(made: nn.Module) -> float:
        p = made(units[apart])
        return -float(p[torch.arange(len(p)), y[apart]].clamp(min=1e-12).log().mean())

    made = min((answer_with(power) for power in POWERS), key=loss)

    def far(_: Tensor, rays: Tensor) -> Tensor:
        return prior.max().expand(len(rays))

    return of_probabilities(lambda rows: made((rows.double() - mean) / scale), far)


class _Mixture(nn.Module):
    """One Gaussian for each row, in order of classes."""

    def __init__(self, alike: Tensor, units: Tensor, y: Tensor, prior: Tensor) -> None:
        super().__init__()
        order = y.argsort(stable=True)
        self.prior = prior
        self.counts = torch.bincount(y, minlength=len(prior)).tolist()
        weights = (alike / alike.sum(dim=1, keepdim=True))[order]
        self.centres = weights @ units
        spread = weights @ units.square() - self.centres.square()
        self.variances = spread.clamp(min=LEAST_VARIANCE)
        least = self._log_density(units).amax(dim=1).amin()
        self.rest = least - math.log(math.log(len(units) + 2))

    def _log_density(self, units: Tensor) -> Tensor:
        """``log f_y`` without the constant, ``(rows, classes)``."""
        exact = 1.0 / self.variances
        squares = units.square() @ exact.T - 2 * units @ (self.centres * exact).T
        squares = squares + (self.centres.square() * exact).sum(dim=1)
        normal = self.variances.log().sum(dim=1) + units.shape[1] * math.log(2 * math.pi)
        each = -0.5 * (squares.clamp(min=0.0) + normal)
        parts = each.split(self.counts, dim=1)
        return torch.stack([torch.logsumexp(p, dim=1) - math.log(p.shape[1]) for p in parts], dim=1)

    def forward(self, units: Tensor) -> Tensor:
        """Probabilities, ``(rows, classes)``."""
        density = torch.logaddexp(self._log_density(units), self.rest)
        return torch.softmax(density + self.prior.log(), dim=1)


def _alike(network: nn.Sequential, rows: Tensor) -> Tensor:
    """How alike the activation patterns of rows are, ``(rows, rows)``."""
    values, found = rows, torch.ones(len(rows), len(rows), dtype=torch.float64)
    with torch.no_grad():
        for layer in network:
            values = layer(values)
            if isinstance(layer, nn.ReLU):
                on = (values > 0).double()
                found *= (on @ on.T + (1 - on) @ (1 - on).T) / on.shape[1]
    return found
