"""The walk over the polygons of a window."""

from __future__ import annotations

import torch
from torch import Tensor

from farfield.errors import NumericalOverflow
from farfield.exact.planar.cutting import cut, cut_by_largest
from farfield.exact.planar.polygons import Polygons
from farfield.exact.planar.sheets import SheetDomain


class Divided(Exception):  # noqa: N818 - a signal within the walk, not an error
    """A cut has left more polygons than should be carried on together."""


class PlaneDomain(SheetDomain):
    """The walk over the polygons of a window.

    Attributes:
        polygons: As they are by now.
        together: How many polygons to carry on together at most; more raise :class:`Divided`.
        most: How many polygons there may be at all.
    """

    def __init__(self, polygons: Polygons, together: int, most: int) -> None:
        super().__init__(len(polygons))
        self.polygons, self.together, self.most = polygons, together, most
        self._update_centres()

    def _update_centres(self) -> None:
        self.centres = torch.from_numpy(self.polygons.centres().T)

    def _replace(self, polygons: Polygons | None) -> Tensor | None:
        if polygons is None:
            return None
        self.polygons = polygons
        self._update_centres()
        return torch.from_numpy(polygons.parent)

    def follow(self, parent: Tensor | None) -> None:
        """Go on with the polygons of a division, unless they are too many to go on together.

        Raises:
            Divided: When the domain is up to date, but the operation is still to be done.
        """
        super().follow(parent)
        if parent is not None and self.rows > self.together:
            raise Divided

    def divide(self, lines: Tensor) -> Tensor | None:
        """Cut every polygon along its lines."""
        self._require_finite(lines)
        return self._replace(cut(self.polygons, lines.numpy(), self.most))

    def divide_by_largest(self, candidates: Tensor) -> Tensor | None:
        """Cut every polygon where the largest candidate changes."""
        self._require_finite(candidates)
        return self._replace(cut_by_largest(self.polygons, candidates.numpy(), self.most))

    def exceeds(self, parts: Tensor, threshold: float) -> Tensor:
        """Decide at the centre of each polygon; a threshold belongs to the lower piece."""
        return self._at_centre(parts) > threshold

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
