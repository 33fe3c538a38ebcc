"""Monte-Carlo dropout (Gal and Ghahramani 2016) with fixed masks: a mask is an instance."""

import copy
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from farfield.errors import InputError
from farfield.estimators.archive import can_be_saved
from farfield.estimators.classifier import NeuralClassifier
from farfield.estimators.method import Architecture, Method
from farfield.estimators.settings import count_problems
from farfield.networks.folding import AffineMap
from farfield.networks.mlp import StackedMLP
from farfield.networks.stack import Stack
from farfield.networks.streams import Purpose, Streams


@final
@dataclass(frozen=True, slots=True)
class MCDropout(Method):
    """One trained network, thinned by ``samples`` masks that are drawn once.

    Attributes:
        samples: How many masks.
    """

    samples: int = 50

    def stack(self, architecture: Architecture, rows: int, seed: int) -> Stack:
        """Build the one network."""
        if architecture.factory is None and architecture.dropout <= 0:
            raise InputError("MC dropout needs dropout > 0, got 0; set dropout, e.g. to 0.2")
        if architecture.factory is None and len(architecture.sizes) < 3:
            raise InputError("MC dropout needs hidden units to drop, got hidden=()")
        return architecture.build(1, seed)

    def instances(self, stack: Stack, example: Tensor, seed: int) -> list[nn.Module]:
        """Draw the masks and fold each into its own copy of the network."""
        masks = Streams(seed, self.samples, Purpose.INSTANCES)
        if isinstance(stack, StackedMLP):
            module = stack.module(0)
            return _folded(module, stack, masks)
        return _masked(stack.module(0), example, masks)


def _folded(module: nn.Sequential, stack: StackedMLP, masks: Streams) -> list[nn.Module]:
    """Multiply the columns of each later layer by the mask of the units it reads."""
    widths = stack.sizes[1:-1]
    kept = masks.uniform(sum(widths)).ge_(stack.dropout).mul_(1 / (1 - stack.dropout))
    instances: list[nn.Module] = []
    for factors in kept:
        instance = copy.deepcopy(module)
        linears = [layer for layer in instance if isinstance(layer, nn.Linear)]
        with torch.no_grad():
            for linear, factor in zip(linears[1:], torch.split(factors, list(widths)), strict=True):
                linear.weight.mul_(factor)
        instances.append(instance)
    return instances


def _masked(module: nn.Module, example: Tensor, masks: Streams) -> list[nn.Module]:
    """Replace every dropout layer of a user's network by a constant factor."""
    shapes = _dropout_shapes(module, example)
    if not shapes:
        raise InputError(
            "MC dropout needs a module with dropout layers of p > 0, found none; "
            "add torch.nn.Dropout to the network"
        )
    instances: list[nn.Module] = []
    for sample in range(len(masks)):
        instance, generator = copy.deepcopy(module), masks.generator(sample)
        for name, (shape, share) in shapes.items():
            kept = torch.from_numpy(generator.random(shape) >= share) / (1 - share)
            parent, _, leaf = name.rpartition(".")
            fixed = AffineMap(kept.float(), torch.zeros(()))
            setattr(instance.get_submodule(parent), leaf, fixed)
        instances.append(instance.eval())
    return instances


def _dropout_shapes(module: nn.Module, example: Tensor) -> dict[str, tuple[tuple[int, ...], float]]:
    """Find the shape each dropout layer masks, by running one batch."""
    shapes: dict[str, tuple[tuple[int, ...], float]] = {}
    hooks = []
    for name, layer in module.named_modules():
        if not isinstance(layer, _DropoutNd) or layer.p == 0:
            continue

        def note(layer: Any, inputs: tuple[Tensor, ...], _: Tensor, name: str = name) -> None:
            shape = tuple(inputs[0].shape[1:])
            if not isinstance(layer, nn.Dropout | nn.AlphaDropout):
                # Channel dropout: one factor per channel.
                shape = (shape[0], *[1] * (len(shape) - 1))
            shapes[name] = (shape, layer.p)

        hooks.append(layer.register_forward_hook(note))
    try:
        with torch.no_grad():
            module(example)
    finally:
        for hook in hooks:
            hook.remove()
    return shapes


@final
@can_be_saved
@dataclass(kw_only=True, eq=False, repr=False)
class MCDropoutClassifier(NeuralClassifier):
    """Monte-Carlo dropout (Gal and Ghahramani 2016) with masks drawn once, at the end of ``fit``.

    Every mask is an instance: the same for all points and all calls, so predictions are
    reproducible and each instance is a plain network.

    Attributes:
        samples: How many masks.
        dropout: Share of hidden units dropped, while training and in every mask.

    Further parameters: see ``TrainingSettings`` and ``NeuralClassifier``.
    A ``module`` needs ``torch.nn.Dropout`` layers of its own.
    """

    samples: int = 50
    dropout: float = 0.2

    def _problems(self) -> list[str]:
        """List unusable parameters."""
        return [*super()._problems(), *count_problems(self, "samples")]

    def _method(self) -> Method:
        """Train one network with dropout."""
        return MCDropout(self.samples)
