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
# What may lie between the last linear layer and the output: shapes, and probabilities of logits.
AFTER = (
    aten.alias.default,
    aten.view.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.softmax.int,
    aten._softmax.default,
    aten.log_softmax.int,
    aten._log_softmax.default,
    aten.sigmoid.default,
)


@dataclass(frozen=True, eq=False)
class LastLayer:
    """A program's last linear layer.

    Attributes:
        reads: The name of the value that it reads: the features.
        weight: ``(outputs, features)``.
        bias: ``(outputs,)``.
    """

    reads: str
    weight: Tensor
    bias: Tensor


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
    if network.link != "softmax":
        raise InputError("the model gives probabilities and no logits, so it has no last layer")
    if network.instances > 1:
        raise InputError(
            f"the network has {network.instances} instances, each with a last layer of its own; "
            "pass one of them"
        )
    group = network.groups[0]
    weights = group.instance(0)
    found = last_layer(group.program, weights)
    if found is None:
        raise InputError("the network does not end in a linear layer, so it has no features")
    count = found.weight.shape[1]
    features = Network(
        (InstanceGroup(_until(group.program, found.reads, count), weights, {}, (0,)),),
        count,
        False,
        "none",
        network.dtype,
        network.device,
    )
    return Penultimate(features, found.reads, found.weight, found.bias)


def last_layer(program: Program, weights: Mapping[str, Tensor]) -> LastLayer | None:
    """The linear layer that a program ends in, if it does."""
    made = {step.name: step for step in program.steps}
    step = made.get(program.output)
    while step is not None and step.target in AFTER and isinstance(step.args[0], Ref):
        step = made.get(step.args[0].name)
    return None if step is None else _read(step, weights)


def _read(step: Step, weights: Mapping[str, Tensor]) -> LastLayer | None:
    """A linear step, if it is one."""
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
    return LastLayer(value, weight, weight.new_zeros(len(weight)) if bias is None else bias)


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
