"""The trees of an ONNX file, in both of its layouts, as one list of nodes and one of weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.graph.onnx.node import Node
from farfield.graph.onnx.trace import Known, Refusal

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF = range(8)
MODES = {
    "BRANCH_LEQ": LEQ,
    "BRANCH_LT": LT,
    "BRANCH_GTE": GTE,
    "BRANCH_GT": GT,
    "BRANCH_EQ": EQ,
    "BRANCH_NEQ": NEQ,
    "LEAF": LEAF,
}


class Damaged(Exception):  # noqa: N818 - the operators say where, and raise a CaptureError
    """Why the trees of a file are none."""


@dataclass(frozen=True)
class Layout:
    """Nodes of all trees, tree after tree, roots first; children are positions among all nodes.

    Attributes:
        starts: ``(trees + 1,)`` where each tree begins.
        mode: ``(nodes,)`` how a node compares.
        feature: ``(nodes,)``.
        threshold: ``(nodes,)``.
        true: ``(nodes,)`` the child if the comparison holds.
        false: ``(nodes,)`` the other child.
        tracks: ``(nodes,)`` whether NaN goes the way of true.
        members: For nodes that test membership, of what.
        target: ``(weights,)`` which output each weight is for.
        leaf: ``(weights,)`` the node that it belongs to.
        weight: ``(weights,)``.
    """

    starts: Numbers
    mode: Numbers
    feature: Numbers
    threshold: Floats
    true: Numbers
    false: Numbers
    tracks: Flags
    members: dict[int, frozenset[float]]
    target: Numbers
    leaf: Numbers
    weight: Floats

    @property
    def tree(self) -> Numbers:
        """``(nodes,)`` the tree of each node."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def always(self, target: int) -> bool:
        """Whether every row gets a weight for an output: all leaves of some tree have one."""
        given = np.zeros(len(self.mode), dtype=bool)
        given[self.leaf[self.target == target]] = True
        lacking = np.bincount(self.tree, (self.mode == LEAF) & ~given, len(self.starts) - 1)
        return bool((lacking == 0).any())


def read_listed(node: Node, prefix: str) -> Layout:
    """Read the layout of classifiers and regressors: nodes by tree and number, weights beside."""
    ids = _whole(node, "nodes_nodeids")
    trees = _whole(node, "nodes_treeids")
    modes = node.attributes.get("nodes_modes", [])
    if not len(ids) == len(trees) == len(modes) or not len(ids):
        raise Damaged(f"lists {len(ids)} nodes in {len(trees)} places with {len(modes)} modes")
    unknown = sorted({str(mode) for mode in modes} - set(MODES))
    if unknown:
        raise Refusal(f"has splits of the kind {unknown[0][:40]}")
    mode = np.asarray([MODES[each] for each in modes], dtype=np.int64)
    starts = np.flatnonzero(np.concatenate([[True], np.diff(trees) != 0]))
    if len(np.unique(trees)) < len(starts):
        raise Damaged("lists the nodes of one tree in several places")
    index = _Index(trees, ids)
    inner = np.flatnonzero(mode != LEAF)
    children = {}
    for side in ("true", "false"):
        listed = _whole(node, f"nodes_{side}nodeids", len(ids))
        children[side] = np.zeros(len(ids), dtype=np.int64)
        children[side][inner] = index.find(trees[inner], listed[inner])
    tracks = _whole(node, "nodes_missing_value_tracks_true", len(ids), optional=True)
    target = _whole(node, f"{prefix}_ids")
    layout = Layout(
        starts=np.append(starts, len(ids)),
        mode=mode,
        feature=_whole(node, "nodes_featureids", len(ids)),
        threshold=floats(node, "nodes_values", len(ids)),
        true=children["true"],
        false=children["false"],
        tracks=tracks == 1,
        members={},
        target=target,
        leaf=index.find(
            _whole(node, f"{prefix}_treeids", len(target)),
            _whole(node, f"{prefix}_nodeids", len(target)),
        ),
        weight=floats(node, f"{prefix}_weights", len(target)),
    )
    return with_members(layout)


def with_members(layout: Layout) -> Layout:
    """Put chains of equalities that lead to one node together: converters write sets as these."""
    parents = np.bincount(
        np.concatenate([layout.true, layout.false])[np.tile(layout.mode != LEAF, 2)],
        minlength=len(layout.mode),
    )
    parents[layout.starts[:-1]] += 1  # a root stays
    false, gone = layout.false.copy(), np.zeros(len(parents), dtype=bool)
    members: dict[int, frozenset[float]] = {}
    for node in np.flatnonzero(layout.mode == EQ).tolist():
        values = [float(layout.threshold[node])]
        while not gone[node]:
            behind = int(false[node])
            if behind == node or parents[behind] != 1 or not _continues(layout, node, behind):
                break
            values += members.pop(behind, frozenset([float(layout.threshold[behind])]))
            gone[behind] = True
            false[node] = false[behind]
        if len(values) > 1:
            members[node] = frozenset(values)
    return layout if not members else _without(layout, gone, false, members)


def _continues(layout: Layout, node: int, behind: int) -> bool:
    """Whether a node asks for another value of the same column, with the same way if it is so."""
    return bool(
        layout.mode[behind] == EQ
        and layout.feature[behind] == layout.feature[node]
        and layout.true[behind] == layout.true[node]
        and layout.tracks[behind] == layout.tracks[node]
    )


def _without(
    layout: Layout, gone: Flags, false: Numbers, members: dict[int, frozenset[float]]
) -> Layout:
    """The layout without some nodes, and with sets at others."""
    kept = ~gone
    place = np.cumsum(kept) - 1
    mode = layout.mode.copy()
    mode[list(members)] = MEMBER
    return Layout(
        starts=np.append(place[layout.starts[:-1]], kept.sum()),
        mode=mode[kept],
        feature=layout.feature[kept],
        threshold=layout.threshold[kept],
        true=place[layout.true[kept]],
        false=place[false[kept]],
        tracks=layout.tracks[kept],
        members={int(place[node]): values for node, values in members.items()},
        target=layout.target,
        leaf=place[layout.leaf],
        weight=layout.weight,
    )


class _Index:
    """Finds nodes by tree and number."""

    def __init__(self, trees: Numbers, ids: Numbers) -> None:
        self._trees, tree = np.unique(trees, return_inverse=True)
        self._ids, number = np.unique(ids, return_inverse=True)
        keys = tree.astype(np.int64) * len(self._ids) + number
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        if (np.diff(self._keys) == 0).any():
            raise Damaged("lists a node twice")

    def find(self, trees: Numbers, ids: Numbers) -> Numbers:
        """The positions of nodes."""
        tree = np.searchsorted(self._trees, trees).clip(max=len(self._trees) - 1)
        number = np.searchsorted(self._ids, ids).clip(max=len(self._ids) - 1)
        keys = tree * len(self._ids) + number
        place = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        there = (self._trees[tree] == trees) & (self._ids[number] == ids)
        there &= self._keys[place] == keys
        if not there.all():
            lost = int(np.flatnonzero(~there)[0])
            raise Damaged(f"names node {ids[lost]} of tree {trees[lost]}, which is not there")
        found: Numbers = self._order[place]
        return found


def read_rooted(node: Node) -> Layout:
    """Read the layout of version 5: inner nodes and leaves in lists of their own."""
    mode = _tensor(node, "nodes_modes").astype(np.int64)
    count = len(mode)
    if ((mode < 0) | (mode > MEMBER)).any():
        raise Refusal("has splits of a kind that farfield does not know")
    weights = _tensor(node, "leaf_weights")
    targets = _whole(node, "leaf_targetids", len(weights))
    sides = []
    for side in ("true", "false"):
        child = _whole(node, f"nodes_{side}nodeids", count)
        is_leaf = _whole(node, f"nodes_{side}leafs", count) != 0
        most = np.where(is_leaf, len(weights), count)
        if ((child < 0) | (child >= most)).any():
            raise Damaged(f"names a {side} child that is not there")
        sides.append((child, is_leaf))
    tracks = _whole(node, "nodes_missing_value_tracks_true", count, optional=True)
    order, starts = _walk(_whole(node, "tree_roots"), sides, count)
    kept = order >= 0  # the others are leaves, numbered below zero
    place = np.zeros(count, dtype=np.int64)
    place[order[kept]] = np.flatnonzero(kept)
    leaf = -1 - order[~kept]
    children = [np.zeros(len(order), dtype=np.int64) for _ in sides]
    _connect(children, order, starts)
    inner = np.where(kept, order, 0)
    members = _members(node, mode)
    return Layout(
        starts=starts,
        mode=np.where(kept, mode[inner], LEAF),
        feature=_whole(node, "nodes_featureids", count)[inner],
        threshold=_tensor(node, "nodes_splits", count)[inner],
        true=children[0],
        false=children[1],
        tracks=(tracks == 1)[inner] & kept,
        members={int(place[each]): values for each, values in members.items()},
        target=targets[leaf],
        leaf=np.flatnonzero(~kept),
        weight=weights[leaf],
    )


def _walk(roots: Numbers, sides: Any, count: int) -> tuple[Numbers, Numbers]:
    """All nodes, tree after tree and level by level: inner ones by number, leaves as -1 - number.

    Behind each inner node of a level, its two children follow in the next, in the same order.
    """
    if not len(roots) or ((roots < 0) | (roots >= count)).any():
        raise Damaged("has roots that are not there")
    seen = np.zeros(count, dtype=bool)
    order: list[Numbers] = []
    starts = [0]
    for root in roots.tolist():
        level = np.asarray([root], dtype=np.int64)
        size = 0
        while len(level):
            inner = level[level >= 0]
            if seen[inner].any() or len(np.unique(inner)) < len(inner):
                raise Damaged("is no tree: it leads to a node twice")
            seen[inner] = True
            order.append(level)
            size += len(level)
            pairs = [
                np.where(leaf[inner], -1 - child[inner], child[inner]) for child, leaf in sides
            ]
            level = np.stack(pairs, axis=1).reshape(-1)
        starts.append(starts[-1] + size)
    return np.concatenate(order), np.asarray(starts, dtype=np.int64)


def _connect(children: list[Numbers], order: Numbers, starts: Numbers) -> None:
    """Number the children: within a tree, the k-th inner node's are its nodes 2k + 1 and 2k + 2."""
    inner = np.flatnonzero(order >= 0)
    tree = np.searchsorted(starts, inner, side="right") - 1
    before = np.searchsorted(inner, starts[:-1])
    rank = np.arange(len(inner)) - before[tree]
    for offset, child in enumerate(children):
        child[inner] = starts[tree] + 2 * rank + 1 + offset


def _members(node: Node, mode: Numbers) -> dict[int, frozenset[float]]:
    """What nodes test membership of: sets one after another, NaN between them."""
    asking = np.flatnonzero(mode == MEMBER).tolist()
    if not asking:
        return {}
    values = _tensor(node, "membership_values")
    ends = np.flatnonzero(np.isnan(values))
    sets = [part[~np.isnan(part)] for part in np.split(values, ends)]
    if len(sets) == len(asking) + 1 and not len(sets[-1]):
        sets.pop()
    if len(sets) != len(asking):
        raise Damaged(f"has {len(sets)} sets of members for {len(asking)} splits")
    return {each: frozenset(part.tolist()) for each, part in zip(asking, sets, strict=True)}


def _whole(node: Node, name: str, count: int | None = None, *, optional: bool = False) -> Numbers:
    """An attribute that is a list of whole numbers."""
    if optional and not node.attributes.get(name):
        return np.zeros(count or 0, dtype=np.int64)
    values = np.asarray(node.numbers(name))
    if values.size and values.dtype.kind != "i":
        raise Damaged(f"its attribute {name} does not hold whole numbers")
    found: Numbers = _sized(values.astype(np.int64), name, count)
    return found


def floats(node: Node, name: str, count: int | None = None) -> Floats:
    """An attribute that is a list of numbers, or a tensor of them under a name of its own."""
    if f"{name}_as_tensor" in node.attributes:
        return _tensor(node, f"{name}_as_tensor", count)
    found: Floats = _sized(np.asarray(node.numbers(name), dtype=np.float64), name, count)
    return found


def _tensor(node: Node, name: str, count: int | None = None) -> Floats:
    value = node.attributes.get(name)
    if not isinstance(value, Known):
        raise Damaged(f"has no {name}")
    found: Floats = _sized(value.tensor.double().flatten().numpy(), name, count)
    return found


def _sized(values: Any, name: str, count: int | None) -> Any:
    if count is not None and len(values) != count:
        raise Damaged(f"its attribute {name} has {len(values)} entries, not {count}")
    return values
