"""Fold scales and shifts of channels into the convolutions before them: fewer steps to bound.

A folded weight is rounded once more. ``gamma(terms)`` has room for that and for the shift.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from farfield.graph.program import Program, Ref, Step

aten = torch.ops.aten
ALIASES = (aten.alias.default, aten.detach.default)


def fold_scales(
    program: Program, constants: Mapping[str, Tensor]
) -> tuple[Program, dict[str, Tensor]]:
    """Rewrite a program whose convolutions are scaled, then shifted, channel by channel.

    Args:
        program: The network; programs of single rows stay as they are.
        constants: Its weights.

    Returns:
        A program with the same values, and its weights.
    """
    if program.per_row:
        return program, dict(constants)
    folder = _Folder(program, constants)
    steps = [step for step in program.steps if not folder.fold(step)]
    found = [folder.latest(step) for step in steps]
    output = folder.names.get(program.output, program.output)
    return program.with_steps(tuple(found), output), folder.constants


class _Folder:
    """Remembers which convolutions have become what."""

    def __init__(self, program: Program, constants: Mapping[str, Tensor]) -> None:
        self.constants = dict(constants)
        self.uses = Counter(name for step in program.steps for name in step.refs())
        self.uses[program.output] += 1
        self.names: dict[str, str] = {}
        self.convolutions: dict[str, Step] = {}

    def fold(self, step: Step) -> bool:
        """Whether a step has become part of one before it."""
        if step.target is aten.convolution.default and not step.kwargs and not step.args[6]:
            self.convolutions[step.name] = step
            return False
        if step.kwargs or not step.args or not isinstance(step.args[0], Ref):
            return False
        own = self.names.get(step.args[0].name, step.args[0].name)
        if own not in self.convolutions or self.uses[step.args[0].name] > 1:
            return False
        if step.target not in ALIASES and not self._fold(own, step):
            return False
        self.names[step.name] = own
        return True

    def _fold(self, own: str, step: Step) -> bool:
        convolution = self.convolutions[own]
        data, weight, bias, *rest = convolution.args
        if bias is not None or not isinstance(weight, Ref) or weight.name not in self.constants:
            return False
        channels = self._channels(step, len(self.constants[weight.name]))
        if channels is None:
            return False
        fresh = Ref(f"{step.name}/folded")
        if step.target is aten.mul.Tensor:
            scale = channels.reshape(-1, *[1] * (self.constants[weight.name].ndim - 1))
            self.constants[fresh.name] = self.constants[weight.name] * scale
            weight = fresh
        elif step.target is aten.add.Tensor:
            self.constants[fresh.name] = channels
            bias = fresh
        else:
            return False
        self.convolutions[own] = replace(convolution, args=(data, weight, bias, *rest))
        return True

    def _channels(self, step: Step, count: int) -> Tensor | None:
        """One number for each channel, if that is what a step has."""
        other = step.args[1] if len(step.args) == 2 else None
        if not isinstance(other, Ref) or other.name not in self.constants or step.shape is None:
            return None
        value, spatial = self.constants[other.name], len(step.shape) - 2
        if value.shape[-spatial - 1 :] != (count, *[1] * spatial) or value.numel() != count:
            return None
        return value.reshape(-1)

    def latest(self, step: Step) -> Step:
        """A step as it is in the end, with the names that values have in the end."""
        step = self.convolutions.get(step.name, step)
        table = {name: Ref(self.names.get(name, name)) for name in step.refs()}
        args, kwargs = step.bind(table)
        return replace(step, args=args, kwargs=kwargs)
