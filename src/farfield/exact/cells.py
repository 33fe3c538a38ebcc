"""Cells: values that are affine in one or two coordinates on each cell of a subdivision.

A ray, or a slice of the input space, is cut into cells (stretches of the ray, polygons of a plane,
arcs of the circle of directions) on which every value of the network is
``slope_a * a + slope_b * b + constant``: a jet whose rows are cells. A kink first cuts every cell
where units change piece, steps cut it where columns pass a break; then each cell lies on one piece
of each unit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.exact.germ import kink
from farfield.exact.jets import Jet, JetDomain
from farfield.graph.rules import Pieces, Places, Steps

# Odd constants that spread consecutive numbers over 64 bits.
SPREAD, SCRAMBLE = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


class Divided(Exception):  # noqa: N818 - a signal within the walk, not an error
    """A cut has left more cells than should be carried on together."""


class CellDomain(JetDomain):
    """The walk over all cells of a subdivision at once.

    Attributes:
        cells: The cells themselves, by now, if the walk is to be taken up with some of them.
        together: How many cells to carry on together at most; more raise :class:`Divided`.
        parents: For each division so far, which earlier cell each cell came from.
        pattern: ``(cells,)`` a 64-bit fingerprint of all decisions on each cell.
        decisions: How many decisions went into it.
    """

    cells: Any

    def __init__(self, numbers: int, cells: int, together: int | None = None) -> None:
        super().__init__(numbers, cells, torch.zeros((), dtype=torch.float64))
        self.together = together
        self.parents: list[Tensor] = []
        self.pattern = np.zeros(cells, dtype=np.uint64)
        self.decisions = 0

    @abstractmethod
    def divide(self, lines: Tensor) -> Tensor | None:
        """Cut the cells where ``(numbers, cells, lines)`` are zero.

        Gives the parent of each new cell, if any is new.
        """

    @abstractmethod
    def divide_by_largest(self, candidates: Tensor) -> Tensor | None:
        """Cut the cells where the largest of ``(candidates, numbers, cells, units)`` changes."""

    @abstractmethod
    def divide_at_breaks(self, columns: Tensor, steps: Steps) -> Tensor | None:
        """Cut the cells where ``(numbers, cells, outputs)`` pass a break of their output."""

    def current(self, value: Jet) -> Tensor:
        """The value on the cells as they are now, ``(numbers, cells, ...)``."""
        return self.restricted(value, slice(None))

    def restricted(self, value: Jet, part: slice) -> Tensor:
        """The value on some of the cells as they are now."""
        parts = super().current(value)
        which = None
        for parent in reversed(self.parents[value.age :]):
            which = parent[part] if which is None else parent[which]
        return parts[:, part] if which is None else parts.index_select(1, which)

    def jet(self, parts: Tensor) -> Jet:
        """A value ``(numbers, cells, ...)`` on the cells as they are now."""
        return Jet(parts.flatten(0, 1), len(self.parents))

    def divide_at_kinks(self, value: Jet, pieces: Pieces) -> None:
        """Cut the cells along every line where a unit changes piece."""
        parts = self.current(value)
        flat = parts.flatten(2)
        found = []
        for index, threshold in enumerate(pieces.thresholds):
            real = kink(pieces, index)
            if real is False:
                continue
            lines = flat
            if isinstance(real, Tensor):
                lines = flat[:, :, real.expand(parts.shape[2:]).flatten()]
            if threshold != 0:
                lines = self.shifted(lines, -float(threshold))
            found.append(lines)
        if found:
            self.follow(self.divide(torch.cat(found, dim=2) if len(found) > 1 else found[0]))

    def divide_at_ties(self, candidates: Sequence[Jet], sign: int) -> None:
        """Cut the cells along every line where a maximum changes hands."""
        self.follow(self.divide_by_largest(self.stack(candidates, sign)))

    def divide_at_steps(self, value: Jet, steps: Steps) -> None:
        """Cut the cells wherever a column passes a break."""
        self.follow(self.divide_at_breaks(self.current(value)[..., steps.columns], steps))

    def follow(self, parent: Tensor | None) -> None:
        """Go on with the cells of a division, given the parent of each, unless they are too many.

        Raises:
            Divided: When the domain is up to date, but the operation is still to be done.
        """
        if parent is None:
            return
        self.parents.append(parent)
        self.rows = len(parent)
        self.pattern = self.pattern[parent.numpy()]
        if self.together is not None and self.rows > self.together:
            raise Divided

    def note_pieces(self, parts: Tensor, pieces: Pieces, above: Sequence[Tensor]) -> None:
        """Add the pieces to the fingerprint; thresholds without a kink separate nothing."""
        for index, over in enumerate(above):
            real = kink(pieces, index)
            self.note(over & real if isinstance(real, Tensor) else over * real)

    def note_winner(self, candidates: Tensor, winner: Tensor, places: Places | None) -> None:
        """Add the winners to the fingerprint."""
        self.note(winner)

    def note_steps(self, parts: Tensor, steps: Steps, places: Tensor) -> None:
        """Add the intervals to the fingerprint."""
        self.note(places)

    def note(self, decisions: Tensor) -> None:
        """Add decisions to the fingerprint: each has its own odd factor, sums wrap around."""
        flat = decisions.reshape(self.rows, -1).numpy().astype(np.uint64)
        start, self.decisions = self.decisions, self.decisions + flat.shape[1]
        keys = np.arange(start + 1, self.decisions + 1, dtype=np.uint64) * SPREAD
        keys = (keys ^ (keys >> np.uint64(29))) * SCRAMBLE
        keys = (keys ^ (keys >> np.uint64(32))) | np.uint64(1)
        self.pattern = self.pattern + flat @ keys
