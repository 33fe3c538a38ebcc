"""What an objective is: a function of (network, batch, noise) that gives one loss per member."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from farfield.networks.streams import Streams
from farfield.objectives.likelihood import Likelihood


class MemberNetwork(Protocol):
    """All members at once."""

    def __call__(self, inputs: Tensor, *, training: bool = True) -> Tensor:
        """Map ``(members, rows, *features)`` to ``(members, rows, outputs)``.

        Args:
            inputs: Each member's rows.
            training: Draw dropout masks and use the batch's statistics; without, the network is
                as in evaluation.
        """


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one step, each member with its own.

    Attributes:
        inputs: ``(members, rows, *features)``, scaled as the network sees them.
        targets: ``(members, rows, targets)``.
        weights: ``(members, rows)``; a loss is their weighted sum, so they carry ``1 / rows``.
        low, high: ``(*features)``, the range of each feature over the training data.
        likelihood: What the outputs mean.
        data: ``(rows, *features)`` all training data, scaled alike; ``None`` where an objective
            can only know the batch. Images may be bytes here.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    low: Tensor
    high: Tensor
    likelihood: Likelihood
    data: Tensor | None = None

    @property
    def spread(self) -> Tensor:
        """Width of each feature's range, ``(*features)``."""
        return self.high - self.low

    def loss(self, outputs: Tensor) -> Tensor:
        """Return each member's weighted loss, ``(members,)``."""
        rows = self.likelihood.loss(outputs.transpose(-1, -2), self.targets.transpose(-1, -2))
        return self.reduce(rows)

    def divergence(self, reference: Tensor, outputs: Tensor) -> Tensor:
        """Return each member's weighted KL(reference || outputs), ``(members,)``."""
        rows = self.likelihood.divergence(reference.transpose(-1, -2), outputs.transpose(-1, -2))
        return self.reduce(rows)

    def reduce(self, rows: Tensor) -> Tensor:
        """Sum weighted rows, ``(..., members, rows)``, and average over draws in front."""
        losses = (rows * self.weights).sum(-1)
        return losses if losses.dim() == 1 else losses.flatten(0, -2).mean(0)


@dataclass(frozen=True)
class Objective(ABC):
    """A training objective and its constants.

    Subclasses are frozen dataclasses; calling one gives the loss of every member. An objective
    may call the network as often as it likes and on any inputs, its own noise included.
    """

    @abstractmethod
    def __call__(self, network: MemberNetwork, batch: Batch, noise: Streams) -> Tensor:
        """Return the loss of every member, ``(members,)``, differentiable."""
