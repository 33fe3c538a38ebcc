"""The one loop behind tables and images: steps of a stack of members down an objective."""

from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import Tensor

from farfield.estimators.optimizers import Optimizer, Pull
from farfield.estimators.rows import TrainingTable
from farfield.networks.backprop import Backprop
from farfield.networks.mlp import StackedMLP
from farfield.networks.stack import Stack
from farfield.objectives import NLL, Batch, Objective


class Batches(Protocol):
    """The batches of an epoch: parts of the data, and what each is to an objective."""

    def parts(self) -> Iterator[Tensor]:
        """Yield one pass over the data."""

    def batch(self, part: Tensor) -> Batch:
        """Return what objectives are called with."""


class Descent:
    """Steps of all members down an objective.

    Args:
        stack: The members.
        objective: What is minimised.
        optimizer: How the stack's parameters follow its gradient.
        pull: A penalty on the weights.
    """

    def __init__(
        self, stack: Stack, objective: Objective, optimizer: Optimizer, pull: Pull | None
    ) -> None:
        self.stack = stack
        self.optimizer = optimizer
        self.steps = 0
        self._objective = objective
        self._pull = pull
        self._leaves: list[Tensor] = []
        self._kernels: dict[int, Backprop] = {}

    def epoch(
        self, batches: Batches, rate: float, after: Callable[[Tensor, Tensor], None] | None = None
    ) -> None:
        """Take one pass over the data.

        Args:
            batches: The data.
            rate: Step size.
            after: Called after each step with its part of the data and the members' losses.
        """
        if isinstance(batches, TrainingTable) and after is None and self._by_hand:
            with torch.inference_mode():
                for part in batches.parts():
                    self._gradient_by_hand(batches, part)
                    self._move(rate)
            return
        for part in batches.parts():
            losses = self._gradient(batches.batch(part))
            self._move(rate)
            if after is not None:
                after(part, losses)

    def rest(self) -> None:
        """Give work space back; a fitted estimator is copied and pickled without it."""
        self._kernels, self._leaves = {}, []

    @property
    def _by_hand(self) -> bool:
        """Whether the gradient of the likelihood can be spelled out."""
        stack = self.stack
        return (
            isinstance(stack, StackedMLP) and not stack.batch_norm and type(self._objective) is NLL
        )

    def _move(self, rate: float) -> None:
        """Follow the gradient that was just written."""
        if self._pull is not None:
            self._pull.add_gradient(self.stack.parameters)
        self.optimizer.step(rate)
        self.steps += 1

    def _gradient_by_hand(self, table: TrainingTable, part: Tensor) -> None:
        """Write the gradient of the likelihood with the chain rule spelled out."""
        rows = part.shape[1]
        kernel = self._kernels.get(rows)
        if kernel is None:
            assert isinstance(self.stack, StackedMLP)
            kernel = self._kernels[rows] = Backprop(self.stack, rows)
        outputs = kernel.forward(table.homogeneous(part))
        targets = table.targets(part).transpose(1, 2)
        table.likelihood.gradient(outputs, targets, kernel.error)
        weights = table.weights(part)
        kernel.error.mul_(weights.unsqueeze(1) if isinstance(weights, Tensor) else weights)
        kernel.backward()

    def _gradient(self, batch: Batch) -> Tensor:
        """Write the gradient of any objective with automatic differentiation."""
        stack = self.stack
        leaves = self._leaves = self._leaves or stack.parameters.leaves()
        stack.parameters.gradient.zero_()

        def network(inputs: Tensor, *, training: bool = True) -> Tensor:
            return stack.apply(leaves, inputs, training=training)

        with torch.enable_grad():
            losses = self._objective(network, batch, stack.noise)
            penalty = stack.penalty(leaves)
            total = losses.sum() if penalty is None else losses.sum() + penalty.sum()
            torch.autograd.backward(total)
        return losses.detach()
