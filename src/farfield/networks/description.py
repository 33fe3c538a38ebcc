"""Modules as plain data: what a saved file says about a network besides its numbers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from farfield.errors import InputError
from farfield.networks.folding import AffineMap
from farfield.networks.rbf import RBFNetwork

Description = dict[str, Any]

_READ: dict[type[nn.Module], Callable[[Any], Description]] = {
    nn.Linear: lambda m: {
        "in_features": m.in_features,
        "out_features": m.out_features,
        "bias": m.bias is not None,
    },
    nn.ReLU: lambda _: {},
    nn.LeakyReLU: lambda m: {"negative_slope": m.negative_slope},
    nn.BatchNorm1d: lambda m: {"num_features": m.num_features, "eps": m.eps},
    AffineMap: lambda m: {"factor": list(m.factor.shape), "shift": list(m.shift.shape)},
    RBFNetwork: lambda m: {"centres": list(m.centres.shape), "classes": m.weight.shape[0]},
}

# Kinds in files that are not called what their classes are.
_NAMES: dict[type, str] = {AffineMap: "Affine"}
_BUILD: dict[str, Callable[..., nn.Module]] = {
    "Linear": nn.Linear,
    "ReLU": nn.ReLU,
    "LeakyReLU": nn.LeakyReLU,
    "BatchNorm1d": nn.BatchNorm1d,
    "Affine": lambda factor, shift: AffineMap(torch.empty(factor), torch.empty(shift)),
    "RBFNetwork": lambda centres, classes: RBFNetwork(
        torch.empty(centres), torch.empty(centres[1]), 1.0, torch.empty(classes, centres[0])
    ),
}


def describe(module: nn.Module) -> Description:
    """Describe a module; one that is not made of known layers is ``{"kind": "module"}``.

    Example:
        >>> describe(nn.Sequential(nn.ReLU()))
        {'kind': 'Sequential', 'layers': [{'kind': 'ReLU'}]}
    """
    if type(module) in _READ:
        return {
            "kind": _NAMES.get(type(module), type(module).__name__),
            **_READ[type(module)](module),
        }
    fixed = {
        name: describe(part) for name, part in module.named_modules() if isinstance(part, AffineMap)
    }
    foreign = {"kind": "module", "fixed": fixed}
    if type(module) is not nn.Sequential:
        return foreign
    layers = [describe(layer) for layer in module]
    unknown = [layer for layer in layers if layer["kind"] == "module"]
    # An affine map around a user's network is ours; any other mixture is the user's own.
    ours = len(unknown) == 1 and all(layer["kind"] in ("module", "Affine") for layer in layers)
    if unknown and not (ours and len(layers) > 1):
        return foreign
    return {"kind": "Sequential", "layers": layers}


def build(description: Description, factory: Callable[[], nn.Module] | None) -> nn.Module:
    """Build the module a description names, without numbers where torch allows it.

    Args:
        description: What ``describe`` returned.
        factory: Builds the part that is a user's own module.
    """
    options = dict(description)
    kind = options.pop("kind", None)
    if kind == "Sequential":
        return nn.Sequential(*[build(layer, factory) for layer in options["layers"]])
    if kind == "module":
        if factory is None:
            raise InputError("the network is not made of known layers; give the factory")
        with torch.device("cpu"), torch.random.fork_rng(devices=[]):
            module = factory()
        for name, part in options["fixed"].items():
            parent, _, leaf = name.rpartition(".")
            setattr(module.get_submodule(parent), leaf, build(part, None))
        return module
    if kind not in _BUILD:
        raise InputError(f"unknown layer {kind!r} in the file; it was not written by farfield")
    try:
        with torch.device("meta"):
            return _BUILD[kind](**options)
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        raise InputError(f"layer {kind!r} in the file cannot be built: {error}") from error
