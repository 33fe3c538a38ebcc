"""Adversarial training with the fast gradient sign method (Goodfellow et al. 2015).

As in Lakshminarayanan, Pritzel and Blundell 2017 (Algorithm 1), each feature moves by a share of
its own range.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from farfield.networks.streams import Streams
from farfield.objectives.objective import Batch, MemberNetwork, Objective


@final
@dataclass(frozen=True)
class Adversarial(Objective):
    """Half the loss on the rows, half on rows moved up the loss.

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
