"""How a network acts on traces: the rules of :mod:`farfield.graph.rules` along whole rays.

* An affine map acts on the values at the knots; between them the result is affine again.
* A piecewise-affine function of one number gets a knot wherever a unit passes a threshold, the
  unit's value there being the threshold exactly.
* The largest of several values gets a knot wherever the upper envelope changes hands.

A knot is added only where a decision changes strictly inside an affine piece, so every knot is the
place of a real decision: none is missed, none is invented.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from farfield.exact.piecewise import OnlyPieces
from farfield.exact.ray.bend import Bend
from farfield.exact.ray.envelope import contest
from farfield.exact.ray.kinked import Kernel, convolve
from farfield.exact.ray.knots import Grid, Refinement, Trace
from farfield.graph.rules import (
    Affine,
    Pieces,
    Places,
)

# Fewer rows than this are never cut apart, however wide a layer is.
LEAST_ROWS = 16


class TooLarge(Exception):  # noqa: N818 - a signal within the walk, not an error
    """A trace would outgrow the budget; carries the grid it would have, and how many rows fit."""

    def __init__(self, grid: Grid, rows: int) -> None:
        super().__init__()
        self.grid = grid
        self.rows = rows


class LeftRange(Exception):  # noqa: N818 - turned into an error that names the operation
    """A number left the range of its type."""


@dataclass(eq=False)
class Ends:
    """Whether decisions fall exactly on the ends of a window, which are no knots otherwise."""

    low: bool = False
    high: bool = False

    def note(self, touched: tuple[bool, bool]) -> None:
        """Remember what one operation saw."""
        self.low |= touched[0]
        self.high |= touched[1]


class LineDomain(OnlyPieces[Trace]):
    """The walk along rays.

    Attributes:
        budget: How many numbers a trace may hold before the walk is cut into windows.
        grid: The grid of the operation at hand, set by the walk.
        ends: What is known about the ends of the window at hand; ``None`` for whole rays.
        kernel: The convolution at hand, if it is one that can be taken apart.
        products: How many products of weights and values were formed so far.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.grid: Grid
        self.ends: Ends | None = None
        self.kernel: Kernel | None = None
        self.products = 0.0
        self._bends: dict[Pieces, Bend] = {}

    def constant(self, tensor: Tensor) -> Trace:
        """A constant that has a row for each row of the trace: no slope."""
        parts = tensor.to(self.grid.t).clone()
        parts[: self.grid.ends] = 0
        return Trace(parts, self.grid)

    def affine(self, operation: Affine, *values: Trace) -> Trace:
        """Act on all rows alike; the offset goes to all but the slopes."""
        few = convolve(operation, values[0], self.kernel) if self.kernel is not None else None
        if few is not None:
            parts, rows = few
        else:
            parts = operation.function(*(value.parts for value in values), *operation.weights)
            rows = len(parts)
        if operation.weights:
            self.products += rows * operation.terms * parts.shape[1:].numel()
        grid, offset = values[0].grid, operation.offset
        if offset is not None:
            ends = grid.ends
            if isinstance(offset, Tensor) and offset.ndim == parts.ndim and len(offset) != 1:
                offset = offset[ends:]
            if not operation.weights:
                parts = parts.clone()
            parts[ends:].add_(offset)
        known = operation.weights and len(values) == 1
        return Trace(parts, grid, partial(_terms, operation, values[0]) if known else None)

    def piecewise(self, value: Trace, pieces: Pieces) -> Trace:
        """Add a knot wherever a unit passes from one piece to the next, then apply the pieces."""
        if any(isinstance(slope, Tensor) for slope in pieces.slopes):
            return self.bend(value, Bend.of(pieces, value.parts))
        if pieces not in self._bends:
            self._bends[pieces] = Bend.of(pieces, value.parts)
        return self.bend(value, self._bends[pieces])

    def bend(self, value: Trace, bend: Bend) -> Trace:
        """Do the same for a function that may differ from unit to unit."""
        _watch(value.parts)
        if self.ends is not None:
            self.ends.note(bend.touched(value))
        found = [bend.passes(value, index) for index in range(len(bend.thresholds))]
        if sum(len(each[0]) for each in found):
            left, t, unit, goal = found[0]
            if len(found) > 1:
                left, t, unit, goal = (torch.cat(each) for each in zip(*found, strict=True))
            refinement, rows = value.grid.insert(left, t)
            if refinement is None:
                value = Trace(value.parts.clone(), value.grid)
            else:
                value = self._refined(value, refinement)
            value.knots.reshape(len(value.grid.t), -1)[rows, unit] = goal
            return bend.apply(value, in_place=True)
        return bend.apply(value)

    def largest(
        self, candidates: Sequence[Trace], sign: int = 1, places: Places | None = None
    ) -> Trace:
        """Add a knot wherever another candidate takes the lead, then take the largest."""
        grid, row = candidates[0].grid, candidates[0].shape[1:]
        flat = [c.flat if sign > 0 else -c.flat for c in candidates]
        _watch(*flat)
        best, pieces, touched = contest(flat, grid)
        if self.ends is not None:
            self.ends.note(touched)
        where, places_within = pieces.changes()
        if len(where):
            left = pieces.left[where]
            t = grid.t[left] + places_within * pieces.span[where]
            refinement, _ = grid.insert(left, t)
            if refinement is not None:
                best = self._refined(best, refinement)
                pieces.settle(best, refinement)
        parts = best.parts if sign > 0 else -best.parts
        return Trace(parts.reshape(-1, *row), best.grid)

    def _refined(self, value: Trace, refinement: Refinement) -> Trace:
        """Refine a trace, or ask for smaller windows."""
        rows = max(LEAST_ROWS, self.budget // max(1, value.shape[1:].numel()))
        if len(refinement.grid.t) > 2 * rows:
            raise TooLarge(refinement.grid, rows)
        return refinement.apply(value)


def _terms(operation: Affine, value: Trace, rows: Tensor) -> Tensor:
    """``|W| |x| + |c|`` in some rows of a trace, ``(rows, units)``; slopes have no ``c``."""
    weights = (weight.abs() for weight in operation.weights)
    size = operation.function(value.parts[rows].abs(), *weights)
    offset = operation.offset
    if offset is None:
        return size.flatten(1)
    moved = (rows >= value.grid.ends).to(size).reshape(-1, *[1] * (size.ndim - 1))
    if isinstance(offset, Tensor) and offset.ndim == size.ndim and len(offset) != 1:
        offset = offset[rows]
    return torch.addcmul(size, moved, torch.as_tensor(offset).to(size).abs()).flatten(1)


def _watch(*values: Tensor) -> None:
    """See that no number overflowed before parts of a value are dropped."""
    for value in values:
        # Infinity and NaN survive a sum; a sum alone that overflows is harmless.
        if not math.isfinite(value.sum()) and not bool(torch.isfinite(value).all()):
            raise LeftRange
