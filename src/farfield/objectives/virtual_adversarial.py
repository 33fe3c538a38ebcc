"""Virtual adversarial training (Miyato et al. 2018): smooth predictions, no labels needed.

The direction that changes the prediction most is the leading eigenvector of the
Hessian of ``KL(p(x) || p(x + r))`` at ``r = 0``, found by power iteration.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from farfield.networks.streams import Streams
from farfield.objectives.objective import Batch, MemberNetwork, Objective


@final
@dataclass(frozen=True)
class VirtualAdversarial(Objective):
    """``loss(x, y) + weight * KL(p(x) || p(x + r))`` with the worst ``r`` of length epsilon.

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
        direction: Tensor = _unit(noise.normal(*batch.inputs.shape[1:]))
        for _ in range(self.iterations):
            direction.requires_grad_()
            probed = network(batch.inputs + self.probe * batch.spread * direction)
            (slope,) = torch.autograd.grad(batch.divergence(reference, probed).sum(), direction)
            direction = _unit(slope)
        moved = network(batch.inputs + self.epsilon * batch.spread * direction)
        return batch.divergence(reference, moved)


def _unit(directions: Tensor) -> Tensor:
    """Scale every row to length one; a row of zeros stays."""
    lengths = torch.linalg.vector_norm(directions.flatten(2), dim=2)
    shape = (*lengths.shape, *[1] * (directions.dim() - 2))
    shortest = torch.finfo(directions.dtype).tiny
    return torch.div(directions, lengths.clamp_min(shortest).view(shape)).detach()
