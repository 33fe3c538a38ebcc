"""Stacks of plain layers, read from a ``.pt2`` file without tracing.

A model of a table is mostly linear layers, activations, dropout and batch norm, one after another.
What these make has the shape of what they read, but for the width of a linear layer. So steps are
written down as tracing would write them, without PyTorch's compiler, which takes seconds to load.
Whatever else a file holds is left to tracing, and every complaint about a file with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from farfield import budget
from farfield.budget import Budget
from farfield.errors import CaptureError
from farfield.graph.export import place_of
from farfield.graph.plain_layers import DROPOUT, LINEAR, NORM, PLAIN, SHARES, apart
from farfield.graph.program import FREE, Program, Ref, Step
from farfield.graph.pt2 import schema
from farfield.graph.pt2.arguments import arguments, origin, result_names
from farfield.graph.pt2.saved import SavedProgram, input_of

KNOWN = {f"torch.ops.{target}": target for target in PLAIN}


class NotPlain(Exception):  # noqa: N818 - caught below, never seen outside
    """A file has to be traced."""


@dataclass(frozen=True, slots=True)
class _Value:
    """What a step makes: its name, and the shape of one row."""

    name: str
    shape: tuple[int, ...]


def read_plain(saved: SavedProgram) -> tuple[Program, dict[str, Tensor], int] | None:
    """Read a stack of plain layers.

    Returns:
        Its program, its weights, and the batch size that it was exported with, 0 if that is free;
        ``None`` if the file has to be traced.
    """
    if any(node.target not in KNOWN for node in saved.model.graph.nodes):
        return None
    try:
        return _Stack(saved).read()
    except (NotPlain, CaptureError):
        return None


class _Stack:
    """The layers as far as they have been read."""

    def __init__(self, saved: SavedProgram) -> None:
        self.saved = saved
        self.steps: list[Step] = []
        self.weights: dict[str, Tensor] = {}
        self.values: dict[str, _Value] = {}
        self._bytes = Budget(budget.allowance(saved.size), "bytes", CaptureError)
        self._work = Budget(budget.operations(saved.size), "operations", CaptureError)

    def read(self) -> tuple[Program, dict[str, Tensor], int]:
        """The program, its weights, and a fixed batch size or 0."""
        graph = self.saved.model.graph
        start, rows = self._inputs()
        for node in graph.nodes:
            self._layer(node, rows or FREE)
        last = graph.outputs[0].as_tensor
        end = None if last is None else self.values.get(last.name)
        if end is None or end is start:
            raise NotPlain
        made = [prod(value.shape) for value in self.values.values() if value is not start]
        width = max(1 if rows else prod(start.shape), *made)
        steps = tuple(self.steps)
        return (
            Program(steps, start.name, end.name, start.shape, end.shape, width),
            {name: tensor.detach() for name, tensor in self.weights.items()},
            rows or 0,
        )

    def _inputs(self) -> tuple[_Value, int | None]:
        """Take in the weights and the input, all of one floating-point type."""
        found: tuple[_Value, int | None] | None = None
        kinds: set[torch.dtype] = set()
        for spec in self.saved.model.signature.input_specs:
            if spec.user_input is not None:
                name, kind, rows, shape = input_of(
                    self.saved.model.graph, spec.user_input.arg, self.saved.path
                )
                found = self._add(_Value(name, tuple(shape))), rows
            else:
                name, (_, _, weight) = spec.value.arg.name, self.saved.weight(spec)
                if name in self.weights:
                    raise NotPlain
                self.weights[name], kind = weight, weight.dtype
            kinds |= {kind} if kind.is_floating_point else set()
        if found is None or len(kinds) != 1 or found[0].name in self.weights:
            raise NotPlain
        return found

    def _layer(self, node: schema.SavedNode, rows: int) -> None:
        """Write one layer down."""
        target: Any = KNOWN[node.target]
        where = str(self.saved.path)
        args, kwargs = arguments(target, node, where, self._look)
        names = result_names(node, where)
        if kwargs or len(names) != 1 or not isinstance(args[0], _Value):
            raise NotPlain
        value, *rest = args
        made = _Value(names[0], self._shape(target, value, rest))
        source = place_of(origin(node.metadata))
        shape = (rows, *made.shape)
        args = (Ref(value.name), *rest)
        step = Step(made.name, target, args, source=source, shape=shape)
        self.steps.extend(apart(step))
        self._add(made)

    def _shape(self, target: Any, value: _Value, rest: Sequence[Any]) -> tuple[int, ...]:
        """The shape of what a layer makes of one row."""
        shape = value.shape
        if target is LINEAR:
            return self._linear(shape, *rest)
        if target is NORM:
            return self._norm(shape, *rest)
        if target is DROPOUT and rest[1:] != [False]:
            raise NotPlain
        if target in SHARES and not (
            len(rest) == 1 and type(rest[0]) is int and -len(shape) - 1 <= rest[0] <= len(shape)
        ):
            raise NotPlain
        if not all(isinstance(each, int | float) for each in rest):
            raise NotPlain
        self._work.spend(2 * prod(shape), value.name)
        return shape

    def _linear(self, shape: tuple[int, ...], weight: Any, bias: Any = None) -> tuple[int, ...]:
        outputs, inputs = self._sizes(weight, 2)
        if shape[-1:] != (inputs,) or (bias is not None and self._sizes(bias, 1) != (outputs,)):
            raise NotPlain
        made = (*shape[:-1], outputs)
        self._work.spend(prod(shape) + outputs * inputs + prod(made) * (1 + inputs), "linear")
        return made

    def _norm(self, shape: tuple[int, ...], *rest: Any) -> tuple[int, ...]:
        statistics, (training, momentum, epsilon, _) = rest[:4], rest[4:]
        known = [each for each in statistics if each is not None]
        numbers = isinstance(momentum, float) and isinstance(epsilon, float)
        if training is not False or None in statistics[2:] or not numbers:
            raise NotPlain
        if any(self._sizes(each, 1) != shape[:1] for each in known):
            raise NotPlain
        self._work.spend(6 * prod(shape), "batch norm")
        return shape

    def _sizes(self, weight: Any, dimensions: int) -> tuple[int, ...]:
        """The sizes of a weight."""
        if not isinstance(weight, Ref) or weight.name not in self.weights:
            raise NotPlain
        tensor = self.weights[weight.name]
        if tensor.ndim != dimensions or not tensor.is_floating_point():
            raise NotPlain
        return tuple(tensor.shape)

    def _look(self, name: str) -> _Value | Ref:
        """A value or a weight that is there already."""
        if name in self.values:
            return self.values[name]
        if name not in self.weights:
            raise NotPlain
        return Ref(name)

    def _add(self, value: _Value) -> _Value:
        if value.name in self.values or value.name in self.weights:
            raise NotPlain
        self._bytes.spend(8 * prod(value.shape), value.name)
        self.values[value.name] = value
        return value
