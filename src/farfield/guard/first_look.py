"""The first part of a quick look: one ball or ellipsoid of every view.

Of every view that is a union of balls or ellipsoids, one of them holds most rows of most data. Rows
that all of these hold are done, by one product of matrices; only the others are compared with every
ball and every ellipsoid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.guard.shapes import (
    ROOM,
    Bools,
    Ellipsoids,
    Floats,
    Shape,
    Singles,
    Spheres,
    best,
    limit_of,
    share_of,
)
from farfield.guard.views.density import Density
from farfield.guard.views.units import Units

if TYPE_CHECKING:
    from farfield.guard.covered import Covered

# Places at which views are compared, and the share of them that is worth it.
PLACES, WORTH = 1000, 0.2


@dataclass(frozen=True)
class First:
    """One ball or ellipsoid of every view: ``|A (x - c) - s|^2 <= limit`` for all of them.

    Attributes:
        centres: For rows of 4 and of 8 bytes a number c, ``(columns,)``: the same numbers.
        matrix: ``(columns, members * columns)``, A.
        shift: ``(members * columns,)``, s.
        blocks: ``(members * columns, members)`` ones where a number is of a member.
        limits: ``(members,)``, all of them single precision.
    """

    centres: Mapping[int, Singles]
    matrix: Singles
    shift: Singles
    blocks: Singles
    limits: Singles

    @classmethod
    def of(cls, members: list[Shape], units: Units, low: Floats, high: Floats) -> First:
        """Fold the units into members, and all errors into their limits.

        ``A (x - c) - s`` is off by at most ``e = g (|A| b + |s|)``, with b the largest that
        ``x - c`` can be, so its length is by ``|e|``.

        Args:
            members: In units.
            units: The units.
            low: ``(columns,)`` no row that is looked at has smaller values.
            high: ``(columns,)``, or larger ones.
        """
        single = units.mean.numpy().astype(np.float32)
        centre = single.astype(np.float64)
        bounds = np.maximum(high - centre, centre - low) * (1.0 + ROOM)
        turn = np.eye(len(centre)) if units.matrix is None else units.matrix.numpy().T
        turn = turn / units.unit.numpy()
        factors = [each.factor @ turn for each in members]
        moved = units.mean.numpy() - centre
        shifts = [e.shift + f @ moved for e, f in zip(members, factors, strict=True)]
        matrix = np.concatenate(factors).T.astype(np.float32, order="C")
        share, limits = share_of(len(centre), np.float32), []
        for each, factor, shift in zip(members, factors, shifts, strict=True):
            error = share * np.linalg.norm(np.abs(factor) @ bounds + np.abs(shift))
            limits.append(limit_of(each, share, float(error)))
        return cls(
            {4: single, 8: centre},
            matrix,
            np.concatenate(shifts).astype(np.float32),
            np.repeat(np.eye(len(members), dtype=np.float32), len(centre), axis=0),
            np.array(limits, np.float32),
        )

    def hold(self, rows: NDArray[Any]) -> Bools:
        """Which members hold one row, ``(members,)``, or each of many, ``(rows, members)``."""
        centred = (rows - self.centres[rows.itemsize]).astype(np.float32, copy=False)
        found = centred.dot(self.matrix)
        found -= self.shift
        found *= found
        held: Bools = found.dot(self.blocks) <= self.limits
        return held


def first_of(
    units: Units, sets: list[Spheres | Ellipsoids], places: Floats, low: Floats, high: Floats
) -> First | None:
    """One member of each set, if these hold enough of the places where rows could be."""
    members = [each.shape(best(each, places)) for each in sets]
    first = First.of(members, units, low, high)
    held = np.logical_and.reduce(first.hold(units.inputs(torch.from_numpy(places)).numpy()), axis=1)
    return first if held.mean() >= WORTH else None


def places_of(covered: Covered) -> Floats:
    """Where rows could be, in units of the density or of the balls.

    They are drawn from the mixture, or are as far from the balls' centres as these reach;
    ``L u - s`` is normal for rows of a component.
    """
    rng, view = np.random.default_rng(0), covered.of_inputs[-1]
    if isinstance(view, Density):
        turned, shifts = view.factors.numpy().transpose(0, 2, 1), view.shifts.numpy()
        drawn = shifts[:, :, None] + rng.normal(size=(*shifts.shape, PLACES // len(shifts) + 1))
        return np.concatenate(list(np.linalg.solve(turned, drawn)), axis=1).T
    centres, radii = covered.balls.centres.numpy(), covered.balls.radii.numpy()
    away = rng.normal(size=(PLACES // len(centres) + 1, *centres.shape))
    away *= radii[:, None] / np.linalg.norm(away, axis=2, keepdims=True)
    places: Floats = (centres + away).reshape(-1, centres.shape[1])
    return places
