"""A quick look: rows that are inside of all views for certain.

Nearly all rows are well inside, where T is exactly 1 and nothing else need be known. The quick look
evaluates all views in few operations, mostly in single precision, with a bound on every rounding
error: a row that is inside by more than the bound is inside as the exact look computes it, too. All
others are looked at again, exactly. Rows of many columns are looked at in double precision, by
their principal components.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from farfield.guard.coordinates import Linear, Principal
from farfield.guard.first_look import Members, density_of, places_of
from farfield.guard.inner_shape import held, inside_both
from farfield.guard.one_row import Hulls, OneRow
from farfield.guard.shapes import (
    Bools,
    Ellipsoids,
    Floats,
    Kind,
    QuickEllipsoids,
    QuickSpheres,
    Shape,
    Singles,
    Spheres,
    best,
    cover,
)
from farfield.guard.unwritten import Unwritten
from farfield.guard.views.balls import Balls
from farfield.guard.views.categories import Categories, are_bits
from farfield.guard.views.density import Density
from farfield.guard.views.neighbours import Neighbours
from farfield.guard.views.ranges import Ranges

if TYPE_CHECKING:
    from farfield.guard.covered import Covered

# Sums over more columns than this lose too much in single precision.
NARROW = 128
# Values further from the mean, in deviations, are looked at exactly: one row in 10,000 at most for
# each column (Chebyshev). So no error bound has to hold for larger ones.
FURTHEST = 100.0
# Means and deviations beyond this, or below its inverse, have no squares in single precision.
LARGEST = 1e15
# The share of places that balls of principal components must hold to be asked first.
WORTH = 0.2
# The share of what members hold that one ellipsoid inside of them must hold to be asked first, and
# the share of places from which on single rows are looked at by a few members of every view.
MOST, OFTEN, SOME = 0.9, 0.5, 3
# Numbers that are looked at together, and rows at least.
STRIP, LEAST_STRIP = 2**17, 64
NONE = np.zeros(0, dtype=np.bool_)
NOTHING, ONE = np.zeros(0, dtype=np.intp), np.zeros(1, dtype=np.intp)
FALSE = np.False_.tobytes()


@dataclass(frozen=True)
class Compared:
    """What rows are compared with in some coordinates: all of it has to hold them.

    Attributes:
        coordinates: Of rows.
        sets: Balls and ellipsoids.
    """

    coordinates: Linear | Principal
    sets: tuple[QuickSpheres | QuickEllipsoids, ...]

    def hold(self, rows: NDArray[Any]) -> Bools:
        """Whether one of each set holds rows, ``(..., columns)``."""
        places = self.coordinates(rows)
        held = self.sets[0].hold(places)
        for each in self.sets[1:]:
            held = held & each.hold(places)
        return held


@dataclass(frozen=True)
class OneOf:
    """Members of which one has to hold rows."""

    members: Members

    def hold(self, rows: NDArray[Any]) -> Bools:
        """Whether one holds rows, ``(..., columns)``."""
        held: Bools = np.logical_or.reduce(self.members.hold(rows), axis=-1)
        return held


# Everything that has to hold a row.
Way = tuple[Compared, ...]
# For rows of 4 and of 8 bytes a number the smallest and the largest values that are looked at.
Ends = Mapping[int, tuple[Singles, Singles]]


@dataclass(frozen=True)
class Screen(ABC):
    """The quick look at a covered set.

    Attributes:
        ends: Of values that are looked at; each ``(columns,)``.
        bits: Columns of 0 and 1; ``None`` without any.
        inner: Whether a view looks at features, too.
        one: What single rows are looked at by first; ``None`` where it would hold few.
    """

    ends: Ends
    bits: NDArray[np.intp] | None
    inner: bool
    one: OneRow | None

    def doubted(self, x: Tensor) -> NDArray[np.intp]:
        """Positions of the rows, ``(rows, columns)``, that are not inside for certain."""
        if x.shape[0] != 1:
            return np.flatnonzero(~self.inside(x.numpy()))
        return NOTHING if self.certain(x.numpy()[0]) else ONE

    def certain(self, row: NDArray[Any]) -> bool:
        """Whether one row, ``(columns,)``, is inside for certain: the same in fewer calls."""
        low, high = self.ends[row.itemsize]
        # Bytes are compared in less time than numpy takes to be asked. NaN stays, and is not held.
        if np.minimum(np.maximum(row, low), high).tobytes() != row.tobytes():
            return False
        if self.bits is not None and FALSE in are_bits(row[self.bits]).tobytes():
            return False
        return self.holds(row)

    def inside(self, rows: NDArray[Any]) -> Bools:
        """Which rows are inside for certain, ``(rows,)``; NaN never is."""
        parts = _parts(*rows.shape)
        # What is far beyond the ends may overflow, and is not held.
        with np.errstate(over="ignore", invalid="ignore"):
            return np.concatenate([NONE, *(self._part(rows[each]) for each in parts)])

    def _part(self, rows: NDArray[Any]) -> Bools:
        """The same, of as many rows as stay close to the processor."""
        low, high = self.ends[rows.itemsize]
        between = rows >= low
        between &= rows <= high
        if self.bits is not None:
            between[:, self.bits] &= are_bits(rows[:, self.bits])
        if between.all():
            return self.hold(rows)
        left = np.flatnonzero(between.all(axis=1))
        held = np.zeros(len(rows), dtype=np.bool_)
        held[left] = self.hold(rows[left])
        return held

    @abstractmethod
    def holds(self, row: NDArray[Any]) -> bool:
        """Whether all views hold one row between the ends, ``(columns,)``."""

    @abstractmethod
    def hold(self, rows: NDArray[Any]) -> Bools:
        """Whether all views hold rows between the ends, ``(rows, columns)``."""


@final
@dataclass(frozen=True)
class NarrowScreen(Screen):
    """The quick look at rows of few columns, by what they are in single precision.

    Attributes:
        members: One ball or ellipsoid of every view.
        others: For each of these all others of its view; ``None`` without any.
    """

    members: Members
    others: tuple[OneOf | Compared | None, ...]

    def holds(self, row: NDArray[Any]) -> bool:
        """Whether all views hold one row."""
        held = self.members.hold(row)
        if FALSE not in held.tobytes():
            return True
        pairs = zip(held.tolist(), self.others, strict=True)
        return all(own or (each is not None and bool(each.hold(row))) for own, each in pairs)

    def hold(self, rows: NDArray[Any]) -> Bools:
        """Whether all views hold rows."""
        sure = np.ones(len(rows), dtype=np.bool_)
        for own, each in zip(self.members.hold(rows).T, self.others, strict=True):
            left = np.flatnonzero(sure > own)
            if len(left):
                sure[left] = False if each is None else each.hold(rows[left])
        return sure


@final
@dataclass(frozen=True)
class WideScreen(Screen):
    """The quick look at rows of many columns, by their principal components.

    Attributes:
        whole: Rows are sure by one of several ways.
    """

    whole: tuple[Way, ...]

    def holds(self, row: NDArray[Any]) -> bool:
        """Whether all views hold one row."""
        return any(all(each.hold(row) for each in way) for way in self.whole)

    def hold(self, rows: NDArray[Any]) -> Bools:
        """Whether all views hold rows, by any of their balls or ellipsoids."""
        held = _all(self.whole[0], rows)
        for way in self.whole[1:]:
            left = np.flatnonzero(~held)
            if len(left):
                held[left] = _all(way, rows[left])
        return held


def _all(way: Way, rows: NDArray[Any]) -> Bools:
    """Whether everything that rows are compared with holds them."""
    held = way[0].hold(rows)
    for each in way[1:]:
        held &= each.hold(rows)
    return held


def _parts(count: int, columns: int) -> Iterator[slice]:
    """As many rows at a time as stay close to the processor."""
    strip = max(LEAST_STRIP, STRIP // columns)
    return (slice(start, start + strip) for start in range(0, count, strip))


def screen_of(covered: Covered) -> Screen | None:
    """The quick look at a covered set; ``None`` with categories, or if nobody tells of changes."""
    if any(value.is_inference() for value in covered.buffers()):
        return None
    kinds = {type(view) for view in covered.of_inputs}
    known = {Balls, Ranges, Neighbours, Density, Categories}
    if len(covered.other) or not {Balls, Ranges} <= kinds <= known:
        return None
    if float(covered.ranges.threshold) < 0.0:
        return None
    bits = None
    for view in covered.of_inputs:
        if isinstance(view, Categories):
            # Without columns of categories these are columns of 0 and 1 alone.
            bits = view.columns.numpy()
            if float(view.threshold) < 0.0 or bool(view.unseen.any()):
                return None
    mean, unit = covered.whitened.mean.numpy(), covered.whitened.unit.numpy()
    if not (np.abs(mean) < LARGEST).all() or not ((unit > 1 / LARGEST) & (unit < LARGEST)).all():
        return None
    low = np.maximum(covered.ranges.low.numpy(), mean - FURTHEST * unit)
    high = np.minimum(covered.ranges.high.numpy(), mean + FURTHEST * unit)
    ends = {4: _ends(low, high, np.float32), 8: _ends(low, high, np.float64)}
    if covered.columns <= NARROW and covered.reduced is None:
        return _narrow(covered, low, high, ends, bits)
    return WideScreen(ends, bits, covered.inner is not None, None, _ways(covered, low, high))


def _narrow(
    covered: Covered, low: Floats, high: Floats, ends: Ends, bits: NDArray[np.intp] | None
) -> NarrowScreen:
    """One member of every view, all others, and what most rows are told by."""
    units, places = covered.whitened, places_of(covered)
    own, sets = Linear.of(units, low, high, np.float32), [_balls(covered), *_others(covered)]
    chosen = [best(each, places) for each in sets]
    shapes = [each.shape(member) for each, member in zip(sets, chosen, strict=True)]
    others: list[OneOf | Compared | None] = []
    for each, member in zip(sets, chosen, strict=True):
        rest = [each.shape(place) for place in range(each.count) if place != member]
        if not rest:
            others.append(None)
        elif isinstance(each, Spheres):
            others.append(Compared(own, (_quick(each, own, places),)))
        else:
            others.append(OneOf(Members.of(rest, units, low, high)))
    inner = _inner(shapes, places)
    return NarrowScreen(
        ends,
        bits,
        covered.inner is not None,
        _one_row(covered, (low, high), bits, inner, sets, places),
        Members.of(shapes, units, low, high),
        tuple(others),
    )


def _one_row(
    covered: Covered,
    between: tuple[Floats, Floats],
    bits: NDArray[np.intp] | None,
    inner: Shape | None,
    sets: Sequence[Spheres | Ellipsoids],
    places: Floats,
) -> OneRow | None:
    """What single rows are looked at by: what most are told by, then some of every view."""
    views = [[each.shape(member) for member in cover(each, places, SOME)] for each in sets]
    shares = [np.logical_or.reduce([held(own, places) for own in view]) for view in views]
    if np.logical_and.reduce(shares).mean() < OFTEN:
        return None
    looks = ([[inner]], views) if inner is not None else (views,)
    return OneRow(
        (1, covered.columns),
        between[0].tolist(),
        between[1].tolist(),
        () if bits is None else tuple(bits.tolist()),
        tuple(Hulls.of(each, covered.whitened, *between) for each in looks),
        Unwritten(covered),
    )


def _inner(shapes: Sequence[Shape], places: Floats) -> Shape | None:
    """An ellipsoid inside of all that holds most of what they do; ``None`` without one."""
    found: Shape | None = shapes[0]
    for each in shapes[1:]:
        found = None if found is None else inside_both(found, each, places)
    if found is None or len(shapes) == 1:
        return None
    all_of_them = np.logical_and.reduce([held(each, places) for each in shapes])
    return found if held(found, places).sum() >= MOST * all_of_them.sum() else None


def _ways(covered: Covered, low: Floats, high: Floats) -> tuple[Way, ...]:
    """The looks at everything, of which the quicker one comes first."""
    balls, others, reduced = _balls(covered), _others(covered), covered.reduced
    places = places_of(covered)
    own = Linear.of(covered.whitened, low, high, np.float64)
    if reduced is None or not others:
        return ((Compared(own, tuple(_quick(each, own, places) for each in [balls, *others])),),)
    few = Principal.of(reduced, low, high)
    rest = tuple(_quick(each, few, places, few.spread) for each in others)
    exact = (Compared(few, rest), Compared(own, (_quick(balls, own, places),)))
    inner = balls.within(reduced) if covered.whitened.matrix is None else None
    if inner is None or not _worth(inner, covered, places, few.spread):
        return (exact,)
    return ((Compared(few, (*rest, _quick(inner, few, places))),), exact)


def _worth(inner: Spheres, covered: Covered, places: Floats, spread: Floats) -> bool:
    """Whether balls of principal components hold many places, which only a density gives."""
    if density_of(covered) is None:
        return False
    return bool((inner.levels(places * spread) <= 0.0).any(axis=1).mean() >= WORTH)


def _balls(covered: Covered) -> Spheres:
    view = covered.balls
    return Spheres(view.centres.numpy(), (view.radii + view.threshold).numpy())


def _others(covered: Covered) -> list[Spheres | Ellipsoids]:
    """The sets of all other views."""
    found: list[Spheres | Ellipsoids] = []
    for view in covered.each_view:
        if isinstance(view, Neighbours):
            found.append(Spheres(view.centres.numpy(), (view.scales * view.threshold).numpy()))
        elif isinstance(view, Density):
            found.append(Ellipsoids.of(view))
    return found


def _quick(
    each: Spheres | Ellipsoids,
    own: Linear | Principal,
    places: Floats,
    spread: Floats | None = None,
) -> QuickSpheres | QuickEllipsoids:
    """What coordinates of rows, divided by a spread or not, are compared with."""
    if isinstance(each, Spheres):
        return QuickSpheres.of(each, own.kind, own.error, spread)
    first = best(each, places)
    each = each if spread is None else each.times(spread)
    return QuickEllipsoids.of(each, own.kind, own.error, own.bound, first)


def _ends(low: Floats, high: Floats, own: Kind) -> tuple[Singles, Singles]:
    """The smallest and the largest number of a precision between two ends; NaN without any."""
    least: Singles = low.astype(own)
    most: Singles = high.astype(own)
    least = np.where(least < low, np.nextafter(least, own(np.inf)), least)
    most = np.where(most > high, np.nextafter(most, own(-np.inf)), most)
    return np.where(least <= most, least, own(np.nan)), most
