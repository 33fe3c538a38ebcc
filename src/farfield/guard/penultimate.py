"""A classifier as features and a last layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.graph.network import InstanceGroup, Network
from farfield.graph.program import Program, Ref, Step

aten = torch.ops.aten
SHAPES = (aten.alias.default, aten.view.default, aten.squeeze.dim, aten.squeeze.dims)


@dataclass(frozen=True, eq=False)
class Penultimate:
    """``logits = weight @ features + bias``.

    Attributes:
        features: A network whose outputs are the features.
        step: The name of the step that makes them.
        weight: ``(outputs, features)``, as the model has them: one output for a single logit.
        bias: ``(outputs,)``.
    """

    features: Network
    step: str
    weight: Tensor
    bias: Tensor


def split_last_layer(network: Network) -> Penultimate:
    """Take the last layer off a network of one instance.

    Raises:
        InputError: If the network has several instances, or does not end in a linear layer.

    >>> import farfield as ff
    >>> from torch import nn
    >>> net = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 3))
    >>> parts = split_last_layer(ff.capture(net, torch.zeros(1, 2)))
    >>> parts.features.classes, tuple(parts.weight.shape)
    (5, (3, 5))
    """
    if network.instances > 1:
        raise InputError(
            f"the network has {network.instances} instances, each with a last layer of its own; "
            "pass one of them"
        )
    group = network.groups[0]
    weights, made = group.instance(0), {step.name: step for step in group.program.steps}
    step = made.get(group.program.output)
    while step is not None and step.target in SHAPES and isinstance(step.args[0], Ref):
        step = made.get(step.args[0].name)
    found = None if step is None else _read(step, weights)
    if found is None:
        raise InputError("the network does not end in a linear layer, so it has no features")
    source, weight, bias = found
    program = _until(group.program, source, weight.shape[1])
    features = Network(
        (InstanceGroup(program, weights, {}, (0,)),),
        weight.shape[1],
        False,
        "none",
        network.dtype,
        network.device,
    )
    return Penultimate(features, source, weight, bias)


def _read(step: Step, weights: Mapping[str, Tensor]) -> tuple[str, Tensor, Tensor] | None:
    """The value, weight and bias of a linear step."""
    names = [arg.name if isinstance(arg, Ref) else None for arg in step.args]
    if step.target is aten.linear.default:
        value, weight = names[0], weights[names[1] or ""]
        bias = weights[names[2] or ""] if len(names) > 2 and names[2] else None
    elif step.target is aten.addmm.default and not step.kwargs:
        value, weight, bias = names[1], weights[names[2] or ""].T, weights[names[0] or ""]
    else:
        return None
    if value is None or weight.ndim != 2:
        return None
    return value, weight, weight.new_zeros(len(weight)) if bias is None else bias


def _until(program: Program, name: str, features: int) -> Program:
    """The steps that a value needs."""
    if name == program.input:
        alias = Step("features", aten.alias.default, (Ref(program.input),), shape=(-1, features))
        return replace(program, steps=(alias,), output=alias.name, output_shape=(features,))
    needed, kept = {name}, []
    for step in reversed(program.steps):
        if step.name in needed:
            kept.append(step)
            needed.update(step.refs())
    return replace(program, steps=tuple(reversed(kept)), output=name, output_shape=(features,))
