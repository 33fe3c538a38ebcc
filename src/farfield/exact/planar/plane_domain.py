"""The walk over the polygons of a window."""

from __future__ import annotations

import torch
from torch import Tensor

from farfield.errors import NumericalOverflow
from farfield.exact.cells import CellDomain
from farfield.exact.planar.cutting import cut, cut_at_breaks, cut_by_largest
from farfield.exact.planar.polygons import Polygons
from farfield.graph.rules import Steps


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
        return self._at_centre(parts)

    def winner(self, candidates: Tensor) -> Tensor:
        """Decide at the centre of each polygon."""
        return self._at_centre(candidates.movedim(0, -1)).argmax(dim=-1)

    def _at_centre(self, parts: Tensor) -> Tensor:
        x, y = self.centres.reshape(2, -1, *[1] * (parts.ndim - 2))
        return torch.addcmul(parts[2], parts[0], x).addcmul_(parts[1], y)

    def _require_finite(self, numbers: Tensor) -> None:
        if not bool(torch.isfinite(numbers.sum())) and not bool(torch.isfinite(numbers).all()):
            raise NumericalOverflow(
                "a value of the network left the range of float64 in this window; use a smaller "
                "window, or bring inputs or weights to a moderate scale"
            )
