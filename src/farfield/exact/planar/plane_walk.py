"""Walk a program over the polygons of a window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import InputError, NumericalOverflow
from farfield.exact.cells import CellDomain, walk_cells
from farfield.exact.jets import Jet
from farfield.exact.planar.cutting import TooManyPolygons, cut, cut_at_breaks, cut_by_largest
from farfield.exact.planar.polygons import Polygons, join
from farfield.graph.program import Program
from farfield.graph.rules import Steps

# How many numbers the largest value of a block may hold.
BLOCK_ELEMENTS = 1 << 22


class PlaneDomain(CellDomain):
    """The walk over the polygons of a window.

    Attributes:
        most: How many polygons there may be at all.
    """

    def __init__(self, polygons: Polygons, together: int, most: int) -> None:
        super().__init__(3, len(polygons), together)
        self.cells: Polygons = polygons
        self.most = most
        self._update_centres()

    def _update_centres(self) -> None:
        self.centres = torch.from_numpy(self.cells.centres().T)

    def _replace(self, polygons: Polygons | None) -> Tensor | None:
        if polygons is None:
            return None
        self.cells = polygons
        self._update_centres()
        return torch.from_numpy(polygons.parent)

    def divide(self, lines: Tensor) -> Tensor | None:
        """Cut every polygon along its lines."""
        self._require_finite(lines)
        return self._replace(cut(self.cells, lines.numpy(), self.most))

    def divide_by_largest(self, candidates: Tensor) -> Tensor | None:
        """Cut every polygon where the largest candidate changes."""
        self._require_finite(candidates)
        return self._replace(cut_by_largest(self.cells, candidates.numpy(), self.most))

    def divide_at_breaks(self, columns: Tensor, steps: Steps) -> Tensor | None:
        """Cut every polygon along the lines where a column passes a break inside of it."""
        self._require_finite(columns)
        breaks, offsets = steps.breaks.numpy(), steps.offsets.numpy()
        return self._replace(cut_at_breaks(self.cells, columns.numpy(), breaks, offsets, self.most))

    def representative(self, parts: Tensor) -> Tensor:
        """Decide at the centre of each polygon; a threshold belongs to the lower piece."""
        x, y = self.centres.reshape(2, -1, *[1] * (parts.ndim - 2))
        return torch.addcmul(parts[2], parts[0], x).addcmul_(parts[1], y)

    def winner(self, candidates: Tensor) -> Tensor:
        """Decide at the centre of each polygon."""
        return self.representative(candidates.movedim(0, -1)).argmax(dim=-1)

    def _require_finite(self, numbers: Tensor) -> None:
        if not bool(torch.isfinite(numbers.sum())) and not bool(torch.isfinite(numbers).all()):
            raise NumericalOverflow(
                "a value of the network left the range of float64 in this window; use a smaller "
                "window, or bring inputs or weights to a moderate scale"
            )


@dataclass(frozen=True)
class Subdivision:
    """Polygons with the network's output on them, ``(3, polygons, ...)``, and their patterns."""

    polygons: Polygons
    out: Tensor
    pattern: NDArray[np.uint64]


def walk_plane(
    program: Program, start: Tensor, constants: Mapping[str, Tensor], window: Polygons, most: int
) -> Subdivision:
    """Follow a program over a window.

    Args:
        program: Whose steps do not remember how many rows there were.
        start: ``(3, *input)`` slopes and constant of the inputs.
        constants: The program's constants.
        window: A single polygon.
        most: How many polygons there may be.

    Raises:
        InputError: If there are more.
    """
    together = max(1, BLOCK_ELEMENTS // (3 * program.width))
    done: list[Subdivision] = []

    def make(polygons: Polygons, waiting: int) -> PlaneDomain:
        room = most - waiting - sum(len(each.polygons) for each in done)
        return PlaneDomain(polygons, together, room)

    try:
        for domain, out in walk_cells(program, Jet(start), constants, window, make):
            done.append(Subdivision(domain.cells, out, domain.pattern))
    except TooManyPolygons:
        raise InputError(
            f"the window holds more than {most} regions; choose a smaller window, or allow "
            "more with most="
        ) from None
    return Subdivision(
        join([each.polygons for each in done]),
        torch.cat([each.out for each in done], dim=1),
        np.concatenate([each.pattern for each in done]),
    )
