"""Ensembles of decision trees in one form, whatever library made them.

A reader gives trees as arrays; :class:`TreeBuilder` puts them one after another. What the ensemble
says is ``base + sum over trees of the leaf's values``: weights, learning rates and the division by
the number of trees are multiplied into the values by the reader. What comes after (softmax,
sigmoid, nothing because the values are probabilities) is for the reader's program to say.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import CaptureError
from farfield.graph.trees.compare import Ends, whole_categories

Floats = NDArray[np.float64]
Integers = NDArray[np.int32]
Flags = NDArray[np.bool_]
# Rows walk level by level; a chain of nodes would take as many steps as it has.
DEEPEST = 10_000


@dataclass(frozen=True, eq=False)
class TreeEnsemble:
    """Trees as arrays over all nodes, tree after tree.

    An inner node sends a row to its left child if

    * its column is NaN and ``missing_left``,
    * or is within 1e-35 of zero, ``zero_missing``, and ``missing_left``,
    * or the node has a set of categories, and the value is in it,
    * or it has no set and ``x <= threshold`` in float64
      (:mod:`farfield.graph.trees.compare` has the other comparisons).

    Attributes:
        columns: How many columns a row has.
        roots: ``(trees,)`` the first node of each tree.
        feature: ``(nodes,)`` the column that an inner node looks at, -1 at leaves.
        threshold: ``(nodes,)``.
        left: ``(nodes,)`` the child for rows that pass; at leaves the number of the leaf.
        right: ``(nodes,)`` the other child.
        missing_left: ``(nodes,)`` which way NaN goes.
        zero_missing: ``(nodes,)`` whether zero counts as missing.
        category: ``(nodes,)`` which of ``sets`` an inner node has, -1 for a threshold.
        sets: Sets of categories by their ends: ``x`` is inside if an odd number is below it.
        values: ``(leaves, width)`` what leaves add; trees of boosting have width 1.
        output: ``(trees,)`` the first output that a tree adds to.
        base: ``(outputs,)`` where the sum starts.
    """

    columns: int
    roots: Integers
    feature: Integers
    threshold: Floats
    left: Integers
    right: Integers
    missing_left: Flags
    zero_missing: Flags
    category: Integers
    sets: tuple[Ends, ...]
    values: Floats
    output: Integers
    base: Floats

    @property
    def trees(self) -> int:
        """How many trees there are."""
        return len(self.roots)

    @property
    def outputs(self) -> int:
        """How many numbers the ensemble gives per row."""
        return len(self.base)


@dataclass
class TreeBuilder:
    """Collects trees.

    Args:
        columns: How many columns a row has.
        base: ``(outputs,)`` where the sum of the leaves starts.
    """

    columns: int
    base: Any
    _parts: list[dict[str, NDArray[Any]]] = field(default_factory=list)
    _sets: dict[Ends, int] = field(default_factory=dict)
    _roots: list[int] = field(default_factory=list)
    _output: list[int] = field(default_factory=list)
    _nodes: int = 0
    _leaves: int = 0

    def add(
        self,
        *,
        feature: Any,
        threshold: Any,
        left: Any,
        right: Any,
        values: Any,
        output: int = 0,
        missing_left: Any = False,
        zero_missing: Any = False,
        sets: Sequence[frozenset[int] | Ends | None] | None = None,
    ) -> None:
        """Add a tree whose first node is its root.

        Args:
            feature: ``(nodes,)`` columns; negative at leaves.
            threshold: ``(nodes,)``.
            left: ``(nodes,)`` children within the tree; whatever at leaves.
            right: ``(nodes,)``.
            values: ``(nodes,)`` or ``(nodes, width)``; read at leaves alone.
            output: The first output that the tree adds to.
            missing_left: One for all, or ``(nodes,)``.
            zero_missing: One for all, or ``(nodes,)``.
            sets: ``(nodes,)`` sets of categories, ``None`` where a node has a threshold: whole
                numbers, or ends as :mod:`farfield.graph.trees.compare` makes them.

        Raises:
            CaptureError: If these are no tree: children out of range, visited twice, or columns
                that a row does not have.
        """
        column = np.asarray(feature, dtype=np.int64)
        count, leaf = len(column), column < 0
        children = [np.where(leaf, 0, np.asarray(side, dtype=np.int64)) for side in (left, right)]
        self._check(column, leaf, *children)
        heights = np.asarray(values, dtype=np.float64).reshape(count, -1)[leaf]
        if not np.isfinite(heights).all():
            raise CaptureError(f"tree {len(self._roots)} has a leaf whose value is not finite")
        at = np.asarray(threshold, dtype=np.float64)
        if np.isnan(at[~leaf]).any():
            raise CaptureError(f"tree {len(self._roots)} compares with NaN")
        number = np.cumsum(leaf) - 1 + self._leaves
        category = np.full(count, -1, dtype=np.int32)
        for node, members in enumerate(sets or ()):
            if members is not None:
                ends = members if isinstance(members, tuple) else whole_categories(members)
                category[node] = self._sets.setdefault(ends, len(self._sets))
        self._parts.append(
            {
                "feature": np.where(leaf, -1, column).astype(np.int32),
                "threshold": np.where(leaf, 0.0, at),
                "left": np.where(leaf, number, children[0] + self._nodes).astype(np.int32),
                "right": np.where(leaf, 0, children[1] + self._nodes).astype(np.int32),
                "missing_left": np.broadcast_to(np.asarray(missing_left, dtype=bool), count),
                "zero_missing": np.broadcast_to(np.asarray(zero_missing, dtype=bool), count),
                "category": category,
                "values": heights,
            }
        )
        self._roots.append(self._nodes)
        self._output.append(output)
        self._nodes += count
        self._leaves += int(leaf.sum())

    def _check(
        self, column: NDArray[np.int64], leaf: Flags, left: NDArray[np.int64], right: Any
    ) -> None:
        """See that every node but the root has one parent, which comes from a walk that ends."""
        name, count = f"tree {len(self._roots)}", len(column)
        if count == 0:
            raise CaptureError(f"{name} has no node")
        if column.max(initial=-1) >= self.columns:
            raise CaptureError(
                f"{name} looks at column {column.max()}, but rows have {self.columns} columns"
            )
        inner = np.flatnonzero(~leaf)
        children = np.concatenate([left[inner], right[inner]])
        if children.size and (children.min() < 1 or children.max() >= count):
            raise CaptureError(f"{name} has a child that is no node of it")
        parents = np.bincount(children, minlength=count)
        if parents[0] or not (parents[1:] <= 1).all():
            raise CaptureError(f"{name} is no tree: two nodes share a child")
        reached, level = 1, np.zeros(1, dtype=np.int64)
        for depth in itertools.count():
            level = level[~leaf[level]]
            if not level.size:
                break
            if depth > DEEPEST:
                raise CaptureError(f"{name} has more than {DEEPEST} levels, as no library grows it")
            level = np.concatenate([left[level], right[level]])
            reached += level.size
        if reached != np.count_nonzero(parents) + 1:
            raise CaptureError(f"{name} is no tree: it has nodes in a circle")

    def build(self) -> TreeEnsemble:
        """Put everything together; the builder is empty afterwards.

        Raises:
            CaptureError: If there is no tree, or trees add to outputs that do not exist.
        """
        base = np.array(self.base, dtype=np.float64).reshape(-1)
        if not self._parts:
            raise CaptureError("the ensemble has no trees")
        widths = {part["values"].shape[1] for part in self._parts}
        if len(widths) > 1 or max(self._output) + max(widths) > len(base):
            raise CaptureError(
                f"trees of {sorted(widths)} values do not fit an ensemble of {len(base)} outputs"
            )
        # Parts are given up as they are put together: large forests are never held twice.
        parts = {
            name: np.concatenate([part.pop(name) for part in self._parts])
            for name in tuple(self._parts[0])
        }
        self._parts = []
        return TreeEnsemble(
            columns=self.columns,
            roots=np.asarray(self._roots, dtype=np.int32),
            sets=tuple(self._sets),
            output=np.asarray(self._output, dtype=np.int32),
            base=base,
            **parts,
        )
