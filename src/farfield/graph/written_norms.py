"""Layer and RMS norms that people and exporters write out, put together again.

Before version 17 ONNX had no layer norm, so files say ``(x - mean(x)) / sqrt(mean((x - mean(x))^2)
+ epsilon)``, then a product with weights and a sum. Put together, what stands behind it is known to
be of bounded length, and fewer steps are walked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from farfield.graph.program import Program, Ref, Step

aten = torch.ops.aten
SQUARES = (aten.square.default, aten.pow.Tensor_Scalar, aten.mul.Tensor)
DIVIDES = (aten.div.Tensor, aten.mul.Tensor)


def read_norms(program: Program, constants: Mapping[str, Tensor]) -> Program:
    """Replace written-out norms over the last dimension by the norms themselves."""
    if not any(_is_mean(step) for step in program.steps):
        return program
    return program.with_steps(_NormReader(program, constants).steps())


def _is_mean(step: Step | None) -> bool:
    """Whether a step is the mean over the last dimension, which stays."""
    if step is None or step.target is not aten.mean.dim or not step.shape or len(step.args) < 3:
        return False
    dims = step.args[1]
    return dims is not None and list(dims) in ([-1], [len(step.shape) - 1]) and bool(step.args[2])


class _NormReader:
    """Goes through a program once; looks back at what quotients are made of."""

    def __init__(self, program: Program, constants: Mapping[str, Tensor]) -> None:
        self._program = program
        self._constants = constants
        self._made = {step.name: step for step in program.steps}
        self._uses = Counter(name for step in program.steps for name in step.refs())
        self._uses[program.output] += 1

    def steps(self) -> tuple[Step, ...]:
        """The steps of the rewritten program."""
        for step in self._program.steps:
            found = self._weighed(step) or self._norm(step)
            if found is not None:
                self._made[step.name] = found
        return tuple(self._made.values())

    def _step(self, item: Any) -> Step | None:
        return self._made.get(item.name) if isinstance(item, Ref) else None

    def _number(self, item: Any) -> float | None:
        """The number that an argument is."""
        if isinstance(item, Ref):
            held = self._constants.get(item.name)
            return float(held) if held is not None and held.numel() == 1 else None
        return float(item) if isinstance(item, (int, float)) else None

    def _norm(self, step: Step) -> Step | None:
        """``d / sqrt(mean(d^2) + epsilon)``, however the quotient is written."""
        if step.target not in DIVIDES or not step.shape or len(step.args) != 2:
            return None
        turned = step.target is aten.mul.Tensor
        for value, size in (step.args, step.args[::-1]) if turned else (step.args,):
            epsilon = self._deviation(self._step(size), value, inverse=turned)
            if epsilon is not None:
                return self._written(step, value, epsilon)
        return None

    def _deviation(self, step: Step | None, value: Any, *, inverse: bool) -> float | None:
        """The epsilon of the root of the mean square of a value, or of one over it."""
        if step is None:
            return None
        if inverse and step.target is aten.reciprocal.default:
            return self._deviation(self._step(step.args[0]), value, inverse=False)
        if step.target is not (aten.rsqrt.default if inverse else aten.sqrt.default):
            return None
        total = self._step(step.args[0])
        if total is None or total.target is not aten.add.Tensor or total.kwargs:
            return None
        mean, epsilon = self._step(total.args[0]), self._number(total.args[1])
        if epsilon is None or not epsilon > 0 or mean is None or not _is_mean(mean):
            return None
        return epsilon if self._is_square(self._step(mean.args[0]), value) else None

    def _is_square(self, step: Step | None, value: Any) -> bool:
        if step is None or step.target not in SQUARES or step.args[0] != value:
            return False
        if step.target is aten.mul.Tensor:
            return bool(step.args[1] == value)
        return step.target is aten.square.default or self._number(step.args[1]) == 2

    def _written(self, step: Step, value: Any, epsilon: float) -> Step:
        """A layer norm where the value was centred before, else an RMS norm."""
        shape = [(step.shape or ())[-1]]
        centred = self._step(value)
        if centred is not None and centred.target is aten.sub.Tensor and not centred.kwargs:
            mean = self._step(centred.args[1])
            if mean is not None and _is_mean(mean) and mean.args[0] == centred.args[0]:
                args = (centred.args[0], shape, None, None, epsilon)
                return replace(step, target=aten.layer_norm.default, args=args)
        return replace(step, target=aten.rms_norm.default, args=(value, shape, None, epsilon))

    def _weighed(self, step: Step) -> Step | None:
        """A norm and the weights behind it, if nobody else reads it."""
        if step.target not in (aten.mul.Tensor, aten.add.Tensor) or step.kwargs:
            return None
        for value, weight in (step.args[:2], step.args[:2][::-1]):
            norm = self._step(value)
            if norm is None or self._uses[norm.name] > 1 or not self._fits(norm, weight):
                continue
            layer = norm.target is aten.layer_norm.default
            plain = norm.args[3] is None if layer else True
            if step.target is aten.mul.Tensor and norm.args[2] is None and plain:
                args = (*norm.args[:2], weight, *norm.args[3:])
            elif step.target is aten.add.Tensor and layer and plain:
                args = (*norm.args[:3], weight, *norm.args[4:])
            else:
                continue
            return replace(step, target=norm.target, args=args)
        return None

    def _fits(self, norm: Step, weight: Any) -> bool:
        """Whether a step is a norm, and a constant has one number for each of its features."""
        if norm.target not in (aten.layer_norm.default, aten.rms_norm.default):
            return False
        held = self._constants.get(weight.name) if isinstance(weight, Ref) else None
        return held is not None and list(held.shape) == list(norm.args[1]) and len(norm.args) > 3
