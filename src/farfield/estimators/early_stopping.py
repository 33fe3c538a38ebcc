"""Early stopping of every member on its own, with its best weights kept."""

import torch
from torch import Tensor

from farfield.networks.stack import Stack


class Watch:
    """Watches validation losses.

    Args:
        stack: The members being trained.
        patience: Epochs without improvement after which a member stops; ``None`` for never.
    """

    def __init__(self, stack: Stack, patience: int | None) -> None:
        self._tensors = [*stack.parameters.views, *stack.buffers]
        self._kept = [tensor.clone() for tensor in self._tensors]
        self._patience = patience
        self._best = torch.full((stack.members,), torch.inf)
        self.best_epoch = torch.zeros(stack.members, dtype=torch.long)
        self._waited = torch.zeros(stack.members, dtype=torch.long)
        self.active = torch.ones(stack.members, dtype=torch.bool)

    @property
    def stopped(self) -> bool:
        """Whether no member trains any more."""
        return not bool(self.active.any())

    def see(self, losses: Tensor, epoch: int) -> None:
        """Keep the weights of members that improved; stop those that waited long enough."""
        better = self.active & (losses < self._best)
        self._best = torch.where(better, losses, self._best)
        self.best_epoch[better] = epoch
        self._waited = torch.where(better, 0, self._waited + 1)
        if self._patience is not None:
            self.active &= self._waited < self._patience
        for kept, tensor in zip(self._kept, self._tensors, strict=True):
            kept[better] = tensor[better]

    def restore(self) -> None:
        """Put every member's best weights back."""
        for kept, tensor in zip(self._kept, self._tensors, strict=True):
            tensor.copy_(kept)
