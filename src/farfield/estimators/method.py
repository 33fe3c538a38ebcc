"""How several networks come out of one training, and the architecture that is multiplied.

A method builds the stack that is trained, may pull its weights somewhere, and turns the trained
stack into instances. Each has a file of its own, with the estimator that is named after it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from farfield.estimators.optimizers import Pull
from farfield.networks.mlp import Activation, StackedMLP
from farfield.networks.stack import Stack
from farfield.networks.stacked_module import StackedModule
from farfield.networks.streams import Purpose, Streams


@dataclass(frozen=True, slots=True)
class Architecture:
    """The shape of one network: a perceptron, or whatever the user's factory builds."""

    sizes: tuple[int, ...]
    activation: Activation
    dropout: float
    batch_norm: bool
    factory: Callable[[], nn.Module] | None

    def build(self, members: int, seed: int) -> StackedMLP | StackedModule:
        """Stack that many members, each with its own starting weights."""
        initial = Streams(seed, members, Purpose.INITIAL)
        noise = Streams(seed, members, Purpose.NOISE)
        if self.factory is not None:
            return StackedModule(self.factory, initial, noise)
        return StackedMLP(
            self.sizes,
            initial,
            noise,
            activation=self.activation,
            dropout=self.dropout,
            batch_norm=self.batch_norm,
        )


class Method(ABC):
    """Builds a stack, and makes instances of it once it is trained."""

    @abstractmethod
    def stack(self, architecture: Architecture, rows: int, seed: int) -> Stack:
        """Build what is trained on that many rows."""

    def pull(self, stack: Stack, rows: int, seed: int) -> Pull | None:
        """Return a penalty in place of weight decay, or ``None``."""
        return None

    def instances(self, stack: Stack, example: Tensor, seed: int) -> list[nn.Module]:
        """Return the trained networks as plain modules; ``example`` is one batch of inputs."""
        return [stack.module(member) for member in range(stack.members)]
