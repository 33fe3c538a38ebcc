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
from farfield.guard.views.balls import Balls
from farfield.guard.views.categories import TOLERATED, Categories
from farfield.guard.views.density import Density
from farfield.guard.views.features import ROUNDED, Features
from farfield.guard.views.neighbours import Neighbours
from farfield.guard.views.ranges import Ranges
from farfield.guard.views.units import LARGEST as LARGEST_UNIT
from farfield.guard.views.units import Units

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

PREFIX = "farfield/"
Names = dict[str, str]
LEAST_OPSET = 9
FLOAT, INT64, STRING, BOOL, DOUBLE = 1, 7, 8, 9, 11


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


@dataclass(frozen=True)
class CoveredNodes:
    """Names of what a covered set says of rows.

    Attributes:
        each: Distances of every view, ``(rows, views)``.
        distance: The largest of them, ``(rows, 1)``.
        temperature: ``(rows, 1)``.
        finite: Whether values are numbers, ``(rows, columns)``.
        all_finite: Whether all of a row are, ``(rows, 1)``.
        place: Rows in the coordinates that views measure in.
    """

    each: str
    distance: str
    temperature: str
    finite: str
    all_finite: str
    place: Names


def add_covered(
    nodes: Nodes, covered: Covered, rows: str, features: str | None = None
) -> CoveredNodes:
    """Add distances and the temperature.

    Args:
        nodes: Where to add them.
        covered: The covered set.
        rows: Inputs side by side, as doubles.
        features: What the model's last layer reads, if a view looks at it.
    """
    names = Numbers(nodes, covered)
    infinite = nodes.number(float("inf"))
    rows = nodes.add("Where", nodes.add("IsNaN", rows), names["fill"], rows)
    finite = nodes.add("Less", nodes.add("Abs", rows), infinite)
    rows = nodes.add("Where", finite, rows, nodes.number(0.0))
    every = nodes.reduce("ReduceMin", nodes.double(finite))
    place = _place(nodes, covered, names, rows)
    if features is not None:
        place["features"] = nodes.double(features)
    each = []
    for index, view in enumerate(covered.each_view):
        own = names.below(f"views.{index}.")
        score = _SCORES[type(view)](nodes, view, own, place)
        each.append(nodes.add("Div", nodes.add("Sub", score, own["threshold"]), own["width"]))
    found = each[0] if len(each) == 1 else nodes.add("Concat", *each, axis=1)
    found = nodes.add("Where", nodes.add("IsNaN", found), infinite, found)
    all_finite = nodes.add("Greater", every, nodes.number(0.5))
    found = nodes.add("Where", all_finite, found, infinite)
    distance = nodes.reduce("ReduceMax", found)
    beyond = nodes.add("Max", distance, nodes.number(0.0))
    hot = nodes.square(nodes.add("Div", beyond, names["unit"]))
    hot = nodes.add("Add", hot, nodes.number(1.0))
    return CoveredNodes(found, distance, hot, finite, all_finite, place)


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


def to_balls(nodes: Nodes, _: Any, own: Numbers, place: Names) -> str:
    """Distance to every ball."""
    away = _lengths(nodes, place["whitened"], own["centres"])
    return nodes.add("Sub", away, own["radii"])


def _balls(nodes: Nodes, view: Any, own: Numbers, place: Names) -> str:
    return nodes.reduce("ReduceMin", to_balls(nodes, view, own, place))


def to_groups(nodes: Nodes, _: Any, own: Numbers, place: Names) -> str:
    """Distance to every group, in what is usual there."""
    away = _lengths(nodes, place["reduced"], own["centres"])
    return nodes.add("Div", away, own["scales"])


def _neighbours(nodes: Nodes, view: Any, own: Numbers, place: Names) -> str:
    return nodes.reduce("ReduceMin", to_groups(nodes, view, own, place))


def beyond_ranges(nodes: Nodes, own: Numbers, place: Names) -> str:
    """How far every column is beyond its range, in the unit of that end."""
    ends = [nodes.array(f"end.{end}", np.array(end, dtype=np.int64)) for end in (0, 1)]
    low, high = (nodes.add("Gather", own["unit"], end, axis=0) for end in ends)
    below = nodes.add("Div", nodes.add("Sub", own["low"], place["rows"]), low)
    above = nodes.add("Div", nodes.add("Sub", place["rows"], own["high"]), high)
    return nodes.clip(nodes.add("Max", above, below), 0.0, LARGEST_UNIT)


def _ranges(nodes: Nodes, _: Any, own: Numbers, place: Names) -> str:
    scaled = beyond_ranges(nodes, own, place)
    return nodes.add("Sqrt", nodes.reduce("ReduceSum", nodes.square(scaled)))


def to_components(nodes: Nodes, view: Density, own: Numbers, place: Names) -> str:
    """Squared distance to every component of the mixture."""
    count, columns = view.shifts.shape
    flat = nodes.add("Transpose", own["factors"], perm=[1, 0, 2])
    shape = nodes.array(
        f"density.{columns}.{count}", np.array([columns, count * columns], dtype=np.int64)
    )
    turned = nodes.add("MatMul", place["reduced"], nodes.add("Reshape", flat, shape))
    cube = nodes.array(f"density.{count}", np.array([-1, count, columns], dtype=np.int64))
    apart = nodes.add("Sub", nodes.add("Reshape", turned, cube), own["shifts"])
    squares = nodes.reduce("ReduceSum", nodes.square(apart), 2, keep=False)
    return nodes.add("Add", squares, own["offsets"])


def _density(nodes: Nodes, view: Density, own: Numbers, place: Names) -> str:
    return nodes.add("Sqrt", nodes.reduce("ReduceMin", to_components(nodes, view, own, place)))


def _features(nodes: Nodes, _: Features, own: Numbers, place: Names) -> str:
    scaled = nodes.add("Div", place["features"], own["scale"])
    ends = []
    for sign in (1.0, -1.0):
        end = nodes.add("Max", nodes.add("Mul", scaled, nodes.number(sign)), nodes.number(0.0))
        ends.append(nodes.add("Sqrt", nodes.add("Add", end, nodes.number(ROUNDED))))
    units = nodes.add("MatMul", nodes.add("Sub", *ends), own["matrix"])
    return nodes.reduce("ReduceMin", _lengths(nodes, units, own["centres"]))


@dataclass(frozen=True)
class Strange:
    """Names of what is strange about categories.

    Attributes:
        pairs: New pairs that each held value is in, ``(rows, values)``.
        unknown: Whether a variable holds no known value, ``(rows, variables)``.
        neither: Whether a column of a one-hot block is neither 0 nor 1; ``None`` without blocks.
    """

    pairs: str
    unknown: str
    neither: str | None


def add_strange(nodes: Nodes, view: Categories, own: Numbers, place: Names) -> Strange:
    """What is strange about categories, value by value."""
    rows, near = place["rows"], nodes.number(TOLERATED)
    apart = nodes.add("Sub", nodes.add("Gather", rows, own["places"], axis=1), own["values"])
    held = nodes.double(nodes.add("Not", nodes.add("Greater", nodes.add("Abs", apart), near)))
    pairs = nodes.add("Mul", nodes.add("MatMul", held, own["unseen"]), held)
    count = view.count
    index = nodes.array(f"variables.{count}", np.arange(count, dtype=np.int64))
    shape = nodes.array("upright", np.array([-1, 1], dtype=np.int64))
    member = nodes.double(nodes.add("Equal", nodes.add("Reshape", own["variable"], shape), index))
    # Counts are whole numbers: not one is more than a half away from it.
    odd = nodes.add("Sub", nodes.add("MatMul", held, member), nodes.number(1.0))
    unknown = nodes.double(nodes.add("Greater", nodes.add("Abs", odd), nodes.number(0.5)))
    if not len(view.binary):
        return Strange(pairs, unknown, None)
    bits = nodes.add("Gather", rows, own["binary"], axis=1)
    ones = nodes.add("Abs", nodes.add("Sub", bits, nodes.number(1.0)))
    least = nodes.add("Min", nodes.add("Abs", bits), ones)
    return Strange(pairs, unknown, nodes.double(nodes.add("Greater", least, near)))


def _categories(nodes: Nodes, view: Categories, own: Numbers, place: Names) -> str:
    found = add_strange(nodes, view, own, place)
    pairs = nodes.add("Div", nodes.reduce("ReduceSum", found.pairs), nodes.number(2.0))
    strange = nodes.reduce("ReduceSum", found.unknown)
    if found.neither is not None:
        strange = nodes.add("Add", strange, nodes.reduce("ReduceSum", found.neither))
    return nodes.add("Add", pairs, nodes.add("Mul", strange, own["weight"]))


_SCORES: dict[type, Any] = {
    Balls: _balls,
    Ranges: _ranges,
    Neighbours: _neighbours,
    Density: _density,
    Categories: _categories,
    Features: _features,
}
