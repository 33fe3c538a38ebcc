"""Programs that look values up by positions of maxima, or by counts, read as what they are.

PyTorch has positions as whole numbers, in the second result of ``max`` or ``topk``, and one
operation for positions that are constant and such that depend on the input. The second kind gets
operations of its own here, :mod:`farfield.graph.positions`, in which positions are numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from farfield.graph.categories import looked_up
from farfield.graph.positions import (
    MOST_COMPARED,
    MOST_PLACES,
    place_of_largest,
    places_in_order,
    put_at,
    take_at,
)
from farfield.graph.program import FREE, Program, Ref, Step

aten = torch.ops.aten
EXTREMES = {aten.argmax.default: 1, aten.argmin.default: -1}
PAIRS = {aten.max.dim: 1, aten.min.dim: -1}
SHARES = (
    *(aten.softmax.int, aten._softmax.default),
    *(aten.log_softmax.int, aten._log_softmax.default),
)
# What picks and puts by constant positions, which are whole numbers then.
CONSTANT = {take_at: aten.gather.default, put_at: aten.scatter.src}
SORTS = (aten.sort.default, aten.sort.stable)


def read_positions(program: Program, constants: Mapping[str, Tensor]) -> Program:
    """Rewrite positions of maxima, and what is looked up by values that depend on the input.

    Args:
        program: With its constant steps marked.
        constants: Its weights; some are tables to look things up in.
    """
    return program.with_steps(_PositionReader(program, constants).steps())


class _PositionReader:
    """Goes through a program once; knows shapes, and what each value is made by."""

    def __init__(self, program: Program, constants: Mapping[str, Tensor]) -> None:
        self._program = program
        self._constants = constants
        self._made = {step.name: step for step in program.steps}
        self._varying = {program.input} | {s.name for s in program.steps if not s.constant}

    def steps(self) -> tuple[Step, ...]:
        """The steps of the rewritten program."""
        return tuple(new for step in self._program.steps for new in self._read(step))

    def _read(self, step: Step) -> list[Step]:
        if step.constant:
            return [step]
        if step.target in EXTREMES:
            return self._extreme(step, step, EXTREMES[step.target])
        if step.target is operator.getitem and step.args[1] == 1:
            return self._second(step, self._made.get(step.args[0].name))
        if step.target is aten.gather.default and self._varies(step.args[2]):
            return self._taken(step)
        if step.target in (aten.scatter.src, aten.scatter.value) and self._varies(step.args[2]):
            return self._put(step)
        if step.target in CONSTANT and not self._varies(step.args[2]):
            return _at_constants(step)
        if step.target is aten.embedding.default and self._varies(step.args[1]):
            return self._embedded(step, *step.args[:2])
        if step.target is aten.index.Tensor and len(step.args[1]) == 1:
            return self._embedded(step, step.args[0], step.args[1][0])
        return [step]

    def _varies(self, item: Any) -> bool:
        return isinstance(item, Ref) and item.name in self._varying

    def _shape(self, item: Any) -> tuple[int, ...]:
        """The shape of a value or a weight; nothing if it is not known."""
        if not isinstance(item, Ref):
            return ()
        if item.name == self._program.input:
            return (FREE, *self._program.input_shape)
        if item.name in self._constants:
            return tuple(self._constants[item.name].shape)
        made = self._made.get(item.name)
        return (made.shape if made is not None else None) or ()

    def _second(self, step: Step, producer: Step | None) -> list[Step]:
        """Positions, where an operation gives values and positions."""
        if producer is None or producer.constant:
            return [step]
        if producer.target in PAIRS:
            return self._extreme(step, producer, PAIRS[producer.target])
        named = dict(producer.kwargs)
        if producer.target is aten.topk.default:
            value, count, *rest = producer.args
            dim = rest[0] if rest else -1
            falls = rest[1] if len(rest) > 1 else True
            return self._ordered(step, value, count, dim, 1 if falls else -1)
        if producer.target in SORTS and not named.get("stable"):
            value, *rest = producer.args
            dim = named.get("dim", rest[0] if rest else -1)
            falls = named.get("descending", rest[1] if len(rest) > 1 else False)
            shape = self._shape(value)
            return self._ordered(step, value, shape[dim] if shape else 0, dim, 1 if falls else -1)
        return [step]

    def _extreme(self, step: Step, producer: Step, sign: int) -> list[Step]:
        value, *rest = producer.args
        dim = producer.kwargs.get("dim", rest[0] if rest else None)
        keepdim = producer.kwargs.get("keepdim", rest[1] if len(rest) > 1 else False)
        value, shape = self._without_shares(value, dim), self._shape(value)
        if not isinstance(dim, int) or not shape or shape[dim] == FREE:
            return [step]
        return [_like(step, place_of_largest, value, dim, keepdim, sign)]

    def _without_shares(self, value: Ref, dim: Any) -> Ref:
        """What a softmax over the same dimension is of: both have one order.

        Far out shares of losers all vanish, and could not be told apart.
        """
        made = self._made.get(value.name)
        rank = len(self._shape(value))
        if made is None or made.target not in SHARES or not isinstance(dim, int) or not rank:
            return value
        below: Ref = made.args[0]
        return below if made.args[1] % rank == dim % rank else value

    def _ordered(self, step: Step, value: Ref, count: int, dim: int, sign: int) -> list[Step]:
        value, shape = self._without_shares(value, dim), self._shape(value)
        if not shape or not 1 <= shape[dim] <= MOST_COMPARED:
            return [step]
        return [_like(step, places_in_order, value, count, dim, sign)]

    def _taken(self, step: Step) -> list[Step]:
        value, dim, index = step.args[:3]
        shape = self._shape(value)
        if not shape or not 1 <= shape[dim] <= MOST_PLACES:
            return [step]
        return [_like(step, take_at, value, dim, index)]

    def _put(self, step: Step) -> list[Step]:
        base, dim, index, source = step.args[:4]
        into, places = self._shape(base), self._shape(index)
        if not into or len(into) != len(places) or not 1 <= places[dim] <= MOST_PLACES:
            return [step]
        others = [each for each in range(1, len(into)) if each != dim % len(into)]
        if dim % len(into) == 0 or any(into[each] != places[each] for each in others):
            return [step]
        return [_like(step, put_at, base, dim, index, source)]

    def _embedded(self, step: Step, table: Any, index: Any) -> list[Step]:
        """A row of a table of constants, picked by a value."""
        shape = self._shape(table)
        if self._varies(table) or not self._varies(index) or len(shape) != 2:
            return [step]
        return looked_up(replace(step, args=(table, index), kwargs={}), shape[0])


def _at_constants(step: Step) -> list[Step]:
    """Positions that turn out not to depend on the input."""
    value, dim, index, *rest = step.args
    whole = replace(
        _like(step, aten._to_copy.default, index),
        name=f"{step.name}/places",
        kwargs={"dtype": torch.int64},
        constant=True,
    )
    return [whole, _like(step, CONSTANT[step.target], value, dim, Ref(whole.name), *rest)]


def _like(step: Step, target: Any, *args: Any) -> Step:
    return replace(step, target=target, args=args, kwargs={})
