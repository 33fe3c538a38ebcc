"""Modules, and lists of them: what they take and return, then one network of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from farfield.errors import SAMPLED, CaptureError, InputError, NotFollowed
from farfield.graph.assemble import build, from_reading
from farfield.graph.export import stated_constants
from farfield.graph.interface import Key, ModuleInputs
from farfield.graph.network import Network, join
from farfield.graph.outcome import agrees
from farfield.graph.radial import is_radial, read_radial
from farfield.graph.tracing import EXAMPLE_ROWS, Traced, read_script, trace

SaidHead = Literal["softmax", "sigmoid", "multilabel", "ordinal"]
HEADS = ("softmax", "sigmoid", "multilabel", "ordinal")


@dataclass(frozen=True)
class Asked:
    """What is said of a module's outputs: which tensor, what kind of head, which label."""

    output: Key | None = None
    head: SaidHead | None = None
    label: int | None = None

    def check(self) -> None:
        """Refuse what cannot be, and heads that have no logits of classes.

        Raises:
            InputError: For a head that is none, or a label of none.
            NotFollowed: For heads that farfield does not follow.
        """
        if self.head is not None and self.head not in HEADS:
            raise InputError(f"head must be one of {', '.join(HEADS)}; got {self.head!r}")
        if self.label is not None and self.head != "multilabel":
            raise InputError("label names one of several labels; say head='multilabel' with it")
        if self.head == "ordinal":
            raise NotFollowed(
                "the classes of an ordinal head have probabilities that are differences of "
                "sigmoids, which have no logits.",
                SAMPLED,
            )
        if self.head == "multilabel" and self.label is None:
            raise NotFollowed(
                "the labels of a multi-label model do not exclude one another: each is a "
                "classifier of its own; follow one at a time: head='multilabel', label=0.",
                SAMPLED,
            )

    def check_result(self, network: Network) -> None:
        """Hold the captured network against what was said.

        Raises:
            CaptureError: If it has another head.
        """
        if self.head == "sigmoid" and not network.one_logit:
            raise CaptureError(
                f"head='sigmoid' stands for one logit; the model has {network.classes} outputs. "
                "Say 'softmax' if they exclude one another, 'multilabel' with a label if not"
            )
        if self.head == "softmax" and network.one_logit:
            raise CaptureError("head='softmax' stands for several classes; the model has one logit")


def capture_modules(
    models: Sequence[nn.Module], example: Any, dtype: torch.dtype, asked: Asked | None = None
) -> Network:
    """Capture modules as the instances of one network."""
    asked = asked or Asked()
    asked.check()
    if example is None:
        raise InputError(
            f"{type(models[0]).__name__} does not know the shape of its input; pass an example, "
            "one batch of inputs: capture(model, X[:1])"
        )
    inputs = ModuleInputs.of(example)
    if len(models) == 1 and isinstance(models[0], torch.jit.ScriptModule):
        network = read_script(models[0], inputs.rows[:EXAMPLE_ROWS], dtype)
    else:
        modules = [inputs.around(model, asked.output, asked.label) for model in models]
        network = _together(modules, inputs.rows[:EXAMPLE_ROWS], dtype)
    asked.check_result(network)
    return _named(network, inputs.features(models[0]))


def _named(network: Network, features: tuple[str, ...] | None) -> Network:
    """Keep the names of columns."""
    if features is None or network.input_shape != (len(features),):
        return network
    columns = network.columns
    if columns is not None:
        named = zip(columns, features, strict=True)
        columns = tuple(replace(column, name=name) for column, name in named)
    return replace(network, features=features, columns=columns)


def _together(modules: Sequence[nn.Module], rows: Tensor, dtype: torch.dtype) -> Network:
    """Trace the first module; others of the same make only lend their weights, checked by value."""
    networks: list[Network] = []
    first: Traced | None = None
    for module in modules:
        if is_radial(module):
            networks.append(from_reading(read_radial(module), rows, dtype))
            continue
        lent = None if first is None else stated_constants(module, first.names)
        network = None
        if first is not None and lent is not None and repr(module) == repr(modules[0]):
            network = build(first.members[0].program, lent, first.head, dtype)
            network = replace(network, columns=first.network.columns)
            network = network if agrees(network, module, rows) else None
        if network is None:
            traced = trace(module, rows, dtype=dtype)
            network = traced.network
            first = traced if first is None and len(traced.members) == 1 else first
        networks.append(network)
    return networks[0] if len(networks) == 1 else join(networks)
