"""Walk rows through an ensemble of trees, all trees at once, level by level.

A split only asks on which side of a threshold its column is. So columns are first turned into
*codes*, by steps: a code counts the thresholds below the value. What NaN and zero count as, and
sets of categories, differ from split to split; so a column has one code for each way in which
splits look at it. Children stand side by side, and a leaf leads to itself: a level of all trees
and many rows is four look-ups and a comparison, the first two levels only comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import CaptureError
from farfield.graph.reading import InputColumn, Reading, Wire, Writer
from farfield.graph.rules import RowFunction, Steps
from farfield.graph.trees.compare import Ends
from farfield.graph.trees.ensemble import Integers, TreeEnsemble
from farfield.graph.trees.levels import TreeLevels, past

# How many (row, tree) pairs are walked together: what stays in the second cache.
BLOCK = 1 << 16
# More nodes, or codes of a block, than 32 bits can count.
MOST = 2**31 - 1
# How many products take as long as a row's step from one level of a tree to the next.
LOOK_UP = 60
# What LightGBM takes for zero.
ZERO = float(np.float32(1e-35))


def write_trees(writer: Writer, value: Wire, ensemble: TreeEnsemble) -> Wire:
    """Write an ensemble into a program: codes of columns, then what the leaves add up to."""
    steps, packed = pack(ensemble)
    return writer.apply(writer.take_steps(value, steps), packed, ensemble.outputs)


def as_reading(
    ensemble: TreeEnsemble,
    *,
    labels: tuple[Any, ...] | None,
    columns: tuple[InputColumn, ...],
    notes: tuple[str, ...] = (),
) -> Reading:
    """Read an ensemble that gives logits; one logit ``f`` stands for ``(0, f)``."""
    writer = Writer(ensemble.columns)
    program = writer.program(write_trees(writer, writer.input, ensemble))
    return Reading(program, writer.constants, "softmax", labels, columns, notes, ensemble)


@dataclass(frozen=True, eq=False, repr=False)
class PackedTrees(RowFunction):
    """What an ensemble makes of the codes of a row. Whole numbers have 32 bits, for speed.

    Attributes:
        code: ``(nodes,)`` which code a node looks at.
        most: ``(nodes,)`` the largest code that goes left; at leaves all do.
        left: ``(nodes,)`` the left child, its neighbour being the right one; a leaf's is itself.
        leaf: ``(nodes,)`` the number of a leaf.
        roots: ``(trees,)``.
        depth: How many levels the deepest tree has below its root.
        values: ``(leaves, width)``.
        output: ``(trees,)`` the first output that a tree adds to.
        base: ``(outputs,)``.
        shares: Whether the outputs are always a distribution, or one a share of it.
    """

    code: Tensor
    most: Tensor
    left: Tensor
    leaf: Tensor
    roots: Tensor
    depth: int
    values: Tensor
    output: Tensor
    base: Tensor
    shares: bool = False

    def __call__(self, rows: Tensor) -> Tensor:
        """Add up the leaves that rows of codes end in, ``(rows, outputs)``."""
        out = torch.empty(len(rows), len(self.base), dtype=torch.float64)
        size = max(1, BLOCK // len(self.roots))
        for first in range(0, len(rows), size):
            part = slice(first, first + size)
            columns = rows[part].to("cpu", torch.int32).T.contiguous()
            places = None if self._levels is None else self._levels(columns)
            if places is None:
                out[part] = self._sums(self._ends(columns), *self._by_node)
            else:
                out[part] = self._sums(places, *self._by_place)
        return out.to(rows)

    @cached_property
    def _levels(self) -> TreeLevels | None:
        """Shallow trees by their levels, which are walked in less time."""
        return TreeLevels.of(self.code, self.most, self.left, self.roots, self.depth)

    @cached_property
    def _by_node(self) -> tuple[Tensor, Tensor | None]:
        """``(nodes,)`` the number of the leaf that a node is, and its value if it has one."""
        return self.leaf, self._heights(self.leaf)

    @cached_property
    def _by_place(self) -> tuple[Tensor, Tensor | None]:
        """The same for the places that rows end in, level by level."""
        leaf = self.leaf if self._levels is None else self.leaf[self._levels.ends]
        return leaf, self._heights(leaf)

    def _heights(self, leaf: Tensor) -> Tensor | None:
        """Values of leaves that have one: numbers are looked up faster than rows that hold one."""
        return self.values.reshape(-1)[leaf] if self.values.shape[1] == 1 else None

    def _ends(self, columns: Tensor) -> Tensor:
        """``(trees * rows,)`` the node that each row ends in, tree by tree."""
        rows = columns.shape[1]
        flat, code = columns.reshape(-1), self.code * rows
        row = torch.arange(rows, dtype=torch.int32).repeat(len(self.roots))
        node = self._second(columns).reshape(-1)
        for _ in range(self.depth - 2):
            place = code.index_select(0, node).add_(row)
            most = self.most.index_select(0, node)
            below = past(most, flat.index_select(0, place))
            node = self.left.index_select(0, node).sub_(below)
        return node

    def _second(self, columns: Tensor) -> Tensor:
        """``(trees, rows)`` the nodes two levels down, or leaves: whole columns are compared."""
        left = self.left[self.roots]
        right = (left + 1).clamp_(max=len(self.left) - 1)
        first, *children = (
            past(self.most[node, None], columns.index_select(0, self.code[node]))
            for node in (self.roots, left, right)
        )
        lower, upper = (
            self.left[node, None] - past for node, past in zip((left, right), children, strict=True)
        )
        return lower.add_(first.bitwise_and_(upper.sub_(lower)))

    def _sums(self, ends: Tensor, leaf: Tensor, heights: Tensor | None) -> Tensor:
        """Add up what ``(trees * rows,)`` ends have as values, ``(rows, outputs)``."""
        width, trees = self.values.shape[1], len(self.roots)
        if heights is not None:
            each = heights.index_select(0, ends).reshape(trees, -1)
            if len(self.base) == 1:
                return each.sum(dim=0)[:, None] + self.base
            found = each.T.contiguous()[..., None]
        else:
            leaves = leaf.index_select(0, ends).reshape(trees, -1).T
            found = self.values.index_select(0, leaves.reshape(-1)).reshape(*leaves.shape, width)
        if width == len(self.base):
            return found.sum(dim=1) + self.base
        out = self.base.repeat(len(found), 1)
        for place in range(width):
            out.index_add_(1, self.output + place, found[..., place])
        return out

    def lead(self, one: int | None, other: int | None) -> float:
        """Add up, tree by tree, the leaf that puts one output furthest ahead of another."""
        nodes = torch.nonzero(self.left == torch.arange(len(self.left))).flatten()
        tree = torch.searchsorted(self.roots, nodes.to(self.roots), right=True) - 1
        leaf = self.leaf[nodes].long()
        ahead = self._added(leaf, tree, one) - self._added(leaf, tree, other)
        best = ahead.new_full((len(self.roots),), -torch.inf)
        best.scatter_reduce_(0, tree, ahead, "amax")
        start = [0.0 if place is None else float(self.base[place]) for place in (one, other)]
        return start[0] - start[1] + float(best.sum()) + 2 * self.error

    def _added(self, leaf: Tensor, tree: Tensor, output: int | None) -> Tensor:
        """What leaves of trees add to an output."""
        if output is None:
            return self.values.new_zeros(len(leaf))
        place = output - self.output[tree]
        width = self.values.shape[1]
        found = self.values[leaf, place.clamp(0, width - 1)]
        return torch.where((place >= 0) & (place < width), found, 0.0)

    @property
    def parameters(self) -> int:
        """The values of the leaves."""
        return self.values.numel()

    @property
    def work(self) -> float:
        """A level of a tree is a few look-ups, which do not come one after another."""
        return float(LOOK_UP * len(self.roots) * self.depth)

    @property
    def error(self) -> float:
        """Rounding of a sum over trees, of leaves that are as large as any."""
        largest = float(self.values.abs().max()) * len(self.roots) + float(self.base.abs().max())
        return 2.0**-52 * (len(self.roots) + 2) * largest


def pack(ensemble: TreeEnsemble) -> tuple[Steps, PackedTrees]:
    """Turn an ensemble into codes of columns and a walk over them."""
    if len(ensemble.feature) > MOST or ensemble.trees * len(ensemble.base) > MOST:
        raise CaptureError(f"the ensemble is too large: {len(ensemble.feature)} nodes")
    code, limit, steps = _codes(ensemble)
    position, depth = _side_by_side(ensemble)
    inner = ensemble.feature >= 0
    child = np.where(inner, position[np.where(inner, ensemble.left, 0)], position)
    packed = PackedTrees(
        code=_placed(np.where(inner, code, 0), position),
        most=_placed(np.where(inner, limit, MOST), position),
        left=_placed(child, position),
        leaf=_placed(np.where(inner, 0, ensemble.left), position),
        roots=torch.from_numpy(position[ensemble.roots]),
        depth=depth,
        values=torch.from_numpy(ensemble.values),
        output=torch.from_numpy(ensemble.output.astype(np.int64)),
        base=torch.from_numpy(ensemble.base),
    )
    return steps, packed


def _placed(numbers: NDArray[Any], position: Integers) -> Tensor:
    """Numbers of nodes where the nodes are put."""
    found = np.empty(len(numbers), dtype=np.int32)
    found[position] = numbers
    return torch.from_numpy(found)


def _side_by_side(ensemble: TreeEnsemble) -> tuple[Integers, int]:
    """Where each node is put, tree by tree with children side by side, and the depth."""
    position = np.full(len(ensemble.feature), -1, dtype=np.int32)
    free = ensemble.roots.copy()
    level, tree = ensemble.roots, np.arange(len(free), dtype=np.int32)
    depth = -1
    while len(level):
        # Nodes of a level come tree by tree: each is as far behind its tree's first as before.
        counts = np.bincount(tree, minlength=len(free)).astype(np.int32)
        first = np.cumsum(counts, dtype=np.int32) - counts
        position[level] = np.arange(len(level), dtype=np.int32) + (free - first)[tree]
        free += counts
        depth += 1
        inner = ensemble.feature[level] >= 0
        level, tree = level[inner], tree[inner].repeat(2)
        level = np.stack([ensemble.left[level], ensemble.right[level]], axis=1).reshape(-1)
    lost = np.flatnonzero(position < 0)
    if len(lost):  # nodes that no path leads to
        position[lost] = np.setdiff1d(np.arange(len(position)), position)
    return position, depth


def _codes(
    ensemble: TreeEnsemble,
) -> tuple[Integers, Integers, Steps]:
    """One code for each way to look at a column; for each node its code, and what goes left."""
    inner = ensemble.feature >= 0
    plain = inner & (ensemble.category < 0)
    code = np.zeros(len(ensemble.feature), dtype=np.int32)
    limit = np.zeros(len(ensemble.feature), dtype=np.int32)
    outputs: list[tuple[int, Any, Any, float]] = []
    for kind, nodes in _alike(ensemble, np.flatnonzero(plain)):
        breaks, place = np.unique(ensemble.threshold[nodes], return_inverse=True)
        code[nodes], limit[nodes] = len(outputs), place
        outputs.append(_thresholds(kind // 4, breaks, bool(kind & 2), left=bool(kind & 1)))
    sets = np.flatnonzero(inner & (ensemble.category >= 0))
    kinds, place = np.unique(
        np.stack([ensemble.feature, ensemble.category, ensemble.missing_left], axis=1)[sets],
        axis=0,
        return_inverse=True,
    )
    code[sets] = len(outputs) + place.reshape(-1)
    for column, members, left in kinds.tolist():
        outputs.append(_membership(column, ensemble.sets[members], left=bool(left)))
    # Trees of leaves alone look at no column; there must be a code all the same.
    return code, limit, Steps.of(outputs or [(0, (), (0.0,), 0.0)])


def _alike(ensemble: TreeEnsemble, nodes: NDArray[np.int64]) -> Iterator[tuple[int, Any]]:
    """Group nodes by their column and by what they take for missing, and where that goes."""
    if not len(nodes):
        return
    look = 4 * ensemble.feature[nodes]
    look += 2 * ensemble.zero_missing[nodes] + ensemble.missing_left[nodes]
    order = np.argsort(look, kind="stable")
    nodes, look = nodes[order], look[order]
    starts = np.flatnonzero(np.diff(look, prepend=-1))
    for start, group in zip(starts.tolist(), np.split(nodes, starts[1:]), strict=True):
        yield int(look[start]), group


def _thresholds(
    column: int, breaks: NDArray[np.float64], zero: bool, *, left: bool
) -> tuple[int, Any, Any, float]:
    """Count thresholds below a value; what is missing is below or above all of them."""
    absent = 0.0 if left else float(len(breaks))
    if not zero:
        # No number gets beyond infinite thresholds, however far it goes.
        finite, first = breaks[np.isfinite(breaks)], float((breaks == -np.inf).sum())
        return column, finite, first + np.arange(len(finite) + 1.0), absent
    low, high = np.nextafter(-ZERO, -np.inf), ZERO
    outside = breaks[((breaks < low) | (breaks > high)) & np.isfinite(breaks)]
    ends = np.unique(np.concatenate([outside, [low, high]]))
    # On each interval count the breaks below its upper end; zero itself goes with the missing.
    heights = np.searchsorted(breaks, np.append(ends, np.inf)).astype(float)
    heights[np.flatnonzero(ends == high)[0]] = absent
    return column, ends, heights, absent


def _membership(column: int, ends: Ends, *, left: bool) -> tuple[int, Any, Any, float]:
    """0 inside of a set, 1 outside."""
    return column, ends, (np.arange(len(ends) + 1) + 1) % 2 * 1.0, 0.0 if left else 1.0
