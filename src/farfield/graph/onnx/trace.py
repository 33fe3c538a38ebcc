"""Values of an ONNX graph while it is read: known ones are computed, the others become steps.

A value that depends on weights and shapes alone is *known* and is computed on the spot, which
folds constants and evaluates shape chains. A value that depends on the input is *data*: a name,
and a tensor without storage that knows its shape. Data has ``ROWS`` rows, a prime that no layer
has, so that the rows can be told from every other dimension. What is computed from the number of
rows is computed for a second prime as well; where the two differ, it depends on the batch.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from farfield.budget import Budget, allowance, operations
from farfield.errors import CaptureError
from farfield.graph.onnx.outline import effort, outline
from farfield.graph.program import FREE, SIZE, CodePlace, Program, Ref, Step
from farfield.graph.refusals import MOVES
from farfield.graph.rules import RULES

aten = torch.ops.aten
ROWS, OTHER_ROWS = 1_000_003, 998_244_353
INPUT = "x"
# Per row of input; a layer of this size takes a hundred megabytes for each row.
MOST_ELEMENTS = 2**24
# Operations that every number of the input allows for: the data brings it along.
PER_INPUT = 2**4
# How many numbers may be listed one by one: positions, sizes, repeats.
MOST_LISTED = 2**20


class Refusal(Exception):  # noqa: N818 - caught by the reader, never seen outside
    """Why one node cannot be read."""


@dataclass(frozen=True, eq=False)
class Known:
    """A value that does not depend on the input.

    ``other`` is the same for another number of rows, where that makes a difference.
    """

    tensor: Tensor
    other: Tensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""
        return tuple(self.tensor.shape)

    def __repr__(self) -> str:
        return f"Known{self.shape}"


@dataclass(frozen=True, eq=False)
class Data:
    """A value that depends on the input: the name of a step, and its shape.

    ``single`` tells whether it is rounded to single precision, or is made of values that are.
    """

    name: str
    meta: Tensor
    single: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, with ``ROWS`` for the number of rows."""
        return tuple(self.meta.shape)


Value = Known | Data


def known(number: float) -> Known:
    """Make a known value of one number."""
    return Known(torch.tensor(number, dtype=torch.float64))


class ProgramBuilder:
    """Collects the steps and constants of a program.

    Attributes:
        steps: The steps so far.
        constants: The weights that they read.
        source: Where the node that is being read stands in the file.
        fixed_rows: The batch size that the file was exported with, 0 if it is free.
        batch: The length that stands for the rows: ``ROWS``, or a batch size to read the file for.
    """

    def __init__(
        self, input_shape: tuple[int, ...], fixed_rows: int, batch: int | None = None
    ) -> None:
        self.steps: list[Step] = []
        self.constants: dict[str, Tensor] = {}
        self.source = CodePlace()
        self.fixed_rows = fixed_rows
        self.batch = ROWS if batch is None else batch
        self.input = Data(INPUT, _blank(self.batch, *input_shape))
        self.width = math.prod(input_shape)
        self.room = Budget(allowance(0), "bytes", CaptureError)
        self.work = Budget(operations(0) + PER_INPUT * self.width, "operations", CaptureError)
        self._names: dict[int, str] = {}
        self._rows: Ref | None = None

    def weight(self, tensor: Tensor) -> Known:
        """Take in a tensor of the file; what it may be folded into grows with it."""
        self.allow(tensor.nbytes)
        return Known(tensor)

    def allow(self, size: int) -> None:
        """Allow for what ``size`` bytes of the file may ask for."""
        self.room.grow(allowance(size) - allowance(0))
        self.work.grow(operations(size) - operations(0))

    def spend(self, work: int, room: int = 0) -> None:
        """Account for operations, and bytes of constants, before they are made.

        Raises:
            CaptureError: If they are more than a file of this size may ask for.
        """
        self.work.spend(work, str(self.source))
        self.room.spend(room, str(self.source))

    def apply(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Value:
        """Call an ATen operation: computed if everything is known, else written as a step."""
        values = list(_values((args, tuple(kwargs.values()))))
        if any(isinstance(value, Data) for value in values):
            return self.emit(target, *args, **kwargs)
        self._reserve(target, args, kwargs)
        first = target(*_map(args, _first), **_map(kwargs, _first))
        if not any(isinstance(value, Known) and value.other is not None for value in values):
            return Known(first)
        second = target(*_map(args, _second), **_map(kwargs, _second))
        same = first.shape == second.shape and torch.equal(first, second)
        return Known(first, None if same else second)

    def emit(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Data:
        """Write a step, after trying it on tensors without storage."""
        meta = outline(target, _map(args, _shadow), _map(kwargs, _shadow))
        shape = tuple(meta.shape)
        if any(length != ROWS and length % ROWS == 0 and length for length in shape):
            raise Refusal(f"{MOVES}: folds another dimension into them")
        size = math.prod(length for length in shape if length != ROWS)
        if size > MOST_ELEMENTS:
            raise CaptureError(
                f"{self.source} makes {size} numbers for each row, more than {MOST_ELEMENTS}; "
                "the file is damaged, or the model too large to be followed"
            )
        self.spend(effort(target, _map(args, _shadow), meta, ROWS))
        step = Step(
            name=f"v{len(self.steps)}",
            target=target,
            args=_map(args, self._ref),
            kwargs=_map(kwargs, self._ref),
            source=self.source,
            shape=tuple(FREE if length == ROWS else length for length in shape),
        )
        self.width = max(self.width, size)
        self.steps.append(step)
        data = [each for each in _values(args) if isinstance(each, Data)]
        return Data(step.name, meta.double(), any(each.single for each in data))

    def write(self, target: Callable[..., Any], value: Data, argument: Any, width: int) -> Data:
        """Write a step on rows that PyTorch knows nothing of: ``(rows, width)``."""
        if self.batch != ROWS:
            raise Refusal("takes whole rows, in a model that moves them about")
        if width > MOST_ELEMENTS:
            raise CaptureError(f"{self.source} makes {width} numbers for each row")
        self.spend(width)
        step = Step(
            name=f"v{len(self.steps)}",
            target=target,
            args=(Ref(value.name), argument),
            source=self.source,
            shape=(FREE, width),
        )
        self.width = max(self.width, width)
        self.steps.append(step)
        return Data(step.name, _blank(ROWS, width), value.single)

    def is_column(self, value: Data) -> bool:
        """Whether a value is some of the input's own numbers, only moved about."""
        made = {step.name: step for step in self.steps}
        name = value.name
        while name in made:
            rule = RULES.get(made[name].target)
            if rule is None or rule.kind != "copy":
                return False
            name = next(iter(made[name].refs()), "")
        return name == INPUT

    def code(self, value: Data) -> Data:
        """A number of the input that is taken for the code of a category."""
        return self.emit(aten._to_copy.default, value, dtype=torch.int64)

    def first(self, target: Callable[..., Any], value: Data, *args: Any) -> Data:
        """Write a step that makes several values, and take the first."""
        meta = target(_shadow(value), *args)[0].double()
        shape = tuple(FREE if length == ROWS else length for length in meta.shape)
        self.spend(effort(aten.amax.default, [_shadow(value)], meta, ROWS))
        pair = Step(f"v{len(self.steps)}", target, (Ref(value.name), *args), source=self.source)
        self.steps.append(pair)
        taken = (Ref(pair.name), 0)
        step = Step(f"v{len(self.steps)}", operator.getitem, taken, source=self.source, shape=shape)
        self.steps.append(step)
        return Data(step.name, meta, value.single)

    def missing(self, operation: str, reason: str = "") -> None:
        """Write a step that has no rule, so that the check of the program lists it."""

        def target(*_: Any) -> None:
            """Stand for an operator that cannot be read."""

        target.__name__ = operation
        source = CodePlace(self.source.module, reason)
        self.steps.append(Step(f"v{len(self.steps)}", target, (Ref(INPUT),), source=source))

    def program(self, output: Data | None) -> Program:
        """The steps so far, with one value as output."""
        name, shape = ("", ()) if output is None else (output.name, output.shape)
        return Program(
            steps=tuple(self.steps),
            input=INPUT,
            output=name,
            input_shape=self.input.shape[1:],
            output_shape=tuple(shape[1:]),
            width=self.width,
        )

    def rows(self) -> Ref:
        """The number of rows, as an argument of a step."""
        if self._rows is None:
            self._rows = Ref("rows")
            self.steps.append(Step("rows", SIZE, (Ref(INPUT), 0)))
        return self._rows

    def view(self, value: Value, sizes: Sequence[int]) -> Value:
        """The same values in another shape; sizes may name ``ROWS`` or one -1."""
        if isinstance(value, Known):
            return self.apply(aten.reshape.default, value, list(sizes))
        shape = tuple(value.meta.reshape(tuple(sizes)).shape)
        if not value.meta.is_contiguous():
            value = self.emit(aten.clone.default, value, memory_format=torch.contiguous_format)
        return self.emit(aten.view.default, value, [_free(length) for length in shape])

    def expand(self, value: Value, sizes: Sequence[int]) -> Value:
        """Repeat along dimensions of length 1, as broadcasting does."""
        shape = torch.broadcast_shapes(value.shape, tuple(sizes))
        if shape == value.shape:
            return value
        if isinstance(value, Data):
            return self.emit(aten.expand.default, value, [_free(length) for length in shape])
        if ROWS in shape:
            lengths = [self.rows() if length == ROWS else length for length in shape]
            return self.emit(aten.expand.default, value, lengths)
        return self.apply(aten.expand.default, value, list(shape))

    def _ref(self, leaf: Any) -> Any:
        """What a step says in place of a value."""
        if isinstance(leaf, Data):
            return Ref(leaf.name)
        if not isinstance(leaf, Known):
            return leaf
        if leaf.other is not None:
            raise Refusal("computes with the number of rows in the batch")
        if leaf.tensor.is_floating_point() and not bool(torch.isfinite(leaf.tensor).all()):
            raise Refusal("computes with constants that are not finite")
        key = id(leaf.tensor)
        if key not in self._names:
            self._names[key] = f"c{len(self.constants)}"
            self.constants[self._names[key]] = leaf.tensor
        return Ref(self._names[key])

    def _reserve(self, target: Callable[..., Any], args: Any, kwargs: Any) -> None:
        """Keep the results of folding within what the file's size allows."""
        shadows = _map(args, _shadow)
        meta = outline(target, shadows, _map(kwargs, _shadow))
        self.spend(effort(target, shadows, meta, ROWS), 8 * meta.numel())


def shape_of(value: Value) -> Known:
    """A value's shape as a known value."""
    first = torch.tensor(value.shape, dtype=torch.int64)
    other = torch.where(first == ROWS, OTHER_ROWS, first)
    return Known(first, other if isinstance(value, Data) and ROWS in value.shape else None)


def plain(value: Value, what: str) -> list[Any]:
    """The numbers of a known value that has to be the same for every batch.

    >>> plain(known(0.5), "bounds")
    [0.5]
    """
    if isinstance(value, Data):
        raise Refusal(f"its {what} depend on the input")
    if value.other is not None:
        raise Refusal(f"its {what} depend on the number of rows")
    if value.tensor.numel() > MOST_LISTED:
        raise Refusal(f"lists {value.tensor.numel()} {what}, more than {MOST_LISTED}")
    return list(value.tensor.flatten().tolist())


def sizes_of(value: Value, what: str) -> list[int]:
    """The numbers of a known shape, where ``ROWS`` may stand for the number of rows."""
    if isinstance(value, Data):
        raise Refusal(f"its {what} depends on the input")
    sizes = [int(size) for size in value.tensor.flatten().tolist()]
    if value.other is not None:
        others = [int(size) for size in value.other.flatten().tolist()]
        for size, other in zip(sizes, others, strict=True):
            if size != other and (size, other) != (ROWS, OTHER_ROWS):
                raise Refusal(f"its {what} is computed from the number of rows")
    return sizes


def _values(tree: Any) -> Iterator[Value]:
    if isinstance(tree, (Known, Data)):
        yield tree
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from _values(item)


def _map(tree: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to the leaves of nested lists, tuples and dictionaries."""
    if isinstance(tree, dict):
        return {key: _map(item, function) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_map(item, function) for item in tree)
    return function(tree)


def _first(leaf: Any) -> Any:
    return leaf.tensor if isinstance(leaf, Known) else leaf


def _second(leaf: Any) -> Any:
    if isinstance(leaf, Known):
        return leaf.tensor if leaf.other is None else leaf.other
    return leaf


def _shadow(leaf: Any) -> Any:
    """What an operation is tried on: no storage, and ``ROWS`` for the number of rows."""
    if isinstance(leaf, Data):
        return leaf.meta
    if isinstance(leaf, Known):
        return leaf.tensor.to("meta")
    return ROWS if isinstance(leaf, Ref) else leaf


def _blank(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float64, device="meta")


def _free(length: int) -> int:
    return -1 if length == ROWS else length
