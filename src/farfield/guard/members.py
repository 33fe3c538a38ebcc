"""The model inside of a guard: modules that run and export, and a network that is analysed."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from farfield.errors import CaptureError, InputError
from farfield.graph.export import evaluation_mode, module_dtype
from farfield.graph.models import capture
from farfield.graph.network import Network
from farfield.guard.program_module import ProgramModule, as_network, instance_modules


@dataclass(frozen=True, eq=False)
class Held:
    """A model as a guard holds it.

    Attributes:
        modules: One for each instance: the user's own where they return logits.
        network: The same in float64, for proofs; ``None`` if it could not be read.
        classes: Number of classes.
        one_logit: Whether the model has a single logit f, read as ``(0, f)``.
        input_shape: Of one row.
        reason: Why it could not be read.
    """

    modules: list[nn.Module]
    network: Network | None
    classes: int
    one_logit: bool
    input_shape: tuple[int, ...]
    reason: str = ""


def own_array(values: Any) -> Any:
    """Copy arrays that may not be written to, and tables, so that torch can take them up."""
    return values if isinstance(values, Tensor) else np.array(values)


def hold(model: Any, example: Tensor, *, unread: bool = False) -> Held:
    """Take up any model that :func:`farfield.capture` reads.

    Args:
        model: The model.
        example: A few rows.
        unread: Whether a module that cannot be read is taken as it is.
    """
    modules = _modules(model)
    try:
        network = capture(model, example)
    except CaptureError as error:
        if not unread or modules is None:
            raise
        return _unread(modules, example, str(error))
    network = _to_cpu(network)
    if modules is None or network.head != "none":
        programs = instance_modules(network)
        held: list[nn.Module] = list(programs)
        network = as_network(programs, network.classes, network.one_logit)
    else:
        held = [_frozen(module) for module in modules]
    return Held(held, network, network.classes, network.one_logit, network.input_shape)


def analysed(modules: Sequence[nn.Module], like: Held) -> Network:
    """The network that modules run now, whatever it was when they were taken up."""
    if like.network is None:
        raise CaptureError(f"the model could not be read: {like.reason}")
    programs = [module for module in modules if isinstance(module, ProgramModule)]
    if len(programs) == len(modules):
        return as_network(programs, like.classes, like.one_logit)
    return _to_cpu(capture(list(modules), torch.zeros(2, *like.input_shape)))


def _modules(model: Any) -> list[nn.Module] | None:
    """A model's own modules, if it is made of them."""
    found = getattr(model, "instances_", model)
    if isinstance(found, nn.Module):
        return [found]
    if isinstance(found, (list, tuple)) and all(isinstance(each, nn.Module) for each in found):
        return list(found)
    return None


def _frozen(module: nn.Module) -> nn.Module:
    """A copy in evaluation mode that does not train; gradients of inputs still flow."""
    return copy.deepcopy(module).cpu().eval().requires_grad_(False)


def _unread(modules: list[nn.Module], example: Tensor, reason: str) -> Held:
    """Take modules as they are; their outputs tell the number of classes."""
    held = [_frozen(module) for module in modules]
    rows = example[:2].cpu().to(module_dtype(held[0], example.dtype))
    with torch.no_grad(), evaluation_mode(held[0]):
        outputs = held[0](rows)
    if not isinstance(outputs, Tensor) or outputs.ndim > 2 or len(outputs) != len(rows):
        raise InputError("the model must return one row of logits per input: (rows, classes)")
    single = outputs.ndim == 1 or outputs.shape[1] == 1
    classes = 2 if single else outputs.shape[1]
    return Held(held, None, classes, single, tuple(example.shape[1:]), reason)


def _to_cpu(network: Network) -> Network:
    if network.device.type != "cpu":
        raise InputError(f"the model is on {network.device}; move it to the CPU to guard it")
    return network
