"""One node of an ONNX graph as its operator sees it, and the table of operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from farfield.errors import CaptureError
from farfield.graph.onnx.files import ModelFile, decode_text, normal_domain
from farfield.graph.onnx.trace import Data, Known, ProgramBuilder, Refusal, Value, plain

if TYPE_CHECKING:
    from onnx import NodeProto

LEARNED = "ai.onnx.ml"


@dataclass(frozen=True)
class Node:
    """A node with its inputs read.

    Attributes:
        operator: The operator's name.
        version: The version of the operator set it belongs to.
        inputs: The values it reads; ``None`` for an optional input that is left out.
        attributes: Its attributes as plain Python values; tensors are known values.
        outputs: How many of its outputs have a name.
    """

    operator: str
    version: int
    inputs: Sequence[Value | None]
    attributes: dict[str, Any]
    outputs: int

    def __getitem__(self, place: int) -> Value:
        """An input that must be there."""
        value = self.optional(place)
        if value is None:
            raise Refusal(f"input {place} is missing")
        return value

    def optional(self, place: int) -> Value | None:
        """An input, or ``None`` where it is left out."""
        return self.inputs[place] if place < len(self.inputs) else None

    def all(self) -> list[Value]:
        """Every input of an operator that takes any number of them."""
        return [self[place] for place in range(len(self.inputs))]

    def data(self, place: int = 0) -> Data:
        """An input that must depend on the model's input."""
        value = self[place]
        if isinstance(value, Known):
            raise Refusal("is applied to a constant")
        return value

    def known(self, place: int, what: str) -> Known:
        """An input that must not depend on the model's input."""
        value = self[place]
        if isinstance(value, Data):
            raise Refusal(f"its {what} depend on the input")
        return value

    def number(self, name: str, default: float) -> float:
        """An attribute that is one number."""
        value = self.attributes.get(name, default)
        if not isinstance(value, (int, float)) or value != value or abs(value) == float("inf"):
            raise Refusal(f"its attribute {name} is not a finite number")
        return float(value)

    def whole(self, name: str, default: int) -> int:
        """An attribute that is one whole number."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise Refusal(f"its attribute {name} is not a whole number")
        return value

    def text(self, name: str, default: str) -> str:
        """An attribute that is text."""
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise Refusal(f"its attribute {name} is not text")
        return value

    def numbers(self, name: str) -> list[float]:
        """An attribute that is a list of numbers."""
        value = self.attributes.get(name, [])
        if not isinstance(value, list) or any(isinstance(item, str) for item in value):
            raise Refusal(f"its attribute {name} is not a list of numbers")
        return value

    def integers(self, name: str, place: int | None = None) -> list[int] | None:
        """Whole numbers that older versions give as an attribute and newer ones as an input."""
        if name in self.attributes:
            return [int(item) for item in self.numbers(name)]
        value = self.optional(place) if place is not None else None
        return None if value is None else [int(item) for item in plain(value, name)]


Operator = Callable[[ProgramBuilder, Node], Value | tuple[Value | None, ...]]
OPERATORS: dict[tuple[str, str], Operator] = {}


def operator(*names: str, domain: str = "") -> Callable[[Operator], Operator]:
    """Register the reading of one or more operators."""

    def register(function: Operator) -> Operator:
        for name in names:
            if (domain, name) in OPERATORS:
                raise ValueError(f"{name} has a reading already")
            OPERATORS[domain, name] = function
        return function

    return register


def read_node(
    file: ModelFile, proto: NodeProto, inputs: Sequence[Value | None], opsets: dict[str, int]
) -> Node:
    """Decode a node's attributes.

    Raises:
        Refusal: If an attribute is a graph, as in control flow, or of an unknown kind.
    """
    attributes: dict[str, Any] = {}
    for item in proto.attribute:
        attributes[item.name] = _attribute(file, item)
    version = opsets.get(normal_domain(proto.domain), 1)
    return Node(proto.op_type, version, inputs, attributes, len(proto.output))


def _attribute(file: ModelFile, item: Any) -> Any:
    if item.ref_attr_name:
        raise Refusal(f"its attribute {item.name} belongs to a function of the file")
    if item.HasField("g") or item.graphs:
        raise Refusal("contains a graph of its own (control flow)")
    kind = int(item.type)
    if kind == 1:
        return float(item.f)
    if kind == 2:
        return int(item.i)
    if kind == 3:
        return decode_text([item.s])[0]
    if kind == 4:
        try:
            return Known(file.tensor(item.t, gaps=item.name == "membership_values"))
        except CaptureError as error:
            raise Refusal(str(error)) from error
    if kind == 6:
        return [float(number) for number in item.floats]
    if kind == 7:
        return [int(number) for number in item.ints]
    if kind == 8:
        return list(decode_text(item.strings))
    raise Refusal(f"its attribute {item.name} is of a kind that farfield does not read")


def as_float(value: Known) -> Known:
    """A known value as floating-point numbers."""
    if value.tensor.is_floating_point():
        return value
    other = None if value.other is None else value.other.to(torch.float64)
    return Known(value.tensor.to(torch.float64), other)
