"""The head of a model: what makes probabilities of its logits, taken off so that these remain.

A classifier may end in a softmax or a sigmoid, in ``cat([1 - p, p])``, in a mean over the softmaxes
of an ensemble, or in a weighted sum of these. However it is written, the :class:`Tail` says what it
is: a mixture of the members' own distributions, or none. Probabilities of instances are averaged,
so each member of a mixture becomes an instance. A distribution that is no such mixture is refused:
probabilities must never be taken for logits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from farfield.errors import SAMPLED, CaptureError, NotFollowed
from farfield.graph.mixtures import times
from farfield.graph.program import Program, Ref, Step, taint
from farfield.graph.tail import Group, Tail, gives_shares

aten = torch.ops.aten
Head = Literal["none", "softmax", "log-softmax", "sigmoid"]

LOG_SOFTMAXES = (aten.log_softmax.int, aten._log_softmax.default)
SHAPES = (
    aten.view.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.squeeze.default,
    aten.unsqueeze.default,
    aten.clone.default,
    aten.alias.default,
    aten._to_copy.default,
)
# Weights of a mixture are often rounded to float32.
TOLERANCE = 1e-5
WHAT_TO_DO = (
    "They must not be taken for logits: return the logits, or pass the members of an ensemble as a "
    f"list. {SAMPLED}"
)


@dataclass(frozen=True)
class Member:
    """One distribution of a mixture: its logits, and how many of the instances it is."""

    program: Program
    times: int = 1


def take_off(program: Program, constants: Mapping[str, Tensor]) -> tuple[Head, tuple[Member, ...]]:
    """Find the members of the mixture that a program ends in; itself, if it ends in logits.

    Raises:
        NotFollowed: If it ends in probabilities that are no mixture of its members' own.
    """
    plain, logged = _without_log(taint(_merged(program)))
    tail = Tail.of(plain, constants)
    outputs = None if tail is None else tail.probe()
    if tail is None or outputs is None or not _within(outputs):
        return "none", (Member(program),)
    classes = outputs.shape[1]
    if classes == 1 and (logged or _may_leave(tail)):
        return "none", (Member(program),)
    if classes > 1 and not _sums_to_one(outputs):
        _refuse_separate_sigmoids(tail, classes)
        return "none", (Member(program),)
    found = _softmaxes(tail, classes)
    head: Head = "softmax"
    if not found:
        head, found = "sigmoid", _sigmoids(tail, classes)
    if not found:
        raise NotFollowed(
            "the model returns probabilities: its output is made of softmaxes or sigmoids, always "
            f"lies between 0 and 1{', and adds up to 1' if classes > 1 else ''}, but is no mean of "
            "them.",
            WHAT_TO_DO,
        )
    counts = times([weight for weight, _ in found])
    members = [Member(each, count) for (_, each), count in zip(found, counts, strict=True) if count]
    return "log-softmax" if logged else head, tuple(members)


def is_distribution(program: Program, constants: Mapping[str, Tensor]) -> bool:
    """Whether the output of a program is a distribution by the way it is made."""
    tail = Tail.of(taint(_merged(program)), constants, shares=True)
    outputs = None if tail is None else tail.probe()
    return outputs is not None and _within(outputs) and _sums_to_one(outputs)


def is_made_of_shares(program: Program, constants: Mapping[str, Tensor]) -> bool:
    """Whether a program ends in a distribution that trees make, which has no logits."""
    return any(map(gives_shares, program.steps)) and is_distribution(program, constants)


def _within(outputs: Tensor) -> bool:
    return bool(((outputs >= -TOLERANCE) & (outputs <= 1 + TOLERANCE)).all())


def _sums_to_one(outputs: Tensor) -> bool:
    return bool(((outputs.sum(dim=1) - 1).abs() <= TOLERANCE).all())


def _merged(program: Program) -> Program:
    """Compute equal things once, and read ``exp(log_softmax(z))`` as the softmax that it is."""
    made: dict[str, Step] = {}
    first: dict[str, str] = {}
    names = {program.output: Ref(program.output)}
    for step in program.steps:
        args, kwargs = step.bind({name: names.get(name, Ref(name)) for name in step.refs()})
        read = replace(step, args=args, kwargs=kwargs)
        inner = made.get(args[0].name) if args and isinstance(args[0], Ref) else None
        if step.target is aten.exp.default and inner is not None and inner.target in LOG_SOFTMAXES:
            read = replace(read, target=aten.softmax.int, args=inner.args[:2], kwargs={})
        key = repr((str(read.target), read.args, sorted(read.kwargs.items())))
        if key in first and not _is_random(step):
            names[step.name] = Ref(first[key])
            continue
        first[key] = step.name
        made[step.name] = read
    return program.with_steps(tuple(made.values()), output=names[program.output].name)


def _is_random(step: Step) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(step.target, "tags", ())


def _without_log(program: Program) -> tuple[Program, bool]:
    """Take a final logarithm off, also below a change of shape and inside of a log-softmax."""
    made = {step.name: step for step in program.steps}
    last = made.get(program.output)
    while last is not None and last.target in SHAPES and isinstance(last.args[0], Ref):
        last = made.get(last.args[0].name)
    if last is None or last.target not in (aten.log.default, *LOG_SOFTMAXES):
        return program, False
    if last.target is aten.log.default:
        inner = replace(last, target=aten.alias.default)
    else:
        inner = replace(last, target=aten.softmax.int, args=last.args[:2], kwargs={})
    steps = tuple(inner if step is last else step for step in program.steps)
    return program.with_steps(steps), True


def _softmaxes(tail: Tail, classes: int) -> list[tuple[float, Program]]:
    """Weights and logits, if the output is a weighted sum of softmaxes over the classes."""
    if any(group.size != classes or classes < 2 for group in tail.groups):
        return []
    values = torch.linspace(0.1, 1.0, classes, dtype=torch.float64, device=tail.device)
    added, rest = tail.alone([values] * len(tail.groups))
    weights = added.sum(dim=1) / values.sum()
    off = (added - weights[:, None] * values).abs().max()
    if bool((weights < -TOLERANCE).any()) or max(off, rest.abs().max()) > TOLERANCE:
        return []
    writer = _Writer(tail.program)
    return [
        (float(weight), writer.program(writer.logits(group), classes))
        for weight, group in zip(weights, tail.groups, strict=True)
    ]


def _sigmoids(tail: Tail, classes: int) -> list[tuple[float, Program]]:
    """Weights and single logits, if the second of two classes is a weighted mean of shares.

    A softmax over two classes is the sigmoid of the difference of its logits.
    """
    if classes > 2 or any(group.size > 2 for group in tail.groups):
        return []
    one = torch.ones(1, dtype=torch.float64, device=tail.device)
    second = [one if group.size == 1 else torch.cat([0 * one, one]) for group in tail.groups]
    first = [0 * one if group.size == 1 else torch.cat([one, 0 * one]) for group in tail.groups]
    added, rest = tail.alone(second)
    lower, _ = tail.alone(first)
    slopes = (added - lower)[:, -1]
    offset = float(rest[-1] + lower[:, -1].sum() + slopes.clamp(max=0).sum())
    if abs(offset) > TOLERANCE or abs(float(slopes.abs().sum()) - 1) > TOLERANCE:
        return []
    writer = _Writer(tail.program)
    return [
        (abs(float(slope)), writer.program(writer.logit(group, negative=slope < 0), 1))
        for slope, group in zip(slopes, tail.groups, strict=True)
    ]


def _may_leave(tail: Tail) -> bool:
    """Whether a single output made of sigmoids leaves the range from 0 to 1: then it is a logit."""
    if any(group.size > 1 for group in tail.groups):
        return False
    ones = [torch.ones(1, dtype=torch.float64, device=tail.device)] * len(tail.groups)
    added, rest = tail.alone(ones)
    low = float(rest + added.clamp(max=0).sum())
    high = float(rest + added.clamp(min=0).sum())
    return low < -TOLERANCE or high > 1 + TOLERANCE


def _refuse_separate_sigmoids(tail: Tail, classes: int) -> None:
    """Refuse outputs that are each one sigmoid of its own."""
    if any(group.size > 1 for group in tail.groups):
        return
    ones = [torch.ones(1, dtype=torch.float64, device=tail.device)] * len(tail.groups)
    added = tail.alone(ones)[0].abs()
    plain = ((added <= TOLERANCE) | ((added - 1).abs() <= TOLERANCE)).all()
    if bool(plain) and bool((added.sum(dim=0).round() == 1).all()):
        raise CaptureError(
            f"the model ends in {classes} independent sigmoids (multi-label); farfield reads "
            "classifiers whose classes exclude one another: follow one label at a time, with "
            "head='multilabel' and label=0, 1, ..."
        )


class _Writer:
    """Writes the logits of single groups behind a program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._steps: list[Step] = []

    def program(self, logits: tuple[Ref, tuple[int, ...]], classes: int) -> Program:
        """The program with some logits as its output."""
        name, shape = logits[0].name, logits[1]
        assert classes == 1 or shape == (classes,)
        steps = (*self._program.steps, *self._steps)
        return replace(self._program, steps=steps, output=name, output_shape=shape)

    def logits(self, group: Group) -> tuple[Ref, tuple[int, ...]]:
        """What a softmax is taken of, ``(rows, classes)``."""
        step, value = group.step, group.step.args[0]
        shape = (step.shape or ())[1:]
        if shape == (group.size,):
            return value, shape
        place = step.args[1] % (len(shape) + 1)
        if group.count > 1:
            order = [each for each in range(len(shape) + 1) if each != place]
            value = self._emit(step, aten.permute.default, value, [*order, place])
        value = self._emit(step, aten.clone.default, value, memory_format=torch.contiguous_format)
        if group.count == 1:
            return self._emit(step, aten.view.default, value, [-1, group.size]), (group.size,)
        value = self._emit(step, aten.view.default, value, [-1, group.count, group.size])
        return self._emit(step, aten.select.int, value, 1, group.place), (group.size,)

    def logit(self, group: Group, *, negative: bool) -> tuple[Ref, tuple[int, ...]]:
        """What a sigmoid is taken of, ``(rows, 1)``, or one number per row."""
        step, value = group.step, group.step.args[0]
        shape = (step.shape or ())[1:]
        if group.size == 2:
            both, _ = self.logits(group)
            low = self._emit(step, aten.slice.Tensor, both, 1, 0, 1)
            high = self._emit(step, aten.slice.Tensor, both, 1, 1, 2)
            value, shape = self._emit(step, aten.sub.Tensor, high, low), (1,)
        elif shape not in ((), (1,)):
            form = torch.contiguous_format
            value = self._emit(step, aten.clone.default, value, memory_format=form)
            value = self._emit(step, aten.view.default, value, [-1, group.count])
            place = group.place
            value = self._emit(step, aten.slice.Tensor, value, 1, place, place + 1)
            shape = (1,)
        if step.target is aten.tanh.default:  # tanh(f) = 2 sigmoid(2 f) - 1
            value = self._emit(step, aten.mul.Tensor, value, 2.0)
        if negative:
            value = self._emit(step, aten.neg.default, value)
        return value, shape

    def _emit(self, like: Step, target: Any, *args: Any, **kwargs: Any) -> Ref:
        name = f"logits/{len(self._steps)}"  # no traced name has a slash
        step = Step(name, target, args, kwargs, source=like.source)
        self._steps.append(step)
        return Ref(name)
