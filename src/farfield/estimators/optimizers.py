"""Optimisers over one flat buffer of stacked parameters.

Every operation is elementwise, so a member's steps do not depend on the others, and a step costs
the same few operations however many layers the network has.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.optim.adam import adam

from farfield.networks.stack import Parameters


@dataclass(frozen=True, slots=True)
class Pull:
    """A quadratic penalty: ``sum precision / 2 * (theta - centre)^2`` added to the loss.

    Weight decay has one precision and no centre; anchors have both per parameter.
    """

    precision: float | Tensor
    centre: Tensor | None = None

    def add_gradient(self, parameters: Parameters) -> None:
        """Add the penalty's derivative to the gradient."""
        if isinstance(self.precision, Tensor):
            away = parameters.values if self.centre is None else parameters.values - self.centre
            parameters.gradient.addcmul_(self.precision, away)
        else:
            parameters.gradient.add_(parameters.values, alpha=self.precision)


class Optimizer(Protocol):
    """Moves the parameters against their gradient."""

    def step(self, learning_rate: float) -> None:
        """Take one step."""

    def state(self) -> dict[str, Tensor]:
        """Return what is remembered between steps; writing into it moves the optimiser."""


class Adam:
    """Adam (Kingma and Ba 2015): torch's fused kernel, or a few operations for small members.

    The fused kernel wakes all threads however small the buffer is, which costs a thousandfold where
    another process has a core of its own. Small operations stay on one thread.
    """

    FIRST = 0.9
    SECOND = 0.999
    EPSILON = 1e-8
    # Members with fewer parameters are small: torch's own limit for splitting an operation. How
    # many members there are does not count, so that a member is trained as if it were alone.
    SMALL = 1 << 15
    # Far too small to be seen beside epsilon; roots of zero, of units that never fire, are slow.
    TINY = 1e-37
    # The first moment of a unit that fires no more fades to numbers below 1e-38, and stays there:
    # arithmetic on them is several times slower. What is fainter than this is cleared in time.
    FAINT = 1e-30
    CLEAR_EVERY = 64

    def __init__(self, parameters: Parameters) -> None:
        self._fused = len(parameters.values) // parameters.shapes[0][0] >= self.SMALL
        self._values = [parameters.values]
        self._gradient = [parameters.gradient]
        self._mean = [torch.zeros_like(parameters.values)]
        self._square = [torch.zeros_like(parameters.values)]
        self._steps = [torch.zeros(())]
        # As tensors: a plain number is converted anew by every operation.
        self._one, self._kept = torch.tensor(1.0), torch.tensor(self.SECOND)
        self._spread = torch.empty(0 if self._fused else len(parameters.values))

    def step(self, learning_rate: float) -> None:
        """Take one step."""
        if self._fused:
            self._large_step(learning_rate)
        else:
            self._small_step(learning_rate)
        if self._steps[0].item() % self.CLEAR_EVERY == 0:
            mean = self._mean[0]
            mean.masked_fill_(mean.abs() < self.FAINT, 0.0)

    def _large_step(self, learning_rate: float) -> None:
        """Take one step with torch's kernel."""
        adam(
            self._values,
            self._gradient,
            self._mean,
            self._square,
            [],
            self._steps,
            foreach=False,
            fused=True,
            amsgrad=False,
            beta1=self.FIRST,
            beta2=self.SECOND,
            lr=learning_rate,
            weight_decay=0.0,
            eps=self.EPSILON,
            maximize=False,
        )

    def _small_step(self, learning_rate: float) -> None:
        """Take one step, an operation at a time."""
        gradient, mean, square = self._gradient[0], self._mean[0], self._square[0]
        steps = self._steps[0].add_(self._one).item()
        mean.lerp_(gradient, 1 - self.FIRST)
        square.mul_(self._kept).addcmul_(gradient, gradient, value=1 - self.SECOND)
        # Both moments start at zero; what corrects the second one is taken out of the root.
        second = (1 - self.SECOND**steps) ** 0.5
        spread = torch.clamp_min(square, self.TINY, out=self._spread)
        spread.sqrt_().add_(self.EPSILON * second)
        rate = learning_rate * second / (1 - self.FIRST**steps)
        self._values[0].addcdiv_(mean, spread, value=-rate)

    def state(self) -> dict[str, Tensor]:
        """Return moments and the number of steps."""
        return {"mean": self._mean[0], "square": self._square[0], "steps": self._steps[0]}


class SGD:
    """Gradient descent with momentum: ``u = momentum * u + g; theta -= lr * u``."""

    def __init__(self, parameters: Parameters, momentum: float) -> None:
        self._parameters = parameters
        self._momentum = momentum
        self._velocity = torch.zeros_like(parameters.values)

    def step(self, learning_rate: float) -> None:
        """Take one step."""
        self._velocity.mul_(self._momentum).add_(self._parameters.gradient)
        self._parameters.values.add_(self._velocity, alpha=-learning_rate)

    def state(self) -> dict[str, Tensor]:
        """Return the velocity."""
        return {"velocity": self._velocity}


def make_optimizer(name: str, parameters: Parameters, momentum: float) -> Optimizer:
    """Return ``"adam"``, or ``"sgd"`` with a momentum."""
    return Adam(parameters) if name == "adam" else SGD(parameters, momentum)
