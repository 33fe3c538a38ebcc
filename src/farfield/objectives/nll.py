"""The negative log-likelihood."""

from dataclasses import dataclass
from typing import final

from torch import Tensor

from farfield.networks.streams import Streams
from farfield.objectives.objective import Batch, MemberNetwork, Objective


@final
@dataclass(frozen=True)
class NLL(Objective):
    """Mean negative log-likelihood of the rows: a proper scoring rule."""

    def __call__(self, network: MemberNetwork, batch: Batch, noise: Streams) -> Tensor:
        """Return ``-mean log p(y | x)`` for every member."""
        return batch.loss(network(batch.inputs))
