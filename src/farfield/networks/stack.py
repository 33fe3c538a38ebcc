"""What the trainer needs from a network: several members with stacked parameters."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor, nn

from farfield.networks.parameters import Parameters
from farfield.networks.streams import Streams


class Stack(Protocol):
    """Members of one architecture, trained side by side.

    Attributes:
        members: How many networks.
        parameters: What is trained, members first.
        buffers: What is remembered but not trained (running statistics), members first.
        noise: The members' streams for dropout masks and sampled weights.
    """

    members: int
    parameters: Parameters
    buffers: list[Tensor]
    noise: Streams

    def apply(self, tensors: Sequence[Tensor], inputs: Tensor, *, training: bool) -> Tensor:
        """Map ``(members, rows, *features)`` to outputs ``(members, rows, outputs)``.

        Several draws per member come as a further leading dimension of the outputs.
        """

    def penalty(self, tensors: Sequence[Tensor]) -> Tensor | None:
        """Return a further loss per member, already scaled, or ``None``."""

    def begin(self, progress: float) -> None:
        """Hear how much of the training is done, a share in [0, 1), before each epoch."""

    def module(self, member: int) -> nn.Module:
        """Return one member as a plain module in evaluation mode."""
