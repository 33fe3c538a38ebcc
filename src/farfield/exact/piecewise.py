"""Programs made ready for analyses that cut their rows: piecewise affine, rows free to multiply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from farfield.errors import InputError, UnsupportedOperation
from farfield.graph.growth import Growth
from farfield.graph.network import InstanceGroup, Network
from farfield.graph.program import FREE, SIZE, Program, Ref, Step
from farfield.graph.rules import RULES, Pieces, RowFunction, Smooth, Steps

aten = torch.ops.aten
# What functions are called whose pieces do not meet.
JUMPING = ("steps", "jumps")
VIEWS = (aten.view.default, aten._unsafe_view.default)
V = TypeVar("V")


class OnlyPieces(Generic[V]):
    """A domain whose programs were looked through: what has no pieces that meet cannot occur."""

    def refused(self, what: str) -> Exception:
        """What is raised where it occurs nonetheless."""
        return AssertionError(f"{what} are refused before the walk")

    def steps(self, value: V, steps: Steps) -> V:
        """Steps are refused."""
        raise self.refused("steps")

    def choice(self, mask: V, yes: V, no: V) -> V:
        """Choices are refused."""
        raise self.refused("choices")

    def row_function(self, value: V, function: RowFunction) -> V:
        """Functions of rows are refused."""
        raise self.refused("functions of rows")

    def smooth(self, value: V, curve: Smooth) -> V:
        """Smooth functions are refused."""
        raise self.refused("smooth functions")

    def grow(self, operation: Growth, *values: V) -> V:
        """What changes growth is refused."""
        raise self.refused("operations that change growth")


def require_piecewise_affine(network: Network, analysis: str, *, continuous: bool = False) -> None:
    """List every operation without affine pieces in one error.

    What stands behind steps is at rest between their jumps, so that anything may be done with it.

    Args:
        network: The network to look at.
        analysis: Who needs the pieces, for the message.
        continuous: Whether pieces must meet, too.

    Raises:
        UnsupportedOperation: With the place of each operation that stands in the way.
    """
    problems: dict[tuple[str, str], str] = {}
    for group in network.groups:
        for step, reason in _obstacles(group, continuous=continuous):
            problems[step.operation, str(step.source)] = reason
    if not problems:
        return
    width = max(len(operation) for operation, _ in problems)
    lines = "\n".join(
        f"  {operation:<{width}}  in {where}: {reason}"
        for (operation, where), reason in problems.items()
    )
    raise UnsupportedOperation(
        f"{analysis} needs {'continuous ' if continuous else ''}affine pieces, and "
        f"{len(problems)} operation{'s have' if len(problems) > 1 else ' has'} none:\n{lines}",
        "Use at_infinity, which knows their limits, or a network with ReLU-like activations.",
    )


def has_jumps(group: InstanceGroup) -> bool:
    """Whether pieces of instances do not always meet: steps, or activations that jump."""
    return any(reason in JUMPING for _, reason in _obstacles(group, continuous=True))


def _obstacles(group: InstanceGroup, *, continuous: bool) -> Iterator[tuple[Step, str]]:
    """Operations on what moves that have no affine pieces, and what they are instead."""
    constants = group.instance(0)
    moving = {group.program.input}
    for step in group.program.steps:
        if step.constant or not moving.intersection(step.refs()):
            continue
        reason = _obstacle(group.program, step, constants, continuous)
        if reason is not None and (reason != "steps" or continuous):
            yield step, reason
        if reason != "steps":
            moving.add(step.name)


class _Recorder:
    """A domain that only looks at the functions it is given."""

    def piecewise(self, _: Any, pieces: Pieces) -> Pieces:
        return pieces

    def smooth(self, _: Any, curve: Smooth) -> Smooth:
        return curve


def function_of(program: Program, step: Step, constants: Mapping[str, Tensor]) -> Any:
    """The function that a piecewise-affine or smooth operation applies to every element."""
    value = SimpleNamespace(shape=step.shape)
    args, kwargs = step.bind({name: constants.get(name, value) for name in step.refs()})
    recorder: Any = _Recorder()
    return program.lower(step, recorder, args, kwargs)


def _obstacle(
    program: Program, step: Step, constants: Mapping[str, Tensor], continuous: bool
) -> str | None:
    """Why an operation cannot be followed, if it cannot."""
    rule = RULES[step.target]
    if rule.kind in ("smooth", "steps", "row function", "growth"):
        return rule.kind
    if rule.kind == "choice" and continuous:
        return "jumps"
    if rule.kind != "piecewise affine" or not continuous:
        return None
    return "jumps" if jumps(function_of(program, step, constants)) else None


def jumps(pieces: Pieces) -> bool:
    """Whether neighbouring pieces do not meet."""
    for index, threshold in enumerate(pieces.thresholds):
        ends: list[Tensor | float] = []
        for place in (index, index + 1):
            slope, intercept = pieces.slopes[place], pieces.intercepts[place]
            if isinstance(slope, Tensor):
                ends.append(slope * float(threshold) + float(intercept))
            else:
                ends.append(float(slope * threshold + intercept))
        if bool(torch.as_tensor(ends[0] != ends[1]).any()):
            return True
    return False


def output_classes(network: Network, parts: Tensor) -> Tensor:
    """Give outputs of jets, ``(numbers, rows, ...)`` with values last, their classes.

    Raises:
        UnsupportedOperation: If they are probabilities that change: their logits are not affine.
    """
    classes = network.as_classes(parts)
    if network.link == "identity" and (bool((classes[:-1] != 0).any()) or classes.requires_grad):
        raise UnsupportedOperation(
            "the model's outputs are probabilities that change within a region, so that it has no "
            "logits with affine pieces; use at_infinity"
        )
    return classes if network.link == "softmax" else classes.clamp(0.0, 1.0)


def output_logits(network: Network, parts: Tensor) -> Tensor:
    """Do the same, and take logarithms of probabilities: minus infinity for none."""
    classes = output_classes(network, parts)
    if network.link == "softmax":
        return classes
    return torch.cat([classes[:-1], torch.log(classes[-1:])])


def pick_instance(network: Network, instance: int | None) -> tuple[Program, dict[str, Tensor]]:
    """The program of one instance, and its constants.

    Raises:
        InputError: If there are several instances and none was named, or no such instance.
    """
    count = network.instances
    if instance is None:
        if count > 1:
            raise InputError(
                f"the network has {count} instances and each has regions of its own; say which "
                f"with instance=0 to instance={count - 1}"
            )
        instance = 0
    if not 0 <= instance < count:
        raise InputError(f"instance={instance}, but the network has {count}: 0 to {count - 1}")
    group = next(group for group in network.groups if instance in group.members)
    return group.program, group.instance(group.members.index(instance))


def free_rows(program: Program) -> Program:
    """Rewrite a program so that no step remembers how many rows an earlier value had.

    Shapes infer the number of rows; constants with a row for each row get a single one.
    """
    rows = {step.name for step in program.steps if step.target is SIZE and step.args[1] == 0}
    if not rows:
        return program
    steps = [_forget(step, rows) for step in program.steps if step.name not in rows]
    return program.with_steps(tuple(steps))


def _forget(step: Step, rows: set[str]) -> Step:
    if not rows.intersection(step.refs()):
        return step
    if step.target in VIEWS and step.shape is not None and not step.constant:
        return replace(step, args=(step.args[0], list(step.shape)))
    table: dict[str, Any] = {name: Ref(name) for name in step.refs()}
    table |= dict.fromkeys(rows, 1 if step.constant else FREE)
    args, kwargs = step.bind(table)
    return replace(step, args=args, kwargs=kwargs)
