"""Several members with stacked parameters: what the trainer needs from a network.

All parameters are one contiguous buffer. Each tensor is a contiguous, members-first view of it, so
an optimiser step is a handful of elementwise operations however many layers there are.
"""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from farfield.networks.streams import Streams


class Parameters:
    """Flat values and gradients, and their members-first views.

    Args:
        shapes: Shape of every tensor; the first dimension counts members.

    Example:
        >>> parameters = Parameters([(3, 2, 4), (3, 5)])
        >>> parameters.values.shape, [tuple(view.shape) for view in parameters.views]
        (torch.Size([39]), [(3, 2, 4), (3, 5)])
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]]) -> None:
        size = sum(math.prod(shape) for shape in shapes)
        self.shapes = list(shapes)
        self.values = torch.zeros(size)
        self.gradient = torch.zeros(size)
        self._cut()

    def _cut(self) -> None:
        """Make the views."""
        sizes = [math.prod(shape) for shape in self.shapes]
        self.views = [
            part.view(shape)
            for part, shape in zip(torch.split(self.values, sizes), self.shapes, strict=True)
        ]
        self.gradients = [
            part.view(shape)
            for part, shape in zip(torch.split(self.gradient, sizes), self.shapes, strict=True)
        ]

    def __getstate__(self) -> dict[str, Any]:
        # Copies of views would no longer be views; they are cut again from the copied buffers.
        return {"shapes": self.shapes, "values": self.values, "gradient": self.gradient}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._cut()

    def leaves(self) -> list[Tensor]:
        """Return views that autograd differentiates, accumulating into ``gradient``."""
        leaves = []
        for view, gradient in zip(self.views, self.gradients, strict=True):
            leaf = view.detach().requires_grad_()
            leaf.grad = gradient
            leaves.append(leaf)
        return leaves


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
