"""A quick look: rows that are inside of all views for certain, found in single precision.

Nearly all rows are well inside, where T is exactly 1 and nothing else need be known. The quick look
evaluates all views in single precision, with a bound on every rounding error: a row that is inside
by more than the bound is inside in double precision too. All others are looked at again, exactly.

With z the standardised row, computed in double and rounded once, and ``g = 2 (n + 8) eps`` for sums
of n products (more than summing in any order can lose), a product ``z A`` is off by at most
``g |z| |A|``, where ``|A|`` is the norm of the matrix of absolute values. Rows of many columns are
looked at in double precision, where the same bounds are as good as nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from farfield.guard.views.balls import Balls
from farfield.guard.views.density import Density
from farfield.guard.views.neighbours import Neighbours
from farfield.guard.views.ranges import Ranges
from farfield.guard.views.units import Units

if TYPE_CHECKING:
    from farfield.guard.covered import Covered

Floats = NDArray[np.float64]
# Either precision.
Singles = NDArray[Any]
Kind = type[np.float32] | type[np.float64]
# Sums over more columns than this lose too much in single precision.
NARROW = 128


@dataclass(frozen=True)
class Spheres:
    """Balls of any view: a place is inside if it is in one of them.

    Attributes:
        linear: ``(units, balls)``, ``-2 c``.
        constant: ``(balls,)``, ``|c|^2 - r^2``.
        furthest: The largest ``|c| + r``.
    """

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
        return cls(_as(-2.0 * centres.T, kind), _as(constant, kind), furthest)

    def hold(self, places: Singles, squares: Singles, error: Singles) -> NDArray[np.bool_]:
        """Whether places are in one of the balls, wherever they are within ``error``.

        ``|u - c|^2 - r^2`` is off by at most ``4 (e + g s) s`` with ``s = |u| + |c| + r + e``.
        """
        away = np.sqrt(squares) + self.furthest + error
        lost = 4.0 * (error + _share(self.linear) * away) * away
        found = places @ self.linear
        found += self.constant
        held: NDArray[np.bool_] = found.min(axis=1) + squares + lost <= 0.0
        return held


@dataclass(frozen=True)
class Ellipsoids:
    """The level set of a mixture.

    Attributes:
        factors: ``(units, components * units)``.
        shifts: ``(components * units,)``.
        offsets: ``(components,)``.
        threshold: Of the score.
        stretch: The largest norm of a component's factor, by absolute values.
        furthest: The largest norm of a component's shift.
    """

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
            _as(factors.transpose(1, 0, 2).reshape(units, count * units), kind),
            _as(shifts.reshape(-1), kind),
            _as(view.offsets.numpy(), kind),
            float(view.threshold),
            max(_norm(each) for each in factors),
            float(np.linalg.norm(shifts, axis=1).max()),
        )

    def hold(self, places: Singles, squares: Singles, error: Singles) -> NDArray[np.bool_]:
        """Whether places are in one of the ellipsoids, wherever they are within ``error``.

        ``y = u L - m L`` is off by ``e |L| + g (|u| |L| + |m L|)``, and so is the score, at most.
        """
        share = _share(self.factors)
        away = np.sqrt(squares)
        lost = error * self.stretch + share * (away * self.stretch + self.furthest)
        turned = places @ self.factors
        # In place: a second array of this size takes longer to get than to fill.
        turned -= self.shifts
        turned = turned.reshape(len(places), len(self.offsets), len(self.factors))
        levels = np.einsum("nkc,nkc->nk", turned, turned)
        levels += self.offsets
        least = np.sqrt(levels.min(axis=1)) * (1.0 + share) + lost
        held: NDArray[np.bool_] = least <= self.threshold * (1 - 1e-6)
        return held


@dataclass(frozen=True)
class Coordinates:
    """Standardised rows in the units that a view measures in.

    Attributes:
        matrix: ``(columns, units)``; ``None`` where they are units already.
        spread: Of principal components, and of the length of the rest.
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
        spread = None if units.spread is None else _as(units.spread.numpy(), kind)
        return cls(_as(units.matrix.numpy(), kind), spread, _norm(units.matrix.numpy()))

    def __call__(self, rows: Singles, squares: Singles) -> tuple[Singles, Singles, Singles]:
        """Places, their squared lengths, and how far they may be off."""
        away = np.sqrt(squares)
        if self.matrix is None:
            return rows, squares, _share(rows.T) * away
        share = _share(self.matrix)
        places = rows @ self.matrix
        error = share * away * self.stretch
        if self.spread is not None:
            length = np.sqrt(np.maximum(squares - _squares(places), 0.0))
            # |z|^2 and |z P|^2 are off by a share of |z|^2, and so is their difference.
            lost = 4.0 * share * squares * self.stretch
            error = error + np.minimum(np.sqrt(lost), lost / np.maximum(length, 1e-30))
            places = np.concatenate([places, length[:, None]], axis=1) / self.spread
            error = error / self.spread.min()
        return places, _squares(places), error


@dataclass(frozen=True)
class Screen:
    """The quick look at a covered set.

    Attributes:
        low: ``(columns,)`` smallest training values.
        high: ``(columns,)`` largest ones.
        mean: ``(columns,)``.
        unit: ``(columns,)``.
        whitened: Coordinates of the balls.
        balls: The balls.
        reduced: Coordinates of all other views.
        others: Their sets.
    """

    low: Floats
    high: Floats
    mean: Floats
    unit: Floats
    whitened: Coordinates
    balls: Spheres
    reduced: Coordinates | None
    others: tuple[Spheres | Ellipsoids, ...]

    def inside(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Which rows are inside for certain, ``(rows,)``; NaN never is."""
        exact = rows.astype(np.float64, copy=False)
        held = np.asarray(((exact >= self.low) & (exact <= self.high)).all(axis=1))
        with np.errstate(all="ignore"):
            standard = ((exact - self.mean) / self.unit).astype(self.balls.linear.dtype)
            squares = _squares(standard)
            own = self.whitened(standard, squares)
            held &= self.balls.hold(*own)
            other = own if self.reduced is None else self.reduced(standard, squares)
            for each in self.others:
                held &= each.hold(*other)
        return held


def screen_of(covered: Covered) -> Screen | None:
    """The quick look at a covered set; ``None`` with categories, or if nobody tells of changes."""
    if any(value.is_inference() for value in covered.buffers()):
        return None
    kinds = {type(view) for view in covered.each_view}
    if len(covered.other) or not {Balls, Ranges} <= kinds <= {Balls, Ranges, Neighbours, Density}:
        return None
    ranges, balls = covered.ranges, covered.balls
    kind: Kind = np.float32 if covered.columns <= NARROW else np.float64
    spheres = Spheres.of(balls.centres.numpy(), (balls.radii + balls.threshold).numpy(), kind)
    if spheres is None or float(ranges.threshold) < 0.0:
        return None
    others: list[Spheres | Ellipsoids] = []
    for view in covered.each_view:
        if isinstance(view, Neighbours):
            radii = (view.scales * view.threshold).numpy()
            near = Spheres.of(view.centres.numpy(), radii, kind)
            if near is None:
                return None
            others.append(near)
        elif isinstance(view, Density):
            others.append(Ellipsoids.of(view, kind))
    return Screen(
        ranges.low.numpy().copy(),
        ranges.high.numpy().copy(),
        covered.whitened.mean.numpy().copy(),
        covered.whitened.unit.numpy().copy(),
        Coordinates.of(covered.whitened, kind),
        spheres,
        None if covered.reduced is None else Coordinates.of(covered.reduced, kind),
        tuple(others),
    )


class Unwritten:
    """Whether the numbers of a covered set are still those that a quick look was made from."""

    def __init__(self, covered: Covered) -> None:
        self.views = list(covered.views)
        self.held: list[tuple[dict[str, Tensor | None], str, Tensor, int]] = [
            (module._buffers, name, value, _version(value))
            for module in covered.modules()
            for name, value in module._buffers.items()
            if value is not None
        ]

    def unchanged(self, covered: Covered) -> bool:
        """Whether every tensor is the same one, and nobody has written to it."""
        if len(self.views) != len(covered.views):
            return False
        return all(
            place.get(name) is value and _version(value) == version
            for place, name, value, version in self.held
        )


def _version(value: Tensor) -> int:
    """How often a tensor was written to; tensors of inference mode do not tell."""
    return 0 if value.is_inference() else value._version


def _share(matrix: Any) -> float:
    """``g`` of products with a matrix."""
    return (len(matrix) + 8) * 2.0 * float(np.finfo(matrix.dtype).eps)


def _as(values: Floats, kind: Kind) -> Any:
    return np.ascontiguousarray(values, dtype=kind)


def _norm(matrix: Floats) -> float:
    """Spectral norm of the absolute values, with room for rounding."""
    return float(np.linalg.norm(np.abs(matrix), 2)) * (1 + 1e-6)


def _squares(rows: Singles) -> Singles:
    found: Singles = np.einsum("nc,nc->n", rows, rows)
    return found
