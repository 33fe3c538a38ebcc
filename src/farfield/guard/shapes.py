"""Balls and ellipsoids in single precision, with a bound on every rounding error.

With z the standardised row and ``g = 2 (n + 8) eps`` for sums of n products (twice what summing in
any order can lose; the other half is for the exact look), a product ``A z`` is off by at most
``g |A| |z|``, where ``|A|`` is the norm of the matrix of absolute values. Rows are columns here:
sums over what numpy keeps apart in memory are the fast ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.guard.views.density import Density
from farfield.guard.views.units import Units

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
# Either precision.
Singles = NDArray[Any]
Kind = type[np.float32] | type[np.float64]
# Room for the rounding of the exact look, as a share of a radius.
ROOM = 1e-6


@dataclass(frozen=True)
class Shape:
    """One ball or ellipsoid: ``|A u - s|^2 <= square``, all in double precision."""

    factor: Floats
    shift: Floats
    square: float


@dataclass(frozen=True)
class Spheres:
    """Balls of any view: a place is inside if it is in one of them.

    Attributes:
        centres: ``(balls, units)``, in double precision, as the radii.
        radii: ``(balls,)``, positive.
        linear: ``(balls, units)``, ``-2 c``.
        constant: ``(balls, 1)``, ``|c|^2 - r^2``.
        furthest: The largest ``|c| + r``.
    """

    centres: Floats
    radii: Floats
    linear: Singles
    constant: Singles
    furthest: float

    @classmethod
    def of(cls, centres: Floats, radii: Floats, kind: Kind) -> Spheres | None:
        """Balls with a positive radius, if there are any."""
        some = radii > 0
        centres, radii = centres[some], radii[some]
        if not some.any():
            return None
        constant = np.square(centres).sum(axis=1) - np.square(radii)
        furthest = float((np.linalg.norm(centres, axis=1) + radii).max())
        return cls(
            centres, radii, as_kind(-2.0 * centres, kind), as_column(constant, kind), furthest
        )

    def hold(self, places: Singles, squares: Singles, error: Singles) -> Bools:
        """Whether places are in one of the balls, wherever they are within ``error``.

        ``|u - c|^2 - r^2`` is off by at most ``4 (e + g s) s`` with ``s = |u| + |c| + r + e``.
        """
        away = np.sqrt(squares) + self.furthest + error
        lost = 4.0 * (error + share_of(self.linear) * away) * away
        found = self.linear @ places
        found += self.constant
        held: Bools = np.minimum.reduce(found, axis=0) + squares + lost <= 0.0
        return held

    def member(self, places: Floats) -> tuple[Shape, Bools]:
        """The ball that holds most of some places, and which of them."""
        apart = np.linalg.norm(places[:, None] - self.centres, axis=2)
        most, held = _most(apart <= self.radii)
        centre, radius = self.centres[most], float(self.radii[most])
        # The exact look takes the difference of squares, see ``Balls``.
        lost = 16 * (len(centre) + 16) * 2.0**-53 * (2.0 * np.linalg.norm(centre) + radius) ** 2
        square = (radius * (1.0 - ROOM)) ** 2 - float(lost)
        return Shape(np.eye(len(centre)), centre, square), held


@dataclass(frozen=True)
class Ellipsoids:
    """The level set of a mixture.

    Attributes:
        view: The view.
        factors: ``(components * units, units)``.
        shifts: ``(components * units, 1)``.
        offsets: ``(components, 1)``.
        threshold: Of the score.
        stretch: The largest norm of a component's factor, by absolute values.
        furthest: The largest norm of a component's shift.
    """

    view: Density
    factors: Singles
    shifts: Singles
    offsets: Singles
    threshold: float
    stretch: float
    furthest: float

    @classmethod
    def of(cls, view: Density, kind: Kind) -> Ellipsoids:
        """The set of a view."""
        factors, shifts = view.factors.numpy(), view.shifts.numpy()
        count, units = shifts.shape
        return cls(
            view,
            as_kind(factors.transpose(0, 2, 1).reshape(count * units, units), kind),
            as_column(shifts.reshape(-1), kind),
            as_column(view.offsets.numpy(), kind),
            float(view.threshold),
            max(absolute_norm(each) for each in factors),
            float(np.linalg.norm(shifts, axis=1).max()),
        )

    def hold(self, places: Singles, squares: Singles, error: Singles) -> Bools:
        """Whether places are in one of the ellipsoids, wherever they are within ``error``.

        ``y = L u - L m`` is off by ``e |L| + g (|u| |L| + |L m|)``, and so is the score, at most.
        """
        share = share_of(self.factors)
        away = np.sqrt(squares)
        lost = error * self.stretch + share * (away * self.stretch + self.furthest)
        turned = self.factors @ places
        # In place: a second array of this size takes longer to get than to fill.
        turned -= self.shifts
        np.square(turned, out=turned)
        levels = np.add.reduce(turned.reshape(len(self.offsets), *places.shape), axis=1)
        levels += self.offsets
        least = np.sqrt(np.minimum.reduce(levels, axis=0)) * (1.0 + share) + lost
        held: Bools = least <= self.threshold * (1.0 - ROOM)
        return held

    def member(self, places: Floats) -> tuple[Shape, Bools]:
        """The ellipsoid that holds most of some places, and which of them."""
        factors, shifts = self.view.factors.numpy(), self.view.shifts.numpy()
        offsets = self.view.offsets.numpy()
        turned = np.einsum("nu,kuv->nkv", places, factors) - shifts
        levels = np.square(turned).sum(axis=2) + offsets
        most, held = _most(levels <= self.threshold**2)
        square = (self.threshold * (1.0 - ROOM)) ** 2 - float(offsets[most])
        return Shape(factors[most].T, shifts[most], square), held


@dataclass(frozen=True)
class Coordinates:
    """Standardised rows in the units that a view measures in.

    Attributes:
        matrix: ``(units, columns)``; ``None`` where they are units already.
        spread: ``(units, 1)`` of principal components, and of the length of the rest.
        stretch: The norm of the matrix, by absolute values.
    """

    matrix: Singles | None
    spread: Singles | None
    stretch: float

    @classmethod
    def of(cls, units: Units, kind: Kind) -> Coordinates:
        """The same units."""
        if units.matrix is None:
            return cls(None, None, 1.0)
        spread = None if units.spread is None else as_column(units.spread.numpy(), kind)
        return cls(
            as_kind(units.matrix.numpy().T, kind), spread, absolute_norm(units.matrix.numpy())
        )

    def __call__(self, rows: Singles, squares: Singles) -> tuple[Singles, Singles, Singles]:
        """Places, their squared lengths, and how far they may be off."""
        away = np.sqrt(squares)
        if self.matrix is None:
            return rows, squares, share_of(rows.T) * away
        share = share_of(self.matrix)
        places = self.matrix @ rows
        error = share * away * self.stretch
        if self.spread is not None:
            length = np.sqrt(np.maximum(squares - squares_of(places), 0.0))
            # |z|^2 and |P z|^2 are off by a share of |z|^2, and so is their difference.
            lost = 4.0 * share * squares * self.stretch
            error = error + np.minimum(np.sqrt(lost), lost / np.maximum(length, 1e-30))
            places = np.concatenate([places, length[None]]) / self.spread
            error = error / self.spread.min()
        return places, squares_of(places), error


def share_of(matrix: Any) -> float:
    """``g`` of products with a matrix."""
    columns: int = matrix.shape[1]
    return (columns + 8) * 2.0 * float(np.finfo(matrix.dtype).eps)


def as_kind(values: NDArray[Any], kind: Kind) -> Any:
    """Numbers of one precision, in order."""
    return np.ascontiguousarray(values, dtype=kind)


def as_column(values: NDArray[Any], kind: Kind) -> Any:
    """The same as a column, ``(numbers, 1)``."""
    return as_kind(values, kind)[:, None]


def absolute_norm(matrix: Floats) -> float:
    """Spectral norm of the absolute values, with room for rounding."""
    return float(np.linalg.norm(np.abs(matrix), 2)) * (1 + 1e-6)


def squares_of(rows: Singles) -> Singles:
    """Squared lengths of rows, ``(rows,)``."""
    found: Singles = np.einsum("cn,cn->n", rows, rows)
    return found


def _most(held: Bools) -> tuple[int, Bools]:
    """The column that holds most rows, and which."""
    most = int(held.sum(axis=0).argmax())
    return most, held[:, most]
