"""Bins of values, as models of tables make them: counted, and looked up in a table of embeddings.

``bucketize`` counts the boundaries below a value, which is a function of one number with jumps.
What an embedding makes of that number is a sum of jumps, one at each boundary:
``E[k] = E[0] + sum over i < k of (E[i + 1] - E[i])``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from farfield.graph.program import Program, Ref, Step
from farfield.graph.rules import Pieces
from farfield.graph.stepwise import bend

aten = torch.ops.aten
SAME = (aten.alias.default, aten.clone.default, aten.detach.default, aten.lift_fresh_copy.default)


@dataclass(frozen=True)
class _Bins:
    """What a number of a bin was made of: the boundaries at or below count ``from_below``."""

    value: Ref
    ends: Ref
    count: int
    from_below: bool


def read_bins(program: Program, constants: Mapping[str, Tensor]) -> Program:
    """Write bins as functions with jumps, and embeddings of bins as sums of jumps."""
    if not any(step.target is aten.bucketize.Tensor for step in program.steps):
        return program
    return program.with_steps(_BinReader(constants).steps(program))


class _BinReader:
    """Goes through a program once; knows constants by name, and which values are bins."""

    def __init__(self, constants: Mapping[str, Tensor]) -> None:
        self._constants = dict(constants)
        self._bins: dict[str, _Bins] = {}

    def steps(self, program: Program) -> tuple[Step, ...]:
        """The steps of the rewritten program."""
        return tuple(new for step in program.steps for new in self._read(step))

    def _read(self, step: Step) -> list[Step]:
        first = step.args[0].name if step.args and isinstance(step.args[0], Ref) else ""
        if step.target in SAME and first in self._constants:
            self._constants[step.name] = self._constants[first]
        if step.target is aten.bucketize.Tensor:
            return self._counted(step)
        if step.target is aten.embedding.default and isinstance(step.args[1], Ref):
            bins = self._bins.get(step.args[1].name)
            return [step] if bins is None else _looked_up(step, bins)
        return [step]

    def _counted(self, step: Step) -> list[Step]:
        """How many boundaries are below, or at or below: then counted from above."""
        value, ends = step.args[:2]
        table = self._constants.get(ends.name) if isinstance(ends, Ref) else None
        if table is None or table.ndim != 1 or bool((table.diff() <= 0).any()):
            return [step]
        from_below = bool(step.kwargs.get("right", False))
        self._bins[step.name] = _Bins(value, ends, len(table), from_below)
        places = table.double().tolist()
        counts = [float(count) for count in range(len(places) + 1)]
        if not from_below:
            return [_like(step, step.name, bend, value, _levels(places, counts))]
        turned = _like(step, f"{step.name}/turned", aten.neg.default, value)
        above = _levels([-place for place in reversed(places)], counts[::-1])
        return [turned, _like(step, step.name, bend, Ref(turned.name), above)]


def _levels(places: list[float], heights: list[float]) -> Pieces:
    return Pieces(tuple(places), (0.0,) * len(heights), tuple(heights))


def _like(step: Step, name: str, target: Any, *args: Any) -> Step:
    return replace(step, name=name, target=target, args=args, kwargs={})


def _looked_up(step: Step, bins: _Bins) -> list[Step]:
    """An embedding of bins: the first row, and at each boundary the step to the next one."""
    steps: list[Step] = []

    def emit(target: Any, *args: Any, shape: tuple[int, ...] | None = None) -> Ref:
        made = replace(_like(step, f"{step.name}/{len(steps)}", target, *args), shape=shape)
        steps.append(made)
        return Ref(made.name)

    weight = step.args[0]
    each = (step.shape or (0,))[:-1]
    value = emit(aten.unsqueeze.default, bins.value, -1, shape=(*each, 1))
    compare = aten.ge.Tensor if bins.from_below else aten.gt.Tensor
    over = emit(compare, value, bins.ends, shape=(*each, bins.count))
    after = emit(aten.slice.Tensor, weight, 0, 1, bins.count + 1)
    before = emit(aten.slice.Tensor, weight, 0, 0, bins.count)
    jumps = emit(aten.t.default, emit(aten.sub.Tensor, after, before))
    first = emit(aten.select.int, weight, 0, 0)
    return [*steps, _like(step, step.name, aten.linear.default, over, jumps, first)]
