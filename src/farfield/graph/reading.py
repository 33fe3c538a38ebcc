"""Programs written by hand: what readers of classical models put together, step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from farfield.errors import NotFollowed
from farfield.graph.products import divide, multiply
from farfield.graph.program import CodePlace, Program, Ref, Step
from farfield.graph.rules import RULES, Pieces, RowFunction, Steps
from farfield.graph.stepwise import apply_row, bend, box_cox, fill_missing, take_steps

if TYPE_CHECKING:
    from farfield.graph.trees.ensemble import TreeEnsemble

aten = torch.ops.aten
# What the output of a model is: logits, to be put through a softmax, or probabilities as they are.
Link = Literal["softmax", "identity"]
# How a note ends that names columns whose categories a model of trees has lost.
CODED = "are not in the model; they go in as codes"
# The note of a model that takes rows with gaps.
TAKES_MISSING = "the model fills missing values itself"


def coded(note: str) -> list[str]:
    """The columns that such a note names; none of another note.

    >>> coded(f"categories of a, b {CODED}"), coded("anything else")
    (['a', 'b'], [])
    """
    if not note.endswith(CODED):
        return []
    return note.removeprefix("categories of ").removesuffix(f" {CODED}").split(", ")


@dataclass(frozen=True)
class InputColumn:
    """A column of the table that a model takes.

    Attributes:
        name: Its name, or ``None`` if the model does not know it.
        categories: The values of a category, in the order of their codes: such a column goes in
            as the code, 0, 1, ..., and is moved between its values; ``None`` for numbers.
        missing: Whether values may be missing: NaN among numbers, and among codes.
        unseen: Whether values may be in no category; their code is -1.
        used: Whether the model looks at it at all.
        low: Numbers below have no answer: a logarithm or a root is taken of them.
    """

    name: str | None = None
    categories: tuple[Any, ...] | None = None
    missing: bool = False
    unseen: bool = False
    used: bool = True
    low: float = -math.inf


@dataclass(frozen=True, eq=False)
class Reading:
    """A model as it was read.

    Attributes:
        program: From input columns to outputs.
        constants: Its weights.
        link: What the outputs are.
        labels: The names of the classes, in the order of the outputs.
        columns: What goes in; ``None`` if nothing is known but the number.
        notes: What the user may want to know.
        trees: The ensemble of trees that gives the outputs, if nothing else has a part in them.
    """

    program: Program
    constants: Mapping[str, Tensor]
    link: Link = "softmax"
    labels: tuple[Any, ...] | None = None
    columns: tuple[InputColumn, ...] | None = None
    notes: tuple[str, ...] = ()
    trees: TreeEnsemble | None = None


@dataclass(frozen=True)
class Wire:
    """A value of a program that is being written: ``(rows, width)``."""

    name: str
    width: int


@dataclass
class Writer:
    """Writes a program. Values go in and come out, so that models can branch and meet again.

    Args:
        columns: How many columns the input has.
        refusals: Where to collect what cannot be read; ``None`` raises at the first.
        notes: What the user may want to know.
    """

    columns: int
    refusals: list[NotFollowed] | None = None
    notes: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    constants: dict[str, Tensor] = field(default_factory=dict)
    source: CodePlace = field(default_factory=CodePlace)
    _width: int = 0

    @property
    def input(self) -> Wire:
        """What the program starts from."""
        return Wire("x", self.columns)

    @property
    def grows(self) -> bool:
        """Whether anything written so far changes how fast values grow."""
        kinds = (RULES[step.target].kind for step in self.steps if step.target in RULES)
        return "growth" in kinds

    def constant(self, values: Any, dtype: Any = np.float64) -> Ref:
        """Keep an array of weights."""
        return self._keep(torch.from_numpy(np.array(values, dtype=dtype)))

    def step(self, target: Any, value: Wire, *args: Any, width: int | None = None) -> Wire:
        """Write one operation on a value; the result has the same width unless told."""
        return self._write(target, (Ref(value.name), *args), width or value.width)

    def _write(self, target: Any, args: tuple[Any, ...], width: int) -> Wire:
        name = f"v{len(self.steps)}"
        step = Step(name, target, args, source=self.source, shape=(-1, width))
        self.steps.append(step)
        self._width = max(self._width, width)
        return Wire(name, width)

    def linear(self, value: Wire, weight: Any, bias: Any = None) -> Wire:
        """``weight @ x + bias`` with ``weight`` of shape ``(outputs, inputs)``."""
        matrix = np.asarray(weight, dtype=np.float64)
        offset = np.zeros(len(matrix)) if bias is None else np.broadcast_to(bias, len(matrix))
        args = (self.constant(matrix), self.constant(offset))
        return self.step(aten.linear.default, value, *args, width=len(matrix))

    def scale(self, value: Wire, factors: Any) -> Wire:
        """Multiply columns."""
        return self.step(aten.mul.Tensor, value, self.constant(factors))

    def divide(self, value: Wire, divisors: Any) -> Wire:
        """Divide columns, which rounds otherwise than a product with reciprocals."""
        return self.step(aten.div.Tensor, value, self.constant(divisors))

    def shift(self, value: Wire, offsets: Any) -> Wire:
        """Add to columns."""
        return self.step(aten.add.Tensor, value, self.constant(offsets))

    def select(self, value: Wire, places: Any) -> Wire:
        """Take some columns, in any order."""
        chosen = np.asarray(places, dtype=np.int64)
        if np.array_equal(chosen, np.arange(value.width)):
            return value
        where = self.constant(chosen, np.int64)
        return self.step(aten.index_select.default, value, 1, where, width=len(chosen))

    def concatenate(self, *values: Wire) -> Wire:
        """Put values beside one another."""
        if len(values) == 1:
            return values[0]
        width = sum(each.width for each in values)
        return self._write(aten.cat.default, ([Ref(each.name) for each in values], 1), width)

    def add(self, first: Wire, second: Wire) -> Wire:
        """Add two values of one width."""
        return self._write(aten.add.Tensor, (Ref(first.name), Ref(second.name)), first.width)

    def product(self, first: Wire, second: Wire) -> Wire:
        """Multiply two values of one width, element by element."""
        return self._write(multiply, (Ref(first.name), Ref(second.name)), first.width)

    def quotient(self, value: Wire, divisor: Wire) -> Wire:
        """Divide every column by one that is a value, too."""
        return self._write(divide, (Ref(value.name), Ref(divisor.name)), value.width)

    def bend(self, value: Wire, pieces: Pieces) -> Wire:
        """Apply one piecewise-affine function to every element."""
        return self.step(bend, value, pieces)

    def take_steps(self, value: Wire, steps: Steps) -> Wire:
        """Apply piecewise-constant functions of single columns."""
        return self.step(take_steps, value, steps, width=len(steps))

    def warp(self, value: Wire, exponents: Any, *, beyond: bool = False) -> Wire:
        """Raise columns to powers as Box and Cox do, or one plus each of them."""
        return self.step(box_cox, value, self.constant(exponents), beyond)

    def apply(self, value: Wire, function: RowFunction, width: int) -> Wire:
        """Apply a function of whole rows."""
        return self.step(apply_row, value, function, width=width)

    def fill(self, value: Wire, fills: Any) -> Wire:
        """Put numbers where values are missing."""
        return self.step(fill_missing, value, self.constant(fills))

    def origins(self, value: Wire) -> list[int | None]:
        """The input column that each column is, gaps apart; ``None`` for what was computed."""
        made = {step.name: step for step in self.steps}
        return [self._origin(made, value.name, place) for place in range(value.width)]

    def _origin(self, made: Mapping[str, Step], name: str, place: int) -> int | None:
        if name == self.input.name:
            return place
        step = made[name]
        if step.target is aten.index_select.default:
            place = int(self.constants[step.args[2].name][place])
        elif step.target is aten.cat.default:
            for part in step.args[0]:
                shape = made[part.name].shape if part.name in made else None
                width = self.columns if shape is None else shape[1]
                if place < width:
                    return self._origin(made, part.name, place)
                place -= width
        elif step.target not in (fill_missing, aten.alias.default):
            return None
        return self._origin(made, step.args[0].name, place)

    def include(self, value: Wire, program: Program, constants: Mapping[str, Tensor]) -> Wire:
        """Write all of another program behind a value."""
        names = {program.input: Ref(value.name)}
        names |= {name: self._keep(tensor) for name, tensor in constants.items()}
        for step in program.steps:
            table = {name: names.get(name, Ref(name)) for name in step.refs()}
            args, kwargs = step.bind(table)
            name = f"v{len(self.steps)}"
            self.steps.append(replace(step, name=name, args=args, kwargs=kwargs))
            names[step.name] = Ref(name)
        self._width = max(self._width, program.width)
        found = names[program.output].name
        if not program.output_shape:
            return self._write(aten.view.default, (Ref(found), [-1, 1]), 1)
        return Wire(found, program.output_shape[0])

    def _keep(self, tensor: Tensor) -> Ref:
        name = f"c{len(self.constants)}"
        self.constants[name] = tensor
        return Ref(name)

    def program(self, output: Wire) -> Program:
        """What was written so far, up to a value."""
        if output.name == "x":
            output = self.step(aten.alias.default, output)
        return Program(
            steps=tuple(self.steps),
            input="x",
            output=output.name,
            input_shape=(self.columns,),
            output_shape=(output.width,),
            width=max(self.columns, self._width),
        )
