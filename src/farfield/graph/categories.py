"""Columns that hold codes of categories: cast to whole numbers inside of a model, then looked up.

Codes are moved between their values and never scaled, so that they are at rest on every ray. There
a conversion to whole numbers changes nothing, and an embedding is a product with a row of zeros and
a one, made by comparisons. Which columns these are is found by changing one after another; how many
values they have is told by the tables that they are looked up in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from farfield.errors import NotFollowed
from farfield.graph.program import Program, Ref, Step, forward, taint
from farfield.graph.reading import InputColumn

aten = torch.ops.aten
# How many numbers a row may take to be looked up; those of a vocabulary would be millions.
MOST_COMPARISONS = 1 << 16


@dataclass(frozen=True)
class CodedColumns:
    """A program whose columns of codes are known.

    Attributes:
        program: In which codes are numbers like any other.
        counts: How many values each of these columns has.
    """

    program: Program
    counts: Mapping[int, int]

    @property
    def columns(self) -> tuple[InputColumn, ...]:
        """All columns of the input."""
        width = self.program.input_shape[0]
        counts = (self.counts.get(place) for place in range(width))
        return tuple(
            InputColumn(categories=None if count is None else tuple(range(count)))
            for count in counts
        )


def read_categories(program: Program, constants: Mapping[str, Tensor]) -> CodedColumns:
    """Find the columns that a model takes for codes, and write out what is looked up by them.

    Raises:
        NotFollowed: If codes are found where no columns are, or their number is not.
    """
    marked = taint(program)
    masks = {step.name for step in marked.steps if _is_mask(step)}
    casts = [step for step in marked.steps if _is_cast(step, masks)]
    if not casts:
        return CodedColumns(program, {})
    if len(program.input_shape) != 1:
        raise NotFollowed(
            f"the model turns numbers into whole ones in {casts[0].source}, which is only followed "
            "of columns of a table that hold categories; its input has shape "
            f"{program.input_shape}."
        )
    looker = _Looker(marked, constants)
    counts: dict[int, int] = {}
    for step in marked.steps:
        for index, ends in looker.lookups(step):
            for column, count in looker.counts(index, ends).items():
                counts[column] = min(count, counts.get(column, count))
    for cast in casts:
        unknown = [column for column in looker.columns(cast) if column not in counts]
        if unknown:
            raise NotFollowed(
                f"the model turns columns {unknown[:5]} into whole numbers in {cast.source} and "
                "does not look them up in an embedding or a one-hot table, so it is not known "
                "which values they may have; encode them before the model."
            )
    named = {cast.name for cast in casts}
    steps = [new for step in program.steps for new in _written(step, named, marked, constants)]
    width = max([program.width, *(_wide(step) for step in steps)])
    return CodedColumns(replace(program.with_steps(tuple(steps)), width=width), counts)


def _is_mask(step: Step) -> bool:
    name = step.operation.removeprefix("aten.").partition(".")[0]
    return name in ("gt", "ge", "lt", "le", "eq", "ne", "logical_not", "logical_and", "logical_or")


def _is_cast(step: Step, masks: set[str]) -> bool:
    """Whether a step cuts off digits of something that depends on the input."""
    kind = step.kwargs.get("dtype")
    return (
        step.target is aten._to_copy.default
        and not step.constant
        and kind is not None
        and not kind.is_floating_point
        and not kind.is_complex
        and step.args[0].name not in masks
    )


class _Looker:
    """Runs the beginning of a program to see what whole numbers are made of."""

    def __init__(self, program: Program, constants: Mapping[str, Tensor]) -> None:
        self._program = program
        self._constants = constants
        self._varying = {program.input} | {s.name for s in program.steps if not s.constant}
        self._shapes = {step.name: step.shape for step in program.steps}

    def lookups(self, step: Step) -> Iterator[tuple[str, int]]:
        """The values that a step takes for positions, and how many there may be."""
        if step.target is aten.embedding.default and self._varies(step.args[1]):
            table = self._constants.get(step.args[0].name)
            if table is not None:
                yield step.args[1].name, len(table)
        elif step.target is aten.eq.Tensor and self._varies(step.args[0]):
            name = getattr(step.args[1], "name", "")
            held = self._constants.get(name)
            shape = self._shapes.get(name) if held is None else tuple(held.shape)
            if shape is not None and len(shape) == 1 and not self._varies(step.args[1]):
                yield step.args[0].name, shape[0]

    def _varies(self, item: Any) -> bool:
        return isinstance(item, Ref) and item.name in self._varying

    def columns(self, step: Step) -> list[int]:
        """The columns that a step depends on."""
        changed = self._probe(step.name) != 0
        return torch.nonzero(changed[1:].any(dim=1)).flatten().tolist()

    def counts(self, index: str, ends: int) -> dict[int, int]:
        """How many values columns have, given how many positions there are.

        Columns that share a table stand one after another in it: each begins at its own position.
        """
        found = self._probe(index)
        first, steps = found[0], found[1:]
        starts = sorted({*first.tolist(), float(ends)})
        counts: dict[int, int] = {}
        for column, row in enumerate(steps):
            for start in first[row != 0].tolist():
                after = next(each for each in starts if each > start)
                counts[column] = min(counts.get(column, ends), int(after - start))
        return counts

    def _probe(self, name: str) -> Tensor:
        """A value at the origin, then by how much it grows with each column."""
        columns = self._program.input_shape[0]
        rows = torch.cat([torch.zeros(1, columns), torch.eye(columns)])
        part = _until(self._program, name)
        if part is None:
            values = rows
        elif self._single():
            each = (forward(part, row, self._constants) for row in rows.split(1))
            values = torch.cat([value.reshape(1, -1) for value in each])
        else:
            values = forward(part, rows, self._constants).reshape(len(rows), -1)
        values = values.double()
        return torch.cat([values[:1], values[1:] - values[:1]])

    def _single(self) -> bool:
        return all(step.shape is None or -1 not in step.shape for step in self._program.steps)


def _until(program: Program, name: str) -> Program | None:
    """The steps that a value needs; ``None`` for the input itself."""
    if name == program.input:
        return None
    needed, kept = {name}, []
    for step in reversed(program.steps):
        if step.name in needed:
            kept.append(step)
            needed.update(step.refs())
    return program.with_steps(tuple(reversed(kept)), output=name)


def _written(
    step: Step, casts: set[str], program: Program, constants: Mapping[str, Tensor]
) -> list[Step]:
    """A step as it acts on codes."""
    if step.name in casts:
        return [replace(step, target=aten.alias.default, args=step.args[:1], kwargs={})]
    varying = {each.name for each in program.steps if not each.constant}
    if step.target is not aten.embedding.default or step.args[1].name not in varying:
        return [step]
    table = constants.get(step.args[0].name)
    if table is None or step.shape is None:
        return [step]
    return looked_up(step, len(table))


def looked_up(step: Step, count: int) -> list[Step]:
    """An embedding, as a product with a row of zeros and a one."""
    steps: list[Step] = []
    each = (step.shape or (0,))[:-1]

    def emit(target: Any, *args: Any, shape: tuple[int, ...] | None = None, **named: Any) -> Ref:
        name = f"{step.name}/{len(steps)}"  # no traced name has a slash
        steps.append(replace(step, name=name, target=target, args=args, kwargs=named, shape=shape))
        return Ref(name)

    table, index = step.args[:2]
    if count * max(1, _size(each)) > MOST_COMPARISONS:
        return [step]
    codes = emit(aten.arange.start_step, 0, count, shape=(count,))
    value = emit(aten.unsqueeze.default, index, -1, shape=(*each, 1))
    row = emit(aten.eq.Tensor, value, codes, shape=(*each, count))
    row = emit(aten._to_copy.default, row, shape=(*each, count), dtype=torch.float64)
    turned = emit(aten.t.default, table)
    last = replace(step, target=aten.linear.default, args=(row, turned), kwargs={})
    return [*steps, last]


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= max(1, length)
    return size


def _wide(step: Step) -> int:
    return 1 if step.shape is None else _size(step.shape)
