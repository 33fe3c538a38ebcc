"""Find where rays through an ensemble of trees lose a class last, all of their pieces at once.

Along a ray a tree passes from leaf to leaf, and between two breaks nothing changes. Every break is
passed at most once. So on a ray each node is reached on one run of its cells, which its path cuts
out, and the ensemble's output is a sum of bumps: a leaf's value on the cells on which it is
reached. Adding these up is some thousand times less work than asking all trees on every cell.

Such sums round otherwise than the ensemble does, by less than a bound. So they only tell on which
cells a class *may* be lost; the ensemble itself is asked on those, from the last on, until it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.exact.jets import Jet
from farfield.exact.piecewise import output_classes
from farfield.exact.ray.jump_domain import JumpDomain
from farfield.exact.ray.jump_walk import JumpWalk
from farfield.exact.ray.knots import COINCIDE
from farfield.exact.ray.loss import Loss, others
from farfield.exact.ray.spans import Spans
from farfield.graph.network import Network
from farfield.graph.program import Program, Ref, walk
from farfield.graph.rules import Steps
from farfield.graph.stepwise import apply_row, take_steps
from farfield.graph.trees.traverse import PackedTrees

Integers = NDArray[np.int32]
Floats = NDArray[np.float64]
# How many (node, ray) pairs are looked at together.
TOGETHER = 1 << 21
# How many products take as long as one such pair.
PER_PAIR = 60
# Ensembles with more nodes are walked cell by cell, within the budget.
MOST_NODES = 1 << 21


@dataclass(frozen=True, eq=False)
class Level:
    """Nodes of all trees that are equally deep.

    Attributes:
        breaks: ``(inner,)`` the break that each inner node asks for.
        inner: ``(inner,)`` their places among the nodes of the level.
        leaves: Places of the leaves among the nodes of the level.
        numbers: ``(leaves,)`` their numbers in the ensemble.
        trees: ``(leaves,)`` their trees.
    """

    breaks: NDArray[np.int64]
    inner: NDArray[np.int64]
    leaves: NDArray[np.int64]
    numbers: NDArray[np.int64]
    trees: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Passing:
    """On which cells of some rays each break lets values go left, and right.

    Cells are places and the stretches between them, by turns and from 0 on.

    Attributes:
        left: Two of ``(breaks + 2, rays)``, the first and the last cell. Behind the breaks is one
            that nothing passes, and one that everything does.
        right: The same; no cell lies in both, and every cell in one.
        places: ``(places, rays)`` where the places are; infinite behind the last.
        last: ``(rays,)`` the last cell of each.
    """

    left: tuple[Integers, Integers]
    right: tuple[Integers, Integers]
    places: Floats
    last: Integers


class TreeBack:
    """Rays of one instance that is an ensemble of trees behind affine maps.

    Args:
        walk: How the instance is walked.
        steps: The codes of its columns.
        trees: The ensemble.
        before: What comes before the codes.
    """

    def __init__(self, walk: JumpWalk, steps: Steps, trees: PackedTrees, before: Program) -> None:
        self.walk, self.steps, self.trees, self.before = walk, steps, trees, before
        self.levels = list(_levels(steps, trees))
        nodes = len(trees.code)
        self.size = max(1, TOGETHER // nodes)
        self.work = float(PER_PAIR * nodes)

    @classmethod
    def of(cls, walk: JumpWalk) -> TreeBack | None:
        """Take up an instance, if it is nothing but trees behind maps that do not cut rays."""
        steps = walk.program.steps
        if walk.clip is not None or len(steps) < 2:
            return None
        look, end = steps[-2:]
        if look.target is not take_steps or end.target is not apply_row:
            return None
        source, found = look.args
        trees = end.args[1]
        fits = end.args[0] == Ref(look.name) and walk.program.output == end.name
        if not (fits and isinstance(trees, PackedTrees) and len(trees.code) <= MOST_NODES):
            return None
        if not _counts(found):
            return None
        return cls(walk, found, trees, walk.program.with_steps(steps[:-2], source.name))

    def last_loss(
        self, origins: Tensor, directions: Tensor, high: Tensor, label: Tensor, loss: Loss
    ) -> Tensor | None:
        """``(rays,)`` the last ``t`` up to ``high`` at which a class is lost; else minus infinity.

        ``None`` if something before the codes cuts the rays.
        """
        columns = self._columns(origins, directions)
        if columns is None:
            return None
        passing = _passing(columns, self.steps, high.numpy())
        rises, error = self._sums(passing)
        may = self._may_be_lost(rises, error, label, loss)
        # What lies behind the last cell of a ray is none of its cells.
        cells = np.arange(may.shape[1])
        may &= cells <= passing.last[:, None]
        cell = self._last(passing, may, label, loss)
        t = passing.places[(np.maximum(cell, 0) + 1) // 2, np.arange(len(cell))]
        return torch.from_numpy(np.where(cell >= 0, t, -np.inf))

    def _columns(self, origins: Tensor, directions: Tensor) -> Tensor | None:
        """Slopes and intercepts of what the codes look at, ``(2, outputs, rays)``."""
        start = origins.new_zeros(len(origins))
        domain = JumpDomain(Spans(torch.arange(len(origins)), start, start + torch.inf))
        value = Jet(torch.stack([directions, origins]).flatten(0, 1))
        out = walk(self.before, domain, value, self.walk.constants)
        if domain.rows != len(origins):
            return None
        parts = domain.current(out)[..., self.steps.columns]
        return parts.transpose(1, 2).contiguous() if not bool(parts.isnan().any()) else None

    def _sums(self, passing: Passing) -> tuple[Floats, float]:
        """About what the ensemble says, ``(outputs, rays, cells)``, and how much that is off."""
        outputs, width = len(self.trees.base), self.trees.values.shape[1]
        rays, cells = len(passing.last), 2 * len(passing.places)
        values, first = self.trees.values.numpy(), self.trees.output.numpy()
        sums = np.zeros((outputs, rays * cells))
        ray = np.arange(rays, dtype=np.int64) * cells
        low = np.zeros((len(self.trees.roots), rays), dtype=np.int32)
        high = np.broadcast_to(passing.last, low.shape)
        visits = 0
        for level in self.levels:
            row, column = np.nonzero(low[level.leaves] <= high[level.leaves])
            visits += len(row)
            place = level.leaves[row]
            start = ray[column] + low[place, column]
            behind = ray[column] + high[place, column] + 1
            leaf, tree = level.numbers[row], level.trees[row]
            for part in range(width):
                for output in np.unique(first + part):
                    own = first[tree] + part == output
                    height = values[leaf[own], part]
                    size = sums.shape[1]
                    sums[output] += np.bincount(start[own], height, size)
                    sums[output] -= np.bincount(behind[own], height, size)[:size]
            low, high = _below(level, low[level.inner], high[level.inner], passing)
        found = sums.reshape(outputs, rays, cells).cumsum(axis=2)
        found += self.trees.base.numpy()[:, None, None]
        largest = self.trees.error * 2.0**52 / (len(self.trees.roots) + 2)
        return found, 2.0**-50 * (visits + 2 * len(self.trees.roots)) * largest

    def _may_be_lost(
        self, sums: Floats, error: float, label: Tensor, loss: Loss
    ) -> NDArray[np.bool_]:
        """``(rays, cells)`` whether a class may be lost, whatever the sums are off by."""
        rows = torch.from_numpy(sums).permute(1, 2, 0)
        found = rows.new_empty(rows.shape[:2], dtype=torch.bool)
        for ray, row in enumerate(rows):
            own = label[ray].expand(len(row))
            classes = _classes(self.walk.network, row)
            found[ray] = _lost(self.walk.network, classes, own, loss, 2 * error)
        return found.numpy()

    def _last(
        self, passing: Passing, may: NDArray[np.bool_], label: Tensor, loss: Loss
    ) -> NDArray[np.int64]:
        """``(rays,)`` the last cell on which a class is lost; -1 where it never is."""
        found = np.full(len(may), -1)
        ask, open_ = 1, np.arange(len(may))
        while len(open_):
            # The last few candidates of each ray, then twice as many before those.
            behind = np.cumsum(may[open_, ::-1], axis=1)[:, ::-1]
            row, cell = np.nonzero(may[open_] & (behind <= ask))
            ray = open_[row]
            lost = self._is_lost(passing, ray, cell, label, loss)
            np.maximum.at(found, ray[lost], cell[lost])
            may[ray, cell] = False
            open_ = open_[(found[open_] < 0) & may[open_].any(axis=1)]
            ask = min(2 * ask, 64)
        return found

    def _is_lost(
        self, passing: Passing, ray: NDArray[Any], cell: NDArray[Any], label: Tensor, loss: Loss
    ) -> NDArray[np.bool_]:
        """Ask the ensemble itself on some cells."""
        lost = np.zeros(len(ray), dtype=bool)
        size = max(1, TOGETHER // max(1, len(self.steps.breaks)))
        for first in range(0, len(ray), size):
            part = slice(first, first + size)
            above = self._above(passing, ray[part], cell[part])
            codes = self.steps.heights(torch.from_numpy(above))
            own = label[torch.from_numpy(ray[part])]
            classes = _classes(self.walk.network, self.trees(codes))
            lost[part] = _lost(self.walk.network, classes, own, loss, 0.0).numpy()
        return lost

    def _above(self, passing: Passing, ray: NDArray[Any], cell: NDArray[Any]) -> NDArray[np.int64]:
        """``(cells, outputs)`` how many breaks of each output are below its column."""
        low, high = (each[:-2, ray] for each in passing.right)
        over = np.concatenate([np.zeros((1, len(ray)), int), (low <= cell) & (cell <= high)])
        below: NDArray[np.int64] = over.cumsum(axis=0)[self.steps.offsets.numpy()]
        return np.ascontiguousarray(np.diff(below, axis=0).T)


def _counts(steps: Steps) -> bool:
    """Whether codes count the breaks below a value: sets of categories do not."""
    inner = torch.ones(len(steps.values), dtype=torch.bool)
    inner[steps.offsets[1:] + torch.arange(len(steps))] = False
    return bool((steps.values.diff()[inner[:-1]] == 1).all())


def _levels(steps: Steps, trees: PackedTrees) -> Iterator[Level]:
    """The nodes of all trees, level by level; the left children of each, then the right ones."""
    left, code, most = (
        each.numpy().astype(np.int64) for each in (trees.left, trees.code, trees.most)
    )
    leaf = trees.leaf.numpy().astype(np.int64)
    offsets, values = steps.offsets.numpy(), steps.values.numpy()
    sizes = np.diff(offsets)
    lowest = values[offsets[:-1] + np.arange(len(sizes))]
    node, tree = trees.roots.numpy().astype(np.int64), np.arange(len(trees.roots))
    while len(node):
        ends = left[node] == node
        inner, leaves = np.flatnonzero(~ends), np.flatnonzero(ends)
        own = code[node[inner]]
        place = most[node[inner]] - lowest[own].astype(np.int64)
        breaks = offsets[own] + place
        breaks = np.where(place < 0, len(steps.breaks) + 1, breaks)
        breaks = np.where(place >= sizes[own], len(steps.breaks), breaks)
        yield Level(breaks, inner, leaves, leaf[node[leaves]], tree[leaves])
        below = left[node[inner]]
        node, tree = np.concatenate([below, below + 1]), np.tile(tree[inner], 2)


def _below(
    level: Level, low: Integers, high: Integers, passing: Passing
) -> tuple[Integers, Integers]:
    """The cells on which the children of inner nodes are reached."""
    at = level.breaks
    first, last = passing.left
    other, end = passing.right
    return (
        np.concatenate([np.maximum(low, first[at]), np.maximum(low, other[at])]),
        np.concatenate([np.minimum(high, last[at]), np.minimum(high, end[at])]),
    )


def _passing(columns: Tensor, steps: Steps, high: Floats) -> Passing:
    """Put the places at which rays pass breaks in order, those that coincide being one."""
    output = np.repeat(np.arange(len(steps)), np.diff(steps.offsets.numpy()))
    slope, intercept = columns.numpy()[:, output]
    breaks = steps.breaks.numpy()[:, None]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = np.where(slope == 0, np.nan, (breaks - intercept) / slope)
    inside = (t >= 0) & (t <= high * (1 + COINCIDE))
    zero = np.zeros((1, len(high)))
    every = np.concatenate([zero, np.where(inside, np.minimum(t, high), np.inf), high[None]])
    order = np.argsort(every, axis=0)
    ordered = np.take_along_axis(every, order, axis=0)
    with np.errstate(invalid="ignore"):
        fresh = np.diff(ordered, axis=0) > ordered[1:] * COINCIDE
    rank = np.concatenate([zero.astype(np.int64), fresh.cumsum(axis=0)])
    place = np.empty_like(rank)
    np.put_along_axis(place, order, rank, axis=0)
    end = place[-1]
    places = np.full((int(end.max()) + 1, len(high)), np.inf)
    first = np.concatenate([zero == 0, fresh]) & (rank <= end)
    row, ray = np.nonzero(first)
    places[rank[row, ray], ray] = ordered[row, ray]
    places[end, np.arange(len(high))] = high
    return _runs(slope, intercept > breaks, t < 0, inside, 2 * place[1:-1], 2 * end, places)


def _runs(
    slope: Floats,
    over: NDArray[np.bool_],
    before: NDArray[np.bool_],
    inside: NDArray[np.bool_],
    cell: NDArray[np.int64],
    last: NDArray[np.int64],
    places: Floats,
) -> Passing:
    """Where values are not above breaks: up to the place if they rise, from it on if they fall."""
    rises = slope > 0
    # Passed before the ray starts, or behind where it ends: on one side throughout.
    above = np.where(slope == 0, over, rises == before)
    first = np.where(inside & (slope < 0), cell, 0)
    behind = np.where(inside & rises, cell, last)
    behind = np.where(~inside & above, -1, behind)
    whole = np.zeros((1, len(last)), dtype=np.int64)
    first = np.concatenate([first, whole, whole])
    behind = np.concatenate([behind, whole + last, whole - 1])
    start = np.where(first == 0, behind + 1, 0)
    stop = np.where(first == 0, last, first - 1)
    left, right = (
        (low.astype(np.int32), high.astype(np.int32))
        for low, high in ((first, behind), (start, stop))
    )
    return Passing(left, right, places, last.astype(np.int32))


def _classes(network: Network, outputs: Tensor) -> Tensor:
    """Logits or shares of all classes from what the ensemble says."""
    return output_classes(network, torch.stack([torch.zeros_like(outputs), outputs]))[1]


def _lost(network: Network, classes: Tensor, label: Tensor, loss: Loss, error: float) -> Tensor:
    """Whether a class is lost if its own output is less by ``error``."""
    own = torch.nn.functional.one_hot(label, classes.shape[-1]) * error
    if network.link == "identity":
        return loss.among_shares(classes - own, label)
    return loss.at(others(classes - own, label)) > 0
