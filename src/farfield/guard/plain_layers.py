"""A stack of plain layers, without what PyTorch does around each of them.

For one row the work of a layer takes less time than to call it. As long as nothing else hangs on
layers, the same operations on the same weights give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, is_
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.modules import module as globally

# What layers do with a row and their weights; ``None`` leaves it as it is, when not in training.
LAYERS: dict[type[nn.Module], Callable[..., Tensor] | None] = {
    nn.Linear: linear,
    nn.ReLU: torch.relu,
    nn.Tanh: torch.tanh,
    nn.Identity: None,
    nn.Dropout: None,
}
# The weights that they take, in this order; layers may hold them in another one.
WEIGHTS: dict[type[nn.Module], tuple[str, ...]] = {nn.Linear: ("weight", "bias")}
TRAINING, FORWARD = attrgetter("training"), attrgetter("forward")
# What all of them do, and those that hold them, as PyTorch has it.
OWN = {kind: FORWARD(kind) for kind in (*LAYERS, nn.Sequential, nn.ModuleList)}
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class PlainLayers:
    """Layers that are called one after the other, and nothing else. Copies of it are ``None``.

    Args:
        holder: What holds them.
        layers: Them, in order; one has weights.
    """

    def __init__(self, holder: nn.Module, layers: list[nn.Module]) -> None:
        modules = list(holder.modules())
        self.holder = holder
        self.modules, self.types = modules, [type(each) for each in modules]
        # Whoever gives all layers of a kind another function puts it into their class.
        self.kinds = list(dict.fromkeys(self.types))
        self.forwards = [OWN[kind] for kind in self.kinds]
        self.hooks = [getattr(each, name) for each in modules for name in HOOKS]
        self.hooks += [getattr(globally, f"_global{name}") for name in HOOKS]
        self.held = [held for each in modules for held in (each._modules, each._parameters)]
        places = [(held, name, thing) for held in self.held for name, thing in held.items()]
        self.count = len(places)
        # Whoever gives one layer a function of its own puts it here.
        places += [(vars(each), "forward", None) for each in modules]
        self.places, self.names, self.things = (list(each) for each in zip(*places, strict=True))
        self.idle = [each for each in layers if LAYERS[type(each)] is None]
        self.steps = [
            (function, [each._parameters[name] for name in _weights(each)])
            for each in layers
            if (function := LAYERS[type(each)]) is not None
        ]
        self.first: Any = next(weights[0] for _, weights in self.steps if weights)

    @classmethod
    def of(cls, holder: nn.Module) -> PlainLayers | None:
        """The layers that something holds, if they are plain and some have weights."""
        layers = _layers(holder)
        weights = layers is not None and any(map(_weights, layers))
        return cls(holder, layers) if layers is not None and weights else None

    def __call__(self, x: Tensor) -> Tensor | None:
        """What they make of a row; ``None`` if it is of another type, or they are others now."""
        if (
            any(self.hooks)
            or any(map(TRAINING, self.idle))
            or not all(map(is_, map(type, self.modules), self.types))
            or not all(map(is_, map(FORWARD, self.kinds), self.forwards))
            or not all(map(is_, map(dict.get, self.places, self.names), self.things))
            or sum(map(len, self.held)) != self.count
            or x.dtype is not self.first.dtype
        ):
            return None
        for function, weights in self.steps:
            x = function(x, *weights)
        return x

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def _weights(layer: nn.Module) -> tuple[str, ...]:
    """Names of the weights that a layer takes."""
    return WEIGHTS.get(type(layer), ())


def _layers(module: nn.Module) -> list[nn.Module] | None:
    """The layers in a module, in order; ``None`` if some are not plain."""
    if type(module) in LAYERS:
        own = module._parameters
        return [module] if all(name in own for name in _weights(module)) else None
    if type(module) not in OWN:
        return None
    found: list[nn.Module] = []
    # One layer may stand in several places.
    for each in module._modules.values():
        inner = None if each is None else _layers(each)
        if inner is None:
            return None
        found += inner
    return found
