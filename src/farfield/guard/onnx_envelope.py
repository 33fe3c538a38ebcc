"""What an envelope gives out beside a model's outputs, as nodes of an ONNX graph.

Of several largest values the first counts, by comparison with the largest: ``ArgMax`` of doubles
is younger than the oldest operator set. Names are strings that are picked by position, so nobody
has to look them up elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from farfield.data.columns import Columns
from farfield.guard.covered import VALUES, Covered
from farfield.guard.onnx_mixture import Scores, add_guarded
from farfield.guard.onnx_nodes import (
    BOOL,
    DOUBLE,
    INT64,
    STRING,
    CoveredNodes,
    Names,
    Nodes,
    Numbers,
    add_strange,
    beyond_ranges,
    to_balls,
    to_components,
    to_groups,
)
from farfield.guard.views.balls import Balls
from farfield.guard.views.categories import Categories
from farfield.guard.views.density import Density
from farfield.guard.views.features import Features
from farfield.guard.views.neighbours import Neighbours
from farfield.guard.views.ranges import Ranges
from farfield.guard.views.units import Units

# Outputs in their order, with their types; guarded probabilities have that of the scores.
OUTPUTS = {"inside": BOOL, "distance": DOUBLE, "view": STRING, "column": STRING, "guarded": None}
# Numbers that follow from others by a solver, whose last bits are the machine's own.
DERIVED = "derived."


def add_envelope(
    nodes: Nodes,
    covered: Covered,
    columns: Columns,
    seen: CoveredNodes,
    own: str,
    scores: Scores,
    outputs: Sequence[str],
) -> None:
    """Add the outputs of an envelope.

    Args:
        nodes: Where to add them.
        covered: The covered set.
        columns: Their names.
        seen: What the covered set says of rows.
        own: The model's scores.
        scores: What they are.
        outputs: What to call them, in the order of :data:`OUTPUTS`.
    """
    inside, distance, view, column, guarded = outputs
    flat = nodes.array("flat", np.array([-1], dtype=np.int64))
    nodes.add("Reshape", seen.distance, flat, out=distance)
    nodes.add("Not", nodes.add("Greater", distance, nodes.number(0.0)), out=inside)
    views, count = (*covered.names, VALUES), len(covered.names)
    worst = nodes.add(
        "Where", seen.all_finite, _largest(nodes, seen.each, count), nodes.number(float(count))
    )
    names = [columns.name(place) for place in range(columns.width)]
    _named(nodes, seen, worst, views, view)
    _named(nodes, seen, _worst_column(nodes, covered, seen, worst), names, column)
    add_guarded(nodes, own, seen.temperature, scores, guarded)


def _largest(nodes: Nodes, values: str, count: int) -> str:
    """The position of the first of the largest values, ``(rows, 1)`` doubles."""
    lower = nodes.add("Less", values, nodes.reduce("ReduceMax", values))
    places = nodes.array(f"places.{count}", np.arange(count, dtype=np.float64))
    found = nodes.add("Where", lower, nodes.number(float("inf")), places)
    return nodes.reduce("ReduceMin", found)


def _named(nodes: Nodes, seen: CoveredNodes, place: str, names: Sequence[str], out: str) -> str:
    """Names at positions, none inside."""
    known = nodes.array(f"names.{out}", np.array([*names, ""], dtype=object))
    outside = nodes.add("Greater", seen.distance, nodes.number(0.0))
    place = nodes.add("Where", outside, place, nodes.number(float(len(names))))
    return nodes.add("Gather", known, _flat(nodes, place), axis=0, out=out)


def _flat(nodes: Nodes, place: str) -> str:
    """Positions as ``(rows,)`` whole numbers."""
    flat = nodes.array("flat", np.array([-1], dtype=np.int64))
    return nodes.add("Cast", nodes.add("Reshape", place, flat), to=INT64)


def _worst_column(nodes: Nodes, covered: Covered, seen: CoveredNodes, worst: str) -> str:
    """The column that the worst view blames; the first that holds no number, if there is one."""
    names = Numbers(nodes, covered)
    missing = nodes.double(nodes.add("Not", seen.finite))
    found = _largest(nodes, missing, covered.columns)
    for index, view in enumerate(covered.each_view):
        own = names.below(f"views.{index}.")
        column = _BLAMED[type(view)](nodes, covered, index, own, seen.place)
        other = nodes.add("Abs", nodes.add("Sub", worst, nodes.number(float(index))))
        found = nodes.add("Where", nodes.add("Less", other, nodes.number(0.5)), column, found)
    return found


def _numeric(nodes: Nodes, covered: Covered, away: str) -> str:
    """The column that is furthest away, among numeric ones."""
    found = _largest(nodes, away, len(covered.numeric))
    if not len(covered.other):
        return found
    upright = nodes.array("upright", np.array([-1, 1], dtype=np.int64))
    numeric = Numbers(nodes, covered)["numeric"]
    place = nodes.add("Gather", numeric, _flat(nodes, found), axis=0)
    return nodes.double(nodes.add("Reshape", place, upright))


def _nearest(nodes: Nodes, away: str, count: int) -> str:
    """The first of the nearest."""
    return _flat(nodes, _largest(nodes, nodes.add("Sub", nodes.number(0.0), away), count))


def _balls(nodes: Nodes, covered: Covered, index: int, own: Numbers, place: Names) -> str:
    view: Any = covered.each_view[index]
    nearest = _nearest(nodes, to_balls(nodes, view, own, place), len(view.centres))
    back = _back(nodes, covered.whitened, "whitened.", index, own, nearest)
    return _furthest(nodes, covered, place, back)


def _neighbours(nodes: Nodes, covered: Covered, index: int, own: Numbers, place: Names) -> str:
    view: Any = covered.each_view[index]
    nearest = _nearest(nodes, to_groups(nodes, view, own, place), len(view.centres))
    units, prefix = covered.reduced or covered.whitened, "reduced."
    return _furthest(nodes, covered, place, _back(nodes, units, prefix, index, own, nearest))


def _density(nodes: Nodes, covered: Covered, index: int, own: Numbers, place: Names) -> str:
    view: Any = covered.each_view[index]
    nearest = _nearest(nodes, to_components(nodes, view, own, place), len(view.shifts))
    return _furthest(nodes, covered, place, _derived(nodes, view, index, nearest))


def _furthest(nodes: Nodes, covered: Covered, place: Names, back: str) -> str:
    return _numeric(nodes, covered, nodes.add("Abs", nodes.add("Sub", place["standard"], back)))


def _back(nodes: Nodes, units: Units, prefix: str, index: int, own: Numbers, nearest: str) -> str:
    """Standardised rows at the nearest centres."""
    if units.kind == "full":
        return _derived(nodes, own.covered.each_view[index], index, nearest)
    found = nodes.add("Gather", own["centres"], nearest, axis=0)
    if units.matrix is None:
        return found
    names = Numbers(nodes, own.covered)
    count = units.matrix.shape[1]
    first = nodes.array(f"components.{count}", np.arange(count, dtype=np.int64))
    wide = nodes.add("Mul", found, names[f"{prefix}spread"])
    wide = nodes.add("Gather", wide, first, axis=1)
    turned = nodes.add("Transpose", names[f"{prefix}matrix"], perm=[1, 0])
    return nodes.add("MatMul", wide, turned)


def _derived(nodes: Nodes, view: Any, index: int, nearest: str) -> str:
    known = nodes.array(f"{DERIVED}{index}", view.inputs.detach().cpu().numpy())
    return nodes.add("Gather", known, nearest, axis=0)


def _ranges(nodes: Nodes, covered: Covered, _: int, own: Numbers, place: Names) -> str:
    return _largest(nodes, beyond_ranges(nodes, own, place), covered.columns)


def _categories(nodes: Nodes, covered: Covered, index: int, own: Numbers, place: Names) -> str:
    """Values, and columns of one-hot blocks, in the order of the columns they are in."""
    view: Any = covered.each_view[index]
    found = add_strange(nodes, view, own, place)
    many = nodes.number(float(len(view.places)))
    unknown = nodes.add("Gather", nodes.add("Mul", found.unknown, many), own["variable"], axis=1)
    blame, columns = nodes.add("Add", found.pairs, unknown), view.places.numpy()
    if found.neither is not None:
        blame = nodes.add("Concat", blame, nodes.add("Mul", found.neither, many), axis=1)
        columns = np.concatenate([columns, view.binary.numpy()])
    order = np.argsort(columns, kind="stable")
    sorted_ = nodes.add("Gather", blame, nodes.array(f"order.{index}", order), axis=1)
    known = nodes.array(f"blamed.{index}", columns[order].astype(np.float64)[:, None])
    return nodes.add("Gather", known, _flat(nodes, _largest(nodes, sorted_, len(order))), axis=0)


def _features(nodes: Nodes, covered: Covered, _: int, __: Numbers, ___: Names) -> str:
    """None: the position of the empty name."""
    return nodes.number(float(covered.columns))


_BLAMED: dict[type, Any] = {
    Balls: _balls,
    Ranges: _ranges,
    Neighbours: _neighbours,
    Density: _density,
    Categories: _categories,
    Features: _features,
}
