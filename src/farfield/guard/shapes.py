"""Balls and ellipsoids that are quick to compare with, with a bound on every rounding error.

``g = (n + 8) eps`` is twice what summing n products in any order can lose; the other half is for
the exact look. All errors are bounded once, for all rows between two ends, and taken off the sizes
of balls and ellipsoids: whatever a smaller one holds as computed, the true one holds.
"""

from __future__ import annotations

import math
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
# How far components may be from orthogonal and of length one.
ORTHOGONAL = 1e-12


@dataclass(frozen=True)
class Shape:
    """One ball or ellipsoid: ``|A u - s|^2 <= square``, all in double precision."""

    factor: Floats
    shift: Floats
    square: float


@dataclass(frozen=True)
class Spheres:
    """Balls of a view: a place is inside if it is in one of them.

    Attributes:
        centres: ``(balls, units)``, in double precision, as the radii.
        radii: ``(balls,)``; whatever is not positive holds nothing.
    """

    centres: Floats
    radii: Floats

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.radii)

    def levels(self, places: Floats) -> Floats:
        """``|u - c|^2 - r^2``, ``(places, balls)``."""
        constant = np.square(self.centres).sum(axis=1) - np.square(np.maximum(self.radii, 0.0))
        squares = np.square(places).sum(axis=1, keepdims=True)
        found: Floats = squares - 2.0 * places @ self.centres.T + constant
        return found

    def shape(self, place: int) -> Shape:
        """One of the balls."""
        centre, radius = self.centres[place], max(0.0, float(self.radii[place]))
        # The exact look takes the difference of squares, see ``Balls``.
        lost = 16 * (len(centre) + 16) * 2.0**-53 * (2.0 * np.linalg.norm(centre) + radius) ** 2
        square = (radius * (1.0 - ROOM)) ** 2 - float(lost)
        return Shape(np.eye(len(centre)), centre, square)

    def within(self, units: Units) -> Spheres | None:
        """Balls of principal components that hold nothing which these, in all columns, do not.

        With ``N(v)^2 = |v|^2 - |P v|^2``, which is a norm as long as P is orthogonal, ``|z - c|``
        is at most ``|(P z, N(z)) - (P c, -N(c))|``.
        """
        if units.matrix is None:
            return None
        own = units.matrix.numpy()
        count = own.shape[1]
        if not np.abs(own.T @ own - np.eye(count)).max() <= ORTHOGONAL:
            return None
        found = self.centres @ own
        rest = np.square(self.centres).sum(axis=1) - np.square(found).sum(axis=1)
        centres = np.column_stack([found, -np.sqrt(np.maximum(rest, 0.0))])
        lost = 4.0 * math.sqrt(count * ORTHOGONAL) * self.furthest
        return Spheres(centres, self.radii * (1.0 - ROOM) - lost)

    @property
    def furthest(self) -> float:
        """The largest ``|c| + |r|``."""
        return float((np.linalg.norm(self.centres, axis=1) + np.abs(self.radii)).max())


@dataclass(frozen=True)
class Ellipsoids:
    """The level set of a mixture: ``|L u - s|^2 + o <= threshold^2`` for one of its components.

    Attributes:
        factors: ``(components, units, units)``, the transposes of L.
        shifts: ``(components, units)``, s.
        offsets: ``(components,)``, o.
        threshold: Of the score.
    """

    factors: Floats
    shifts: Floats
    offsets: Floats
    threshold: float

    @classmethod
    def of(cls, view: Density) -> Ellipsoids:
        """The set of a view."""
        factors, shifts, offsets = (
            each.numpy() for each in (view.factors, view.shifts, view.offsets)
        )
        return cls(factors, shifts, offsets, float(view.threshold))

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.offsets)

    def levels(self, places: Floats) -> Floats:
        """``|L u - s|^2 + o - threshold^2``, ``(places, components)``."""
        turned = np.einsum("nu,kuv->nkv", places, self.factors) - self.shifts
        found: Floats = np.square(turned).sum(axis=2) + self.offsets - self.threshold**2
        return found

    def times(self, spread: Floats) -> Ellipsoids:
        """The same ellipsoids, of coordinates before they are divided by their deviations."""
        factors = self.factors / spread[:, None]
        return Ellipsoids(factors, self.shifts, self.offsets, self.threshold)

    def shape(self, place: int) -> Shape:
        """One of the ellipsoids."""
        square = (self.threshold * (1.0 - ROOM)) ** 2 - float(self.offsets[place])
        return Shape(self.factors[place].T, self.shifts[place], square)


def best(each: Spheres | Ellipsoids, places: Floats) -> int:
    """The ball or ellipsoid that holds most of some places."""
    return cover(each, places, 1)[0]


def cover(each: Spheres | Ellipsoids, places: Floats, count: int) -> list[int]:
    """Up to so many balls or ellipsoids, each of which holds many places that few before do."""
    inside, found = each.levels(places) <= 0.0, list[int]()
    weights = np.ones(len(places))
    for _ in range(min(count, each.count)):
        most = weights @ inside
        most[found] = -1.0
        found.append(int(most.argmax()))
        weights[inside[:, found[-1]]] /= 10.0
    return found


@dataclass(frozen=True)
class QuickSpheres:
    """Balls, to compare places with that are off by at most ``error``.

    ``f = |u - c|^2 - r^2`` is off by at most ``4 (e + g s) s`` with ``s = |u| + |c| + r + e``. That
    is counted at the largest s of any place in a ball: a place further out has an error that is
    larger by less than f is, as long as ``r >= 2 e + 4 g s``.

    Attributes:
        linear: ``(units, balls)``, ``-2 c``.
        constant: ``(balls,)``, ``|c|^2 - r^2``, and what f may be off by.
        spread: ``(units,)`` what places are divided by, if so.
    """

    linear: Singles
    constant: Singles
    spread: Singles | None

    @classmethod
    def of(
        cls, balls: Spheres, kind: Kind, error: float, spread: Floats | None = None
    ) -> QuickSpheres:
        """Balls; those that are not large enough hold nothing.

        Args:
            balls: Them, of places that are divided already.
            kind: The precision.
            error: How far places may be off before.
            spread: What they are divided by.
        """
        error = error if spread is None else error / float(spread.min())
        share = share_of(balls.centres.shape[1], kind)
        away = 2.0 * balls.furthest + error
        constant = np.square(balls.centres).sum(axis=1) - np.square(balls.radii)
        constant += 4.0 * (error + share * away) * away
        constant[balls.radii < 2.0 * error + 4.0 * share * away] = np.inf
        linear = np.ascontiguousarray(-2.0 * balls.centres.T, kind)
        return cls(linear, constant.astype(kind), None if spread is None else spread.astype(kind))

    def hold(self, places: Singles) -> Bools:
        """Whether places, ``(..., units)``, are in one of the balls."""
        places = places if self.spread is None else places / self.spread
        found = places.dot(self.linear)
        found += self.constant
        held: Bools = np.minimum.reduce(found, axis=-1) + squares_of(places) <= 0.0
        return held


@dataclass(frozen=True)
class QuickEllipsoids:
    """Ellipsoids, to compare places with that are off by at most ``error``.

    ``L u - s`` is off by at most ``e |L| + g (b |L| + |s|)`` for places within b.

    Attributes:
        first: The one that holds most places.
        rest: ``(units, components * units)`` of the others.
        shifts: ``(components * units,)`` of all.
        limits: ``(components,)`` of squared lengths.
    """

    first: Singles
    rest: Singles
    shifts: Singles
    limits: Singles

    @classmethod
    def of(
        cls, sets: Ellipsoids, kind: Kind, error: float, bound: float, first: int
    ) -> QuickEllipsoids:
        """All ellipsoids.

        Args:
            sets: Them.
            kind: The precision.
            error: How far places may be off.
            bound: How far from zero they are.
            first: The one that holds most places.
        """
        count, units = sets.shifts.shape
        order, share = [first, *range(first), *range(first + 1, count)], share_of(units, kind)
        limits = []
        for shape in map(sets.shape, order):
            stretch = float(np.linalg.norm(np.abs(shape.factor), 2)) * (1.0 + ROOM)
            lost = error * stretch + share * (bound * stretch + np.linalg.norm(shape.shift))
            limits.append(limit_of(shape, share, float(lost)))
        rest = sets.factors[order[1:]].transpose(1, 0, 2).reshape(units, -1)
        return cls(
            np.ascontiguousarray(sets.factors[first], kind),
            np.ascontiguousarray(rest, kind),
            sets.shifts[order].reshape(-1).astype(kind),
            np.array(limits, kind),
        )

    def hold(self, places: Singles) -> Bools:
        """Whether places, ``(..., units)``, are in one of the ellipsoids."""
        units = places.shape[-1]
        turned = places.dot(self.first)
        turned -= self.shifts[:units]
        held: Bools = squares_of(turned) <= self.limits[0]
        if held.all() or len(self.limits) == 1:
            return held
        if held.ndim == 0:
            return self._others_hold(places)
        left = np.flatnonzero(~held)
        held[left] = self._others_hold(places[left])
        return held

    def _others_hold(self, places: Singles) -> Bools:
        units = places.shape[-1]
        turned = places.dot(self.rest)
        turned -= self.shifts[units:]
        levels = squares_of(turned.reshape(*turned.shape[:-1], -1, units))
        held: Bools = np.logical_or.reduce(levels <= self.limits[1:], axis=-1)
        return held


def limit_of(shape: Shape, share: float, lost: float) -> float:
    """What a squared length may be as computed; no length is less than -1."""
    radius = math.sqrt(max(0.0, shape.square)) * (1.0 - share) - lost
    return radius**2 * (1.0 - ROOM) if radius > 0 else -1.0


def share_of(count: int, kind: Kind) -> float:
    """``g`` of sums of so many products."""
    return (count + 8) * float(np.finfo(kind).eps)


def squares_of(rows: Singles) -> Singles:
    """Squared lengths along the last axis."""
    found: Singles = rows.dot(rows) if rows.ndim == 1 else np.einsum("...c,...c->...", rows, rows)
    return found
