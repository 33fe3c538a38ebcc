"""The first part of a quick look: one ball or ellipsoid of every view.

Of every view that is a union of balls or ellipsoids, one of them holds most rows of most data. Rows
that all of these hold are done, by one product of matrices; only the others are compared with every
ball and every ellipsoid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from farfield.guard.shapes import (
    ROOM,
    Bools,
    Ellipsoids,
    Floats,
    Shape,
    Singles,
    Spheres,
    as_kind,
    share_of,
)
from farfield.guard.views.density import Density
from farfield.guard.views.units import Units

if TYPE_CHECKING:
    from farfield.guard.covered import Covered

# Places of each component or ball at which views are compared, and the share that is worth it.
PLACES, WORTH = 100, 0.2


@dataclass(frozen=True)
class First:
    """One ball or ellipsoid of every view: ``|A c - s|^2 <= limit`` for all of them.

    Attributes:
        matrix: ``(members * columns, columns + 1)``, on centred rows and a one: A, and -s.
        limits: ``(members,)``, all of them single precision.
    """

    matrix: Singles
    limits: tuple[float, ...]

    @classmethod
    def of(cls, members: list[Shape], units: Units, centre: Floats, bounds: Floats) -> First:
        """Fold the units into members, and all errors into their limits.

        ``y = A c - s`` is off by at most ``e = g (|A| bounds + |s|)``, so ``|y|`` is by ``|e|``.

        Args:
            members: In units.
            units: The units.
            centre: ``(columns,)`` what is subtracted from rows; the mean, near enough.
            bounds: ``(columns,)`` the largest values of centred rows.
        """
        turn = np.eye(len(bounds)) if units.matrix is None else units.matrix.numpy().T
        turn = turn / units.unit.numpy()
        factors = [each.factor @ turn for each in members]
        moved = units.mean.numpy() - centre
        shifts = [e.shift + f @ moved for e, f in zip(members, factors, strict=True)]
        whole = np.column_stack([np.concatenate(factors), -np.concatenate(shifts)])
        matrix = as_kind(whole, np.float32)
        share, limits = share_of(matrix), []
        for each, factor, shift in zip(members, factors, shifts, strict=True):
            error = share * np.linalg.norm(np.abs(factor) @ bounds + np.abs(shift))
            radius = math.sqrt(max(0.0, each.square)) * (1.0 - share) - float(error)
            limits.append(float(np.float32(radius**2 * (1.0 - ROOM))) if radius > 0 else -1.0)
        return cls(matrix, tuple(limits))

    def holds(self, centred: Singles) -> bool:
        """Whether every member holds one row, ``(columns + 1,)`` with a one at its end."""
        found = self.matrix.dot(centred)
        columns, start = len(centred) - 1, 0
        for limit in self.limits:
            part = found[start : start + columns]
            if not part.dot(part) <= limit:
                return False
            start += columns
        return True

    def hold(self, centred: Singles, found: Singles) -> Bools:
        """Whether every member holds rows, ``(columns + 1, rows)``, the last of them ones.

        Args:
            centred: The rows.
            found: ``(members * columns, rows)`` to be written to.
        """
        np.dot(self.matrix, centred, out=found)
        np.square(found, out=found)
        columns, rows = len(centred) - 1, centred.shape[1]
        sums = np.add.reduce(found.reshape(len(self.limits), columns, rows), axis=1)
        held: Bools = sums[0] <= self.limits[0]
        for each, limit in zip(sums[1:], self.limits[1:], strict=True):
            held &= each <= limit
        return held


def first_of(
    covered: Covered, sets: list[Spheres | Ellipsoids], centre: Floats, bounds: Floats
) -> First | None:
    """One member of each set, if these hold enough of the places where rows could be."""
    if len(sets) > 1 and covered.reduced is not None:
        return None
    places = _places(covered)
    found = [each.member(places) for each in sets]
    if np.logical_and.reduce([held for _, held in found]).mean() < WORTH:
        return None
    return First.of([member for member, _ in found], covered.whitened, centre, bounds)


def _places(covered: Covered) -> Floats:
    """Where rows could be: drawn from the mixture, or as far from the balls' centres as they reach.

    ``y = L u - s`` is normal for rows of a component.
    """
    rng = np.random.default_rng(0)
    for view in covered.each_view:
        if isinstance(view, Density):
            turned, shifts = view.factors.numpy().transpose(0, 2, 1), view.shifts.numpy()
            drawn = shifts[:, :, None] + rng.normal(size=(*shifts.shape, PLACES))
            return np.concatenate(list(np.linalg.solve(turned, drawn)), axis=1).T
    centres, radii = covered.balls.centres.numpy(), covered.balls.radii.numpy()
    away = rng.normal(size=(PLACES, *centres.shape))
    away *= radii[:, None] / np.linalg.norm(away, axis=2, keepdims=True)
    places: Floats = (centres + away).reshape(-1, centres.shape[1])
    return places
