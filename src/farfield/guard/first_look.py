"""Balls and ellipsoids of rows themselves, in single precision: what a quick look begins with.

Of every view that is a union of balls or ellipsoids, one of them holds most rows of most data. Rows
that all of these hold are done, by one product of matrices; what one of them does not hold is
compared with the others of its view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farfield.guard.shapes import (
    ROOM,
    Bools,
    Floats,
    Kind,
    Shape,
    Singles,
    limit_of,
    share_of,
)
from farfield.guard.views.density import Density
from farfield.guard.views.units import Units

if TYPE_CHECKING:
    from farfield.guard.covered import Covered

# Places at which views are compared.
PLACES = 1000
# Rows are not centred where that takes at most this share off the radius of any member.
LITTLE = 1e-3


@dataclass(frozen=True)
class Members:
    """Balls and ellipsoids of rows: ``|A (x - c) - s|^2 <= limit`` for each of them.

    Attributes:
        centres: For rows of 4 and of 8 bytes a number c, ``(columns,)``: the same numbers;
            ``None`` where they are zero.
        matrix: ``(columns, members * columns)``, A.
        shift: ``(members * columns,)``, s.
        blocks: ``(members * columns, members)`` ones where a number is of a member.
        limits: ``(members,)``, all of them single precision.
    """

    centres: Mapping[int, Singles] | None
    matrix: Singles
    shift: Singles
    blocks: Singles
    limits: Singles

    @classmethod
    def of(cls, shapes: Sequence[Shape], units: Units, low: Floats, high: Floats) -> Members:
        """Fold the units into members, and all errors into their limits.

        Args:
            shapes: In units.
            units: The units.
            low: ``(columns,)`` no row that is looked at has smaller values.
            high: ``(columns,)``, or larger ones.
        """
        middle = units.mean.numpy().astype(np.float32).astype(np.float64)
        from_zero, centred = (
            folded(centre, shapes, units, low, high, np.float32)
            for centre in (np.zeros_like(middle), middle)
        )
        if (
            np.sqrt(np.maximum(from_zero.limits, 0.0))
            >= (1.0 - LITTLE) * np.sqrt(np.maximum(centred.limits, 0.0))
        ).all():
            return cls._of(from_zero, None)
        return cls._of(centred, {4: middle.astype(np.float32), 8: middle})

    @classmethod
    def _of(cls, own: Folded, centres: Mapping[int, Singles] | None) -> Members:
        return cls(
            centres,
            own.factors.T.astype(np.float32, order="C"),
            own.shifts.astype(np.float32),
            np.repeat(np.eye(len(own.limits), dtype=np.float32), own.factors.shape[1], axis=0),
            own.limits.astype(np.float32),
        )

    def hold(self, rows: NDArray[Any]) -> Bools:
        """Which members hold one row, ``(members,)``, or each of many, ``(rows, members)``."""
        if self.centres is not None:
            rows = rows - self.centres[rows.itemsize]
        found = rows.astype(np.float32, copy=False).dot(self.matrix)
        found -= self.shift
        found *= found
        held: Bools = found.dot(self.blocks) <= self.limits
        return held


class Folded(NamedTuple):
    """Balls and ellipsoids of rows from a centre on, one below the other, in double precision.

    Attributes:
        factors: ``(members * columns, columns)``.
        shifts: ``(members * columns,)``.
        limits: ``(members,)`` of squared lengths as computed.
    """

    factors: Floats
    shifts: Floats
    limits: Floats


def folded(
    centre: Floats, shapes: Sequence[Shape], units: Units, low: Floats, high: Floats, kind: Kind
) -> Folded:
    """Fold the units into members of rows from a centre on, which a precision has.

    ``A (x - c) - s`` is off by at most ``e = g (|A| b + |s|)``, with b the largest that ``x - c``
    can be, so its length is by ``|e|``; and A itself, of two matrices, by what doubles lose.
    """
    bounds = np.maximum(high - centre, centre - low) * (1.0 + ROOM)
    turn = np.eye(len(centre)) if units.matrix is None else units.matrix.numpy().T
    turn = turn / units.unit.numpy()
    factors = [each.factor @ turn for each in shapes]
    moved = units.mean.numpy() - centre
    shifts = [e.shift + f @ moved for e, f in zip(shapes, factors, strict=True)]
    share, limits = share_of(len(centre), kind), []
    double, reach = share_of(len(centre), np.float64), np.abs(turn) @ bounds
    for each, factor, shift in zip(shapes, factors, shifts, strict=True):
        error = share * np.linalg.norm(np.abs(factor) @ bounds + np.abs(shift))
        error += double * np.linalg.norm(np.abs(each.factor) @ reach + np.abs(each.shift))
        limits.append(limit_of(each, share, float(error)))
    return Folded(np.concatenate(factors), np.concatenate(shifts), np.array(limits))


def density_of(covered: Covered) -> Density | None:
    """The view of density, if there is one."""
    return next((view for view in covered.each_view if isinstance(view, Density)), None)


def places_of(covered: Covered) -> Floats:
    """Where rows could be, in units of the density or of the balls.

    They are drawn from the mixture, or are as far from the balls' centres as these reach;
    ``L u - s`` is normal for rows of a component.
    """
    rng, view = np.random.default_rng(0), density_of(covered)
    if view is not None:
        turned, shifts = view.factors.numpy().transpose(0, 2, 1), view.shifts.numpy()
        drawn = shifts[:, :, None] + rng.normal(size=(*shifts.shape, PLACES // len(shifts) + 1))
        return np.concatenate(list(np.linalg.solve(turned, drawn)), axis=1).T
    centres, radii = covered.balls.centres.numpy(), covered.balls.radii.numpy()
    away = rng.normal(size=(PLACES // len(centres) + 1, *centres.shape))
    away *= radii[:, None] / np.linalg.norm(away, axis=2, keepdims=True)
    places: Floats = (centres + away).reshape(-1, centres.shape[1])
    return places
