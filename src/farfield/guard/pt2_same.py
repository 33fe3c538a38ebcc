"""Whether a program is a guard around a model: compared operation by operation with another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from pydantic import BaseModel
from torch import Tensor

from farfield.errors import InputError
from farfield.graph.pt2.schema import GraphModule, Model, Named, SavedGraph, SavedNode, SizeArgument

SIZE = "torch.ops.aten.sym_size.int"
# Decided when the program was traced; what it returns is used by nothing.
TRACED = "torch.ops.aten.promote_types.default"
# What gives a tensor out again, or looks at it, where nothing has to be changed.
SAME_VALUE = ("torch.ops.aten.flatten.using_ints", "torch.ops.aten.to.dtype")


@dataclass(frozen=True)
class ArchiveNumbers:
    """The tensors of an archive, by their names in the module."""

    stored: dict[str, Tensor]
    constants: dict[str, Tensor]

    def of(self, model: GraphModule) -> dict[str, tuple[str, Tensor]]:
        """Names in the module, and tensors, by their names in the graph."""
        found = {}
        for spec in model.signature.input_specs:
            if spec.parameter is not None:
                name, fqn = spec.parameter.arg.name, spec.parameter.parameter_name
                found[name] = (fqn, self.stored[fqn])
            elif spec.buffer is not None:
                fqn = spec.buffer.buffer_name
                kept = self.stored if spec.buffer.persistent else self.constants
                found[spec.buffer.arg.name] = (fqn, kept[fqn])
            elif spec.tensor_constant is not None:
                fqn = spec.tensor_constant.tensor_constant_name
                found[spec.tensor_constant.arg.name] = (fqn, self.constants[fqn])
        return found


@dataclass
class TakenApart:
    """A graph without its sizes, which are pure, and what its names stand for."""

    graph: SavedGraph
    inputs: list[str]
    numbers: dict[str, tuple[str, Tensor]]
    nodes: list[SavedNode] = field(default_factory=list)
    sizes: dict[str, tuple[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Model, numbers: ArchiveNumbers) -> TakenApart:
        """Take a program apart."""
        module = model.graph_module
        inputs = [
            spec.user_input.arg.as_tensor.name
            for spec in module.signature.input_specs
            if spec.user_input is not None and spec.user_input.arg.as_tensor is not None
        ]
        if any(spec.user_output is None for spec in module.signature.output_specs):
            raise InputError("its program changes its own numbers")
        made = cls(module.graph, inputs, numbers.of(module))
        for node in module.graph.nodes:
            if node.target == SIZE:
                made.sizes[_names(node.outputs)[0]] = _measured(node)
            elif node.target != TRACED:
                made.nodes.append(node)
        return made


def check_around(
    file: Model, numbers: ArchiveNumbers, expected: Model, known: ArchiveNumbers
) -> None:
    """See that a program is the expected one around some model.

    Args:
        file: The program of the file; it takes rows.
        numbers: Its tensors.
        expected: The guard's program; it takes rows, what the model returns, and its features if
            a view looks at them.
        known: Its tensors.

    Raises:
        InputError: If it is not.
    """
    own, guard = TakenApart.of(file, numbers), TakenApart.of(expected, known)
    if len(own.inputs) != 1:
        raise InputError("its program takes more than rows")
    given = set(guard.inputs[1:])
    after = next(i for i, node in enumerate(guard.nodes) if given & set(_read(node)))
    extra = len(own.nodes) - len(guard.nodes)
    # The model stands in one piece somewhere before the guard first reads what it returns.
    begun = list(_beginnings(own, guard, after)) if extra >= 0 else []
    for start, match in reversed(begun):
        if all(map(match.node, own.nodes[start + extra :], guard.nodes[start:])):
            break
    else:
        raise InputError(_OTHER.format(file.torch_version))
    around = [*own.nodes[:start], *own.nodes[start + extra :]]
    returned = [match.argument(*pair) for pair in _outputs(own.graph, guard.graph)]
    if not all(returned) or len(own.graph.outputs) != len(guard.graph.outputs):
        raise InputError(_OTHER.format(file.torch_version))
    if _shape_of_answer(file) != _shape_of_answer(expected):
        raise InputError("its program returns something else than a guard")
    _check_apart(own, around, own.nodes[start : start + extra], match.used)


_OTHER = (
    "its program is not the guard that its numbers make, in the operations of this PyTorch ("
    + str(torch.__version__)
    + "; the file says it was written by {}). If it was, verify the .onnx or .safetensors file of "
    "the same guard"
)


def _beginnings(own: TakenApart, guard: TakenApart, most: int) -> Iterator[tuple[int, Match]]:
    """How many operations both begin with, one more each time, and what is known after them."""
    match = Match(own, guard, {guard.inputs[0]: own.inputs[0]})
    yield 0, match.copy()
    for count, pair in enumerate(zip(own.nodes[:most], guard.nodes, strict=False), start=1):
        if not match.node(*pair):
            return
        yield count, match.copy()


def _outputs(own: SavedGraph, guard: SavedGraph) -> Iterator[tuple[Any, Any]]:
    return zip(own.outputs, guard.outputs, strict=False)


def _shape_of_answer(model: Model) -> list[str]:
    """How the outputs are put together, as the file says it."""
    calls = model.graph_module.module_call_graph
    return [call.signature.out_spec for call in calls if not call.fqn and call.signature]


def _check_apart(
    own: TakenApart, guard: list[SavedNode], model: list[SavedNode], used: set[str]
) -> None:
    """See that the model in between touches nothing of the guard but the rows."""
    rows = {own.inputs[0]}
    for node in guard:
        if node.target in SAME_VALUE and rows & set(_read(node)):
            rows |= set(_names(node.outputs))
    taken = used | {name for node in guard for name in _names(node.outputs)} - rows
    for node in model:
        if taken & set(_read(node)):
            raise InputError(f"{node.target} of the model in it reads or writes the guard")


@dataclass
class Match:
    """Names of the guard's program to those of the file's, as far as they are known.

    A number may go by another name, if it is the same to the bit: two units may share theirs.
    """

    own: TakenApart
    guard: TakenApart
    known: dict[str, str]
    used: set[str] = field(default_factory=set)

    def copy(self) -> Match:
        """The same, to go on from here."""
        return Match(self.own, self.guard, dict(self.known), set(self.used))

    def node(self, own: SavedNode, guard: SavedNode) -> bool:
        """Whether two operations are the same, on the same values; their results then are."""
        if own.target != guard.target or len(own.inputs) != len(guard.inputs):
            return False
        for ours, theirs in zip(own.inputs, guard.inputs, strict=True):
            if ours.name != theirs.name or not self.argument(ours.arg, theirs.arg):
                return False
        names, expected = _names(own.outputs), _names(guard.outputs)
        self.known.update(zip(expected, names, strict=False))
        return len(names) == len(expected)

    def argument(self, own: Any, guard: Any) -> bool:
        """Whether two arguments are the same."""
        if type(own) is not type(guard):
            return False
        if isinstance(own, Named):
            return self._value(own.name, guard.name)
        if isinstance(own, SizeArgument) and own.as_name is not None:
            return guard.as_name is not None and self._size(own.as_name, guard.as_name)
        if isinstance(own, BaseModel):
            mine, other = dict(own), dict(guard)
            return all(self.argument(mine[name], other[name]) for name in mine)
        if isinstance(own, list):
            return len(own) == len(guard) and all(map(self.argument, own, guard))
        return bool(own == guard)

    def _value(self, own: str, guard: str) -> bool:
        if guard in self.guard.numbers:
            self.used.add(own)
            return own in self.own.numbers and _equal(
                self.own.numbers[own][1], *self.guard.numbers[guard]
            )
        if guard in self.guard.inputs[1:] and own not in self.own.numbers:
            return self.known.setdefault(guard, own) == own
        return self.known.get(guard) == own

    def _size(self, own: str, guard: str) -> bool:
        if own not in self.own.sizes or guard not in self.guard.sizes:
            return False
        (ours, place), (theirs, other) = self.own.sizes[own], self.guard.sizes[guard]
        # Whatever goes in has as many rows.
        rows = place == 0 and ours in self.own.inputs and theirs in self.guard.inputs
        return place == other and (rows or self._value(ours, theirs))


def _equal(ours: Tensor, name: str, theirs: Tensor) -> bool:
    """Whether two tensors of a guard are the same, to the bit wherever a promise depends on it."""
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    if name.endswith(".inputs"):  # follows from others by a solver, whose last bits vary
        return torch.allclose(ours, theirs, rtol=1e-6, atol=1e-6)
    if ours.is_floating_point():
        ours, theirs = torch.nan_to_num(ours, 1e301), torch.nan_to_num(theirs, 1e301)
    return torch.equal(ours, theirs)


def _read(node: SavedNode) -> list[str]:
    """The names that an operation reads."""
    return [name for item in node.inputs for name in _named(item.arg)]


def _names(outputs: list[Any]) -> list[str]:
    """The names that an operation makes."""
    return [name for output in outputs for name in _named(output)]


def _named(item: Any) -> Iterator[str]:
    if isinstance(item, Named):
        yield item.name
    elif isinstance(item, SizeArgument):
        if item.as_name is not None:
            yield item.as_name
    elif isinstance(item, BaseModel):
        for _, value in item:
            yield from _named(value)
    elif isinstance(item, list):
        for value in item:
            yield from _named(value)


def _measured(node: SavedNode) -> tuple[str, int]:
    given = {item.name: item.arg for item in node.inputs}
    tensor, place = given["self"].as_tensor, given["dim"].as_int
    if tensor is None or place is None:
        raise InputError("its program measures something else than a tensor")
    return tensor.name, place
