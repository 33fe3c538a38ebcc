"""The end of a model that is affine in probabilities, and what it makes of them.

Between the last softmaxes and sigmoids and the output there are stacks, sums, means, slices and
complements. They are not matched as text but run, with numbers in place of the probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from farfield.errors import CaptureError
from farfield.graph.affine import convert
from farfield.graph.program import FREE, Program, Step
from farfield.graph.rules import RULES
from farfield.graph.stepwise import apply_row

aten = torch.ops.aten
SOFTMAXES = (aten.softmax.int, aten._softmax.default)
# With more members or classes than these, what sigmoids are put into is a hidden layer, no head.
MOST_MEMBERS, MOST_NUMBERS = 2**10, 2**16
PROBES = 16


@dataclass(frozen=True)
class Group:
    """One distribution among the values of a step: a row of a softmax, or one sigmoid.

    Attributes:
        step: What makes it: a softmax, a sigmoid, or a tanh, which is ``2 sigmoid(2 f) - 1``.
        place: Which of the step's groups it is.
        size: How many numbers it has; 1 for a sigmoid.
        count: How many groups the step has.
    """

    step: Step
    place: int
    size: int
    count: int


@dataclass(frozen=True)
class Tail:
    """The affine steps between the last probabilities and the output of a program.

    Attributes:
        program: The whole.
        steps: The steps of the tail.
        groups: The distributions that it begins with, in the order of the program.
        constants: The weights.
    """

    program: Program
    steps: tuple[Step, ...]
    groups: tuple[Group, ...]
    constants: Mapping[str, Tensor]

    @classmethod
    def of(
        cls, program: Program, constants: Mapping[str, Tensor], *, shares: bool = False
    ) -> Tail | None:
        """Follow the output back to softmaxes and sigmoids; ``None`` if anything else is met.

        With ``shares``, functions of rows that always give shares are met as well.
        """
        made = {step.name: step for step in program.steps}
        names: set[str] = set()
        atoms: set[str] = set()
        pending = [program.output]
        while pending:
            step = made.get(pending.pop())
            if step is None or step.name in names or step.name in atoms:
                continue
            if not step.constant and (_is_atom(step) or (shares and gives_shares(step))):
                atoms.add(step.name)
                continue
            if not step.constant and not _is_affine(step, made, program.input):
                return None
            names.add(step.name)
            pending.extend(step.refs())
        ends = [step for step in program.steps if step.name in atoms]
        counts = [_count(step) for step in ends]
        numbers = sum(count * size for count, size in counts)
        if not ends or sum(count for count, _ in counts) > MOST_MEMBERS or numbers > MOST_NUMBERS:
            return None
        groups = tuple(
            Group(step, place, size, count)
            for step, (count, size) in zip(ends, counts, strict=True)
            for place in range(count)
        )
        steps = tuple(step for step in program.steps if step.name in names)
        wide = {
            name: tensor.double() if tensor.is_floating_point() else tensor
            for name, tensor in constants.items()
        }
        return cls(program, steps, groups, wide)

    def run(self, values: Sequence[Tensor]) -> Tensor | None:
        """The output for given probabilities of every group, ``(rows, outputs)``."""
        rows = len(values[0])
        environment: dict[str, Any] = dict(self.constants)
        source = values[0].new_zeros(1).expand(rows, *self.program.input_shape)
        environment[self.program.input] = source
        by_step: dict[str, list[Tensor]] = {}
        for group, value in zip(self.groups, values, strict=True):
            by_step.setdefault(group.step.name, []).append(value)
        for step in {group.step.name: group.step for group in self.groups}.values():
            environment[step.name] = _shaped(step, torch.stack(by_step[step.name], dim=1))
        try:
            for step in self.steps:
                args, kwargs = step.bind(environment)
                rule = RULES.get(step.target)
                same = rule is not None and rule.lower is convert and not step.constant
                environment[step.name] = args[0] if same else step.target(*args, **kwargs)
            result: Tensor = environment[self.program.output]
            return result.double().reshape(rows, -1)
        except (RuntimeError, TypeError, KeyError):  # a program that was traced with fixed rows
            return None

    def probe(self) -> Tensor | None:
        """The output for random probabilities, and for some that are 0 or 1."""
        generator = torch.Generator().manual_seed(0)
        values = []
        for group in self.groups:
            drawn = torch.rand(PROBES, group.size, generator=generator, dtype=torch.float64)
            if group.size > 1:
                drawn = drawn / drawn.sum(dim=1, keepdim=True)
            limit = drawn[::2].amax(dim=1, keepdim=True) if group.size > 1 else 0.5
            drawn[::2] = (drawn[::2] >= limit).double()
            values.append(drawn)
        return self.run([value.to(self.device) for value in values])

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return next((each.device for each in self.constants.values()), torch.device("cpu"))

    def alone(self, values: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """What each group adds on its own, ``(groups, outputs)``, and what is there without."""
        count = len(self.groups)
        rows = [value.new_zeros(count + 1, len(value)) for value in values]
        for place, value in enumerate(values):
            rows[place][place] = value
        outputs = self.run(rows)
        assert outputs is not None, "it ran on the probes"
        return outputs[:-1] - outputs[-1], outputs[-1]


def _is_atom(step: Step) -> bool:
    """Whether a step makes probabilities: softmax over anything but the rows, sigmoid, tanh."""
    if step.shape is None or step.shape[:1] != (FREE,) or FREE in step.shape[1:]:
        return False
    if step.target in SOFTMAXES:
        return len(step.shape) > 1 and step.args[1] % len(step.shape) != 0
    return step.target in (aten.sigmoid.default, aten.tanh.default)


def gives_shares(step: Step) -> bool:
    """Whether a step is a function of rows whose outputs are always shares: a forest."""
    return step.target is apply_row and bool(step.args[1].shares)


def _is_affine(step: Step, made: Mapping[str, Step], source: str) -> bool:
    rule = RULES.get(step.target)
    if rule is None or rule.kind not in ("copy", "affine"):
        return False
    varying = [
        name for name in step.refs() if name == source or (name in made and not made[name].constant)
    ]
    return source not in varying and (rule.together or len(varying) <= 1)


def _count(step: Step) -> tuple[int, int]:
    """How many distributions a step makes, and how many numbers each has; 1 for a sigmoid."""
    shape = (step.shape or ())[1:]
    if step.target is apply_row:
        return 1, math.prod(shape)
    if step.target not in SOFTMAXES:
        return math.prod(shape), 1
    size = shape[step.args[1] % (len(shape) + 1) - 1]
    if size < 2:
        raise CaptureError("the model ends in a softmax over one class, which is always 1")
    return math.prod(shape) // size, size


def _shaped(step: Step, parts: Tensor) -> Tensor:
    """Groups ``(rows, groups, size)`` as the step's own result."""
    shape = (step.shape or ())[1:]
    if step.target in SOFTMAXES:
        place = step.args[1] % (len(shape) + 1) - 1
        rest = (*shape[:place], *shape[place + 1 :], shape[place])
        return parts.reshape(len(parts), *rest).movedim(-1, place + 1)
    values = parts.reshape(len(parts), *shape)
    return 2 * values - 1 if step.target is aten.tanh.default else values
