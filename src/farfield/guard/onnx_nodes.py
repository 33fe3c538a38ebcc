"""A covered set as nodes of an ONNX graph, in double precision.

The numbers of the covered set are initializers under their own names, so that a reader finds them
again, makes the same nodes of them, and sees whether the file holds exactly those. Only operators
that every operator set from 9 on has are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from farfield.errors import InputError
from farfield.guard.covered import Covered
from farfield.guard.mix import KEPT_APART, LARGEST, LEAST
from farfield.guard.views.balls import Balls
from farfield.guard.views.categories import TOLERATED, Categories
from farfield.guard.views.density import Density
from farfield.guard.views.neighbours import Neighbours
from farfield.guard.views.ranges import Ranges
from farfield.guard.views.units import LARGEST as LARGEST_UNIT
from farfield.guard.views.units import Units

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

PREFIX = "farfield/"
Names = dict[str, str]
LEAST_OPSET = 9
FLOAT, INT64, DOUBLE = 1, 7, 11
EPS = {FLOAT: float(np.finfo(np.float32).eps), DOUBLE: float(np.finfo(np.float64).eps)}


class Nodes:
    """Nodes and initializers under way.

    Args:
        opset: The operator set of the file, which says how axes are given.
    """

    def __init__(self, opset: int) -> None:
        if opset < LEAST_OPSET:
            raise InputError(
                f"the file uses operator set {opset}; a guard needs {LEAST_OPSET}. Convert it with "
                "onnx.version_converter.convert_version"
            )
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.tensors: dict[str, TensorProto] = {}

    def add(self, operator: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """Add a node; the name of its output."""
        from onnx import helper

        name = f"{PREFIX}{operator}.{len(self.nodes)}"
        out = out or name
        self.nodes.append(helper.make_node(operator, list(inputs), [out], name=name, **attributes))
        return out

    def array(self, name: str, values: Any) -> str:
        """Add an initializer; its full name."""
        from onnx import numpy_helper

        name = PREFIX + name
        if name not in self.tensors:
            self.tensors[name] = numpy_helper.from_array(np.array(values), name)
        return name

    def number(self, value: float) -> str:
        """A double by itself."""
        return self.array(f"number.{value!r}", np.array(value, dtype=np.float64))

    def reduce(self, operator: str, value: str, axis: int = 1, *, keep: bool = True) -> str:
        """Reduce over one axis."""
        kept = int(keep)
        if self.opset >= (13 if operator == "ReduceSum" else 18):
            axes = self.array(f"axis.{axis}", np.array([axis], dtype=np.int64))
            return self.add(operator, value, axes, keepdims=kept)
        return self.add(operator, value, axes=[axis], keepdims=kept)

    def square(self, value: str) -> str:
        """``x x``."""
        return self.add("Mul", value, value)

    def clip(self, value: str, low: float, high: float) -> str:
        """Between two numbers."""
        return self.add("Min", self.add("Max", value, self.number(low)), self.number(high))

    def double(self, value: str) -> str:
        """In double precision."""
        return self.add("Cast", value, to=DOUBLE)


class Numbers:
    """The numbers of a covered set, which become initializers when they are first used."""

    def __init__(self, nodes: Nodes, covered: Covered, prefix: str = "") -> None:
        self.nodes, self.covered, self.prefix = nodes, covered, prefix

    def below(self, prefix: str) -> Numbers:
        """Those whose names start with a prefix."""
        return Numbers(self.nodes, self.covered, self.prefix + prefix)

    def __getitem__(self, name: str) -> str:
        path = self.prefix + name
        own = self.covered
        value = own.numeric if path == "numeric" else own.state_dict()[path]
        return self.nodes.array(f"covered.{path}", value.detach().cpu().numpy())


def add_rows(nodes: Nodes, inputs: Sequence[str], columns: int) -> str:
    """Put inputs side by side as ``(rows, columns)`` doubles."""
    parts = [nodes.double(name) for name in inputs]
    whole = parts[0] if len(parts) == 1 else nodes.add("Concat", *parts, axis=1)
    shape = nodes.array("shape", np.array([-1, columns], dtype=np.int64))
    return nodes.add("Reshape", whole, shape)


def add_covered(nodes: Nodes, covered: Covered, rows: str) -> tuple[str, str]:
    """Distances of every view, ``(rows, views)``, and the temperature, ``(rows, 1)``."""
    names = Numbers(nodes, covered)
    infinite = nodes.number(float("inf"))
    rows = nodes.add("Where", nodes.add("IsNaN", rows), names["fill"], rows)
    finite = nodes.add("Less", nodes.add("Abs", rows), infinite)
    rows = nodes.add("Where", finite, rows, nodes.number(0.0))
    all_finite = nodes.reduce("ReduceMin", nodes.double(finite))
    place = _place(nodes, covered, names, rows)
    each = []
    for index, view in enumerate(covered.each_view):
        own = names.below(f"views.{index}.")
        score = _SCORES[type(view)](nodes, view, own, place)
        each.append(nodes.add("Div", nodes.add("Sub", score, own["threshold"]), own["width"]))
    found = each[0] if len(each) == 1 else nodes.add("Concat", *each, axis=1)
    found = nodes.add("Where", nodes.add("IsNaN", found), infinite, found)
    inside = nodes.add("Greater", all_finite, nodes.number(0.5))
    found = nodes.add("Where", inside, found, infinite)
    beyond = nodes.add("Max", nodes.reduce("ReduceMax", found), nodes.number(0.0))
    hot = nodes.square(nodes.add("Div", beyond, names["unit"]))
    return found, nodes.add("Add", hot, nodes.number(1.0))


def _place(nodes: Nodes, covered: Covered, names: Numbers, rows: str) -> Names:
    """Rows in the coordinates that views measure in."""
    if not len(covered.numeric):
        return {"rows": rows}
    own = rows if not len(covered.other) else nodes.add("Gather", rows, names["numeric"], axis=1)
    centred = nodes.add("Sub", own, names["whitened.mean"])
    scaled = nodes.add("Div", centred, names["whitened.unit"])
    standard = nodes.clip(scaled, -LARGEST_UNIT, LARGEST_UNIT)
    whitened = _units(nodes, covered.whitened, "whitened.", names, standard)
    reduced = whitened
    if covered.reduced is not None:
        reduced = _units(nodes, covered.reduced, "reduced.", names, standard)
    return {"rows": rows, "standard": standard, "whitened": whitened, "reduced": reduced}


def _units(nodes: Nodes, units: Units, prefix: str, names: Numbers, standard: str) -> str:
    if units.matrix is None:
        return standard
    found = nodes.add("MatMul", standard, names[f"{prefix}matrix"])
    if units.spread is None:
        return found
    whole = nodes.reduce("ReduceSum", nodes.square(standard))
    kept = nodes.reduce("ReduceSum", nodes.square(found))
    rest = nodes.add("Max", nodes.add("Sub", whole, kept), nodes.number(0.0))
    both = nodes.add("Concat", found, nodes.add("Sqrt", rest), axis=1)
    return nodes.add("Div", both, names[f"{prefix}spread"])


def _lengths(nodes: Nodes, units: str, centres: str) -> str:
    """``|u - c_k|``."""
    own = nodes.reduce("ReduceSum", nodes.square(units))
    turned = nodes.add("Transpose", centres, perm=[1, 0])
    cross = nodes.add("Mul", nodes.add("MatMul", units, turned), nodes.number(2.0))
    theirs = nodes.reduce("ReduceSum", nodes.square(turned), 0)
    squares = nodes.add("Add", nodes.add("Sub", own, cross), theirs)
    return nodes.add("Sqrt", nodes.add("Max", squares, nodes.number(0.0)))


def _balls(nodes: Nodes, _: Any, own: Numbers, place: Names) -> str:
    away = _lengths(nodes, place["whitened"], own["centres"])
    return nodes.reduce("ReduceMin", nodes.add("Sub", away, own["radii"]))


def _neighbours(nodes: Nodes, _: Any, own: Numbers, place: Names) -> str:
    away = _lengths(nodes, place["reduced"], own["centres"])
    return nodes.reduce("ReduceMin", nodes.add("Div", away, own["scales"]))


def _ranges(nodes: Nodes, _: Any, own: Numbers, place: Names) -> str:
    above = nodes.add("Sub", place["rows"], own["high"])
    below = nodes.add("Sub", own["low"], place["rows"])
    beyond = nodes.add("Max", nodes.add("Max", above, below), nodes.number(0.0))
    scaled = nodes.add("Min", nodes.add("Div", beyond, own["unit"]), nodes.number(LARGEST_UNIT))
    return nodes.add("Sqrt", nodes.reduce("ReduceSum", nodes.square(scaled)))


def _density(nodes: Nodes, view: Density, own: Numbers, place: Names) -> str:
    count, columns = view.shifts.shape
    flat = nodes.add("Transpose", own["factors"], perm=[1, 0, 2])
    shape = nodes.array(
        f"density.{columns}.{count}", np.array([columns, count * columns], dtype=np.int64)
    )
    turned = nodes.add("MatMul", place["reduced"], nodes.add("Reshape", flat, shape))
    cube = nodes.array(f"density.{count}", np.array([-1, count, columns], dtype=np.int64))
    apart = nodes.add("Sub", nodes.add("Reshape", turned, cube), own["shifts"])
    squares = nodes.reduce("ReduceSum", nodes.square(apart), 2, keep=False)
    return nodes.add("Sqrt", nodes.reduce("ReduceMin", nodes.add("Add", squares, own["offsets"])))


def _categories(nodes: Nodes, view: Categories, own: Numbers, place: Names) -> str:
    rows, near = place["rows"], nodes.number(TOLERATED)
    apart = nodes.add("Sub", nodes.add("Gather", rows, own["places"], axis=1), own["values"])
    held = nodes.double(nodes.add("Not", nodes.add("Greater", nodes.add("Abs", apart), near)))
    pairs = nodes.add("Mul", nodes.add("MatMul", held, own["unseen"]), held)
    pairs = nodes.add("Div", nodes.reduce("ReduceSum", pairs), nodes.number(2.0))
    count = view.member.shape[1]
    index = nodes.array(f"variables.{count}", np.arange(count, dtype=np.int64))
    shape = nodes.array("upright", np.array([-1, 1], dtype=np.int64))
    member = nodes.double(nodes.add("Equal", nodes.add("Reshape", own["variable"], shape), index))
    # Counts are whole numbers: not one is more than a half away from it.
    odd = nodes.add("Sub", nodes.add("MatMul", held, member), nodes.number(1.0))
    strange = _counted(nodes, nodes.add("Greater", nodes.add("Abs", odd), nodes.number(0.5)))
    if len(view.binary):
        bits = nodes.add("Gather", rows, own["binary"], axis=1)
        ones = nodes.add("Abs", nodes.add("Sub", bits, nodes.number(1.0)))
        least = nodes.add("Min", nodes.add("Abs", bits), ones)
        neither = _counted(nodes, nodes.add("Greater", least, near))
        strange = nodes.add("Add", strange, neither)
    return nodes.add("Add", pairs, nodes.add("Mul", strange, nodes.number(float(count))))


def _counted(nodes: Nodes, flags: str) -> str:
    return nodes.reduce("ReduceSum", nodes.double(flags))


_SCORES: dict[type, Any] = {
    Balls: _balls,
    Ranges: _ranges,
    Neighbours: _neighbours,
    Density: _density,
    Categories: _categories,
}


@dataclass(frozen=True)
class Scores:
    """What a model's scores are.

    Attributes:
        kind: ``"probabilities"`` or ``"logits"``.
        single: Whether there is one number for two classes.
        classes: Number of classes.
        element: Their type, float or double.
    """

    kind: str
    single: bool
    classes: int
    element: int

    @property
    def logits(self) -> bool:
        """Whether they are logits."""
        return self.kind == "logits"

    @property
    def apart(self) -> float:
        """By how much classes below the top stay below it, as a share."""
        return KEPT_APART * EPS[self.element]

    @property
    def even(self) -> float:
        """What every class of the uniform answer has."""
        return 0.0 if self.logits else 1.0 / self.classes


def add_mixture(nodes: Nodes, own: str, hot: str, scores: Scores, out: str) -> str:
    """Mix scores with the uniform answer.

    Args:
        nodes: Where to add them.
        own: The model's scores, ``(rows, classes)``, or ``(rows, 1)`` if single.
        hot: The temperature, ``(rows, 1)``.
        scores: What the scores are.
        out: Name of the mixed scores.
    """
    exact = nodes.double(own)
    none = nodes.reduce("ReduceMax", nodes.double(nodes.add("IsNaN", exact)))
    missing = nodes.add("Greater", none, nodes.number(0.5))
    mixed = (_mix_single if scores.single else _mix)(nodes, exact, hot, scores)
    cold = nodes.add("Not", nodes.add("Greater", hot, nodes.number(1.0)))
    kept = nodes.add("Where", cold, own, nodes.add("Cast", mixed, to=scores.element))
    filler = nodes.add("Cast", nodes.number(scores.even), to=scores.element)
    return nodes.add("Where", missing, filler, kept, out=out)


def _mix(nodes: Nodes, exact: str, hot: str, scores: Scores) -> str:
    p = exact
    if scores.logits:
        exact = nodes.clip(exact, -LARGEST, LARGEST)
        p = nodes.add("Softmax", exact, axis=1)
    below = nodes.add("Less", exact, nodes.reduce("ReduceMax", exact))
    share = nodes.number(1.0 / scores.classes)
    mixed = nodes.add("Add", share, nodes.add("Div", nodes.add("Sub", p, share), hot))
    if scores.logits:
        mixed = nodes.add("Log", nodes.add("Max", mixed, nodes.number(LEAST)))
        mixed = nodes.add("Sub", mixed, nodes.reduce("ReduceMax", mixed))
        lower = nodes.add("Min", mixed, nodes.number(-scores.apart))
        return nodes.add("Where", below, lower, nodes.number(0.0))
    highest = nodes.reduce("ReduceMax", mixed)
    lower = nodes.add("Min", mixed, nodes.add("Mul", highest, nodes.number(1.0 - scores.apart)))
    return nodes.add("Where", below, lower, highest)


def _mix_single(nodes: Nodes, exact: str, hot: str, scores: Scores) -> str:
    half, middle = nodes.number(0.5), nodes.number(scores.even)
    p = nodes.add("Sigmoid", exact) if scores.logits else exact
    mixed = nodes.add("Add", half, nodes.add("Div", nodes.add("Sub", p, half), hot))
    if scores.logits:
        bounded = nodes.clip(mixed, LEAST, 1.0 - EPS[DOUBLE])
        other = nodes.add("Sub", nodes.number(1.0), bounded)
        mixed = nodes.add("Sub", nodes.add("Log", bounded), nodes.add("Log", other))
    high = nodes.add("Max", mixed, nodes.number(scores.even + scores.apart))
    low = nodes.add("Min", mixed, nodes.number(scores.even - scores.apart))
    mixed = nodes.add("Where", nodes.add("Less", exact, middle), low, middle)
    return nodes.add("Where", nodes.add("Greater", exact, middle), high, mixed)
