"""Comparisons of an ONNX file's trees as onnxruntime makes them, and the ensemble they make.

It compares in the type of its input: where that is, or ever was, single precision, inputs are
rounded first. Splits by equality and membership become columns of their own, which say 0 or 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from farfield.graph.onnx.trace import Refusal
from farfield.graph.onnx.tree_layouts import (
    EQ,
    GTE,
    LEAF,
    LEQ,
    LT,
    MEMBER,
    NEQ,
    Damaged,
    Flags,
    Floats,
    Layout,
    Numbers,
)
from farfield.graph.rules import Steps
from farfield.graph.trees.compare import below, rounded_at_most
from farfield.graph.trees.ensemble import TreeBuilder, TreeEnsemble

# Probabilities of a file are rounded to float32.
TOLERANCE = 1e-5


@dataclass
class Splits:
    """Turns comparisons into ``x <= threshold``, with columns of their own for equality.

    Args:
        features: How many columns there are.
        single: Whether inputs are rounded to single precision.
    """

    features: int
    single: bool
    _columns: dict[tuple[int, frozenset[float], bool], int] = field(default_factory=dict)

    def read(self, layout: Layout) -> tuple[Numbers, Floats, Flags, Flags]:
        """Columns, thresholds, whether true is on the left, and whether NaN goes left."""
        mode, column = layout.mode, layout.feature.copy()
        strict = (mode == LT) | (mode == GTE)
        threshold = np.where(strict, below(layout.threshold), layout.threshold)
        threshold = self._rounded(threshold)
        left = (mode == LEQ) | (mode == LT) | (mode == NEQ)
        missing = np.where(left, layout.tracks, ~layout.tracks)
        for node in np.flatnonzero((mode == EQ) | (mode == NEQ) | (mode == MEMBER)).tolist():
            members = layout.members.get(node, frozenset([float(layout.threshold[node])]))
            absent = bool(layout.tracks[node]) and mode[node] != NEQ
            key = (int(column[node]), members, absent)
            column[node] = self._columns.setdefault(key, self.features + len(self._columns))
            threshold[node] = 0.5
        return np.where(mode == LEAF, -1, column), threshold, left, missing

    @property
    def width(self) -> int:
        """How many columns there are with those for equality."""
        return self.features + len(self._columns)

    def equalities(self) -> Steps | None:
        """The columns for equality, if there are any."""
        if not self._columns:
            return None
        return Steps.of([self._equality(*key) for key in self._columns])

    def _equality(self, column: int, members: frozenset[float], absent: bool) -> Any:
        """1 for some numbers, 0 for all others."""
        values = np.asarray(sorted(members), dtype=np.float64)
        ends: list[float] = []
        heights = [0.0]
        starts = np.nextafter(values, -np.inf)
        if self.single:
            narrow = values.astype(np.float32)
            values = values[narrow == values]  # other numbers never come
            starts = np.nextafter(values.astype(np.float32), np.float32(-np.inf)).astype(np.float64)
        for low, high in zip(self._rounded(starts), self._rounded(values), strict=True):
            if ends and ends[-1] == low:
                ends.pop()
                heights.pop()
            else:
                ends.append(float(low))
                heights.append(1.0)
            ends.append(float(high))
            heights.append(0.0)
        return column, ends, heights, float(absent)

    def _rounded(self, thresholds: Floats) -> Floats:
        return rounded_at_most(thresholds) if self.single else thresholds


def build(layout: Layout, splits: Splits, base: Floats, scale: float = 1.0) -> TreeEnsemble:
    """Put the trees together, every weight times ``scale``."""
    inner = layout.mode != LEAF
    if (layout.feature[inner] < 0).any():
        raise Damaged("has a split at a column below 0")
    if inner[layout.leaf].any():
        raise Damaged("has weights at nodes that are no leaves")
    if len(layout.target) and not 0 <= layout.target.min() <= layout.target.max() < len(base):
        raise Damaged(f"has weights for other outputs than its {len(base)}")
    keys = layout.leaf * len(base) + layout.target
    if len(np.unique(keys)) < len(keys):
        raise Refusal("has two weights for one output in one leaf")
    if (layout.feature[inner] >= splits.features).any():
        raise Damaged(
            f"looks at column {layout.feature[inner].max()} of rows of {splits.features} columns"
        )
    column, threshold, true_left, missing_left = splits.read(layout)
    outputs = _one_output(layout)
    width = len(base) if outputs is None else 1
    values = np.zeros((len(layout.mode), width))
    place = layout.target if outputs is None else 0
    values[layout.leaf, place] = layout.weight * scale
    left = np.where(true_left, layout.true, layout.false)
    right = np.where(true_left, layout.false, layout.true)
    builder = TreeBuilder(splits.width, base)
    for tree, (first, end) in enumerate(
        zip(layout.starts[:-1].tolist(), layout.starts[1:].tolist(), strict=True)
    ):
        here = slice(first, end)
        builder.add(
            feature=column[here],
            threshold=threshold[here],
            left=left[here] - first,
            right=right[here] - first,
            values=values[here],
            output=0 if outputs is None else int(outputs[tree]),
            missing_left=missing_left[here],
        )
    return builder.build()


def _one_output(layout: Layout) -> Numbers | None:
    """The output that each tree adds to, if every one adds to one alone."""
    trees = len(layout.starts) - 1
    tree = layout.tree[layout.leaf]
    lowest, highest = np.full(trees, np.iinfo(np.int64).max), np.full(trees, -1)
    np.minimum.at(lowest, tree, layout.target)
    np.maximum.at(highest, tree, layout.target)
    if (highest > lowest).any():
        return None
    found: Numbers = np.maximum(highest, 0)
    return found


def gives_shares(layout: Layout, base: Floats, scale: float) -> bool:
    """Whether the outputs are always a distribution, or one of them a share of it."""
    trees, weight = len(layout.starts) - 1, layout.weight * scale
    leaves = np.flatnonzero(layout.mode == LEAF)
    totals = np.bincount(layout.leaf, weight, len(layout.mode))[leaves]
    tree = layout.tree[leaves]
    least, most = np.full(trees, np.inf), np.full(trees, -np.inf)
    np.minimum.at(least, tree, totals)
    np.maximum.at(most, tree, totals)
    low, high = float(least.sum() + base.sum()), float(most.sum() + base.sum())
    if len(base) == 1:
        return low >= -TOLERANCE and high <= 1 + TOLERANCE
    even = abs(low - 1) <= TOLERANCE and abs(high - 1) <= TOLERANCE
    return even and bool((weight >= 0).all()) and bool((base >= 0).all())
