"""The likelihood alone, and on rows that were moved to raise it or to change the answer."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from farfield.networks.streams import Streams
from farfield.objectives.attacks_climb import unit
from farfield.objectives.objective import Batch, MemberNetwork, Objective


@final
@dataclass(frozen=True)
class NLL(Objective):
    """Mean negative log-likelihood of the rows: a proper scoring rule."""

    def __call__(self, network: MemberNetwork, batch: Batch, noise: Streams) -> Tensor:
        """Return ``-mean log p(y | x)`` for every member."""
        return batch.loss(network(batch.inputs))


@final
@dataclass(frozen=True)
class Adversarial(Objective):
    """Half the loss on the rows, half on rows moved up the loss.

    The fast gradient sign method (Goodfellow et al. 2015); as in Lakshminarayanan, Pritzel and
    Blundell 2017 (Algorithm 1), each feature moves by a share of its own range:
    ``x' = x + epsilon * range * sign(d loss(x, y) / dx)``;
    ``(loss(x, y) + loss(x', y)) / 2``.

    Attributes:
        epsilon: Step as a share of each feature's range; the paper's 0.01.
    """

    epsilon: float = 0.01

    def __call__(self, network: MemberNetwork, batch: Batch, noise: Streams) -> Tensor:
        """Return the mean of clean and adversarial loss for every member."""
        inputs = batch.inputs.detach().requires_grad_()
        clean = batch.loss(network(inputs))
        (slope,) = torch.autograd.grad(clean.sum(), inputs, retain_graph=True)
        moved = batch.inputs + self.epsilon * batch.spread * slope.sign()
        return (clean + batch.loss(network(moved))) / 2


@final
@dataclass(frozen=True)
class VirtualAdversarial(Objective):
    """``loss(x, y) + weight * KL(p(x) || p(x + r))`` with the worst ``r`` of length epsilon.

    Virtual adversarial training (Miyato et al. 2018): the direction that changes the prediction
    most is the leading eigenvector of the Hessian of ``KL(p(x) || p(x + r))`` at ``r = 0``, found
    by power iteration.

    Lengths are measured in shares of each feature's range, so the units of features do not
    matter. The second term uses no targets.

    Attributes:
        epsilon: Length of the perturbation, in ranges.
        weight: Weight of the divergence.
        probe: Length of the finite difference of the power iteration, in ranges.
        iterations: Power iterations; one is what the authors recommend.
    """

    epsilon: float = 0.05
    weight: float = 1.0
    probe: float = 1e-2
    iterations: int = 1

    def __call__(self, network: MemberNetwork, batch: Batch, noise: Streams) -> Tensor:
        """Return likelihood plus smoothness for every member."""
        outputs = network(batch.inputs)
        return batch.loss(outputs) + self.weight * self.smoothness(network, batch, noise, outputs)

    def smoothness(
        self, network: MemberNetwork, batch: Batch, noise: Streams, outputs: Tensor
    ) -> Tensor:
        """Return the divergence under the worst perturbation; uses no targets."""
        reference = outputs.detach()
        direction = unit(noise.normal(*batch.inputs.shape[1:]), 2)
        for _ in range(self.iterations):
            direction.requires_grad_()
            probed = network(batch.inputs + self.probe * batch.spread * direction)
            (slope,) = torch.autograd.grad(batch.divergence(reference, probed).sum(), direction)
            direction = unit(slope, 2)
        moved = network(batch.inputs + self.epsilon * batch.spread * direction)
        return batch.divergence(reference, moved)
