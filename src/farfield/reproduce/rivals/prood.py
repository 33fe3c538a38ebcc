"""The form of ProoD (Meinke, Bitterwolf and Hein 2022): a discriminator before the classifier.

    p(y | x) = p(in | x) p_model(y | x) + (1 - p(in | x)) / K,     p(in | x) = sigmoid(g(x)),

with a small ReLU network g that is trained apart, on data against noise, the noise with interval
bounds over a ball. Its last layer has weights below zero, so that ``g`` falls, if its features
move. Where they do not, ``g`` ends at a constant, and the classifier speaks again. The paper trains
against a large set of foreign images; here the foreign rows are CEDA's noise.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor, nn

from farfield.exact import at_infinity
from farfield.graph import capture
from farfield.guard.penultimate import split_last_layer
from farfield.reproduce.guard_tasks import GuardTask
from farfield.reproduce.rivals.base import Base
from farfield.reproduce.rivals.rival import Rival, of_probabilities

HIDDEN, STEPS, ROWS, RATE = 64, 600, 128, 3e-3
# The ball that interval bounds cover around noise, in deviations.
BALL = 0.05


class Discriminator(nn.Module):
    """A ReLU network whose one output falls with its last features."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor, generator: torch.Generator) -> None:
        super().__init__()
        self.first = nn.Linear(mean.numel(), HIDDEN)
        self.second = nn.Linear(HIDDEN, HIDDEN)
        self.weight = nn.Parameter(torch.full((1, HIDDEN), -3.0))
        self.bias = nn.Parameter(torch.full((1,), 3.0))
        self.register_buffer("mean", mean.flatten().float())
        self.register_buffer("scale", scale.flatten().float())
        for layer in (self.first, self.second):
            nn.init.kaiming_normal_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``g``, ``(rows, 1)``."""
        hidden = F.relu(self.first((x.flatten(1) - self.mean) / self.scale))
        return F.linear(F.relu(self.second(hidden)), -F.softplus(self.weight), self.bias)

    def largest(self, x: Tensor, ball: float) -> Tensor:
        """An upper bound of ``g`` over a ball of inputs, by intervals."""
        middle = (x.flatten(1) - self.mean) / self.scale
        radius = torch.full_like(middle, ball)
        for layer in (self.first, self.second):
            middle, radius = layer(middle), F.linear(radius, layer.weight.abs())
            low, high = F.relu(middle - radius), F.relu(middle + radius)
            middle, radius = (low + high) / 2, (high - low) / 2
        # Weights below zero: g is largest where features are smallest.
        return F.linear(middle - radius, -F.softplus(self.weight), self.bias)

    def plain(self) -> nn.Sequential:
        """The same function as layers that can be captured."""
        first, last = nn.Linear(len(self.mean), HIDDEN), nn.Linear(HIDDEN, 1)
        second = self.second
        with torch.no_grad():
            first.weight.copy_(self.first.weight / self.scale)
            first.bias.copy_(self.first.bias - first.weight @ self.mean)
            last.weight.copy_(-F.softplus(self.weight))
            last.bias.copy_(self.bias)
        layers = (nn.Flatten(), first, nn.ReLU(), second, nn.ReLU(), last)
        return nn.Sequential(*layers).double().requires_grad_(False)


def prood(base: Base, task: GuardTask, seed: int) -> Rival:
    """Train the discriminator and put it before the classifier."""
    inner = capture(_train(task, seed), torch.zeros(1, *task.train[0].shape[1:]))
    parts = split_last_layer(inner)

    def probabilities(rows: Tensor) -> Tensor:
        share = torch.softmax(inner.logits(rows)[0], dim=1)[:, 1:]
        return share * base.probabilities(rows) + (1 - share) / task.classes

    def far(origin: Tensor, rays: Tensor) -> Tensor:
        share = at_infinity(inner, origin, rays).probabilities[0, :, 1]
        return share * base.confidence(origin, rays) + (1 - share) / task.classes

    def still(origin: Tensor, rays: Tensor) -> Tensor:
        return (at_infinity(parts.features, origin, rays).slope[0] == 0).all(dim=1)

    return of_probabilities(probabilities, far, still=still)


def _train(task: GuardTask, seed: int) -> nn.Sequential:
    generator = torch.Generator().manual_seed(seed)
    mean, scale = task.standard
    net = Discriminator(mean, scale, generator)
    X = torch.from_numpy(task.train[0]).float()
    optimizer = torch.optim.Adam(net.parameters(), RATE)
    for _ in range(STEPS):
        rows = X[torch.randint(len(X), (ROWS,), generator=generator)]
        foreign = task.draw(ROWS, generator).float()
        inside = F.softplus(-net(rows)).mean()
        outside = F.softplus(net.largest(foreign, BALL)).mean()
        optimizer.zero_grad()
        (inside + outside).backward()
        optimizer.step()
    return net.plain()
