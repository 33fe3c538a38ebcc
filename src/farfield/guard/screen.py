"""A quick look: rows that are inside of all views for certain.

Nearly all rows are well inside, where T is exactly 1 and nothing else need be known. The quick look
evaluates all views in few operations, mostly in single precision, with a bound on every rounding
error: a row that is inside by more than the bound is inside as the exact look computes it, too. All
others are looked at again, exactly. Rows of many columns are looked at in double precision, by
their principal components.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from farfield.guard.coordinates import Linear, Principal
from farfield.guard.first_look import WORTH, First, first_of, places_of
from farfield.guard.shapes import (
    Bools,
    Ellipsoids,
    Floats,
    Kind,
    QuickEllipsoids,
    QuickSpheres,
    Singles,
    Spheres,
    best,
)
from farfield.guard.views.balls import Balls
from farfield.guard.views.density import Density
from farfield.guard.views.neighbours import Neighbours
from farfield.guard.views.ranges import Ranges
from farfield.guard.views.units import Units

if TYPE_CHECKING:
    from farfield.guard.covered import Covered

# Sums over more columns than this lose too much in single precision.
NARROW = 128
# Values further from the mean, in deviations, are looked at exactly: one row in 10,000 at most for
# each column (Chebyshev). So no error bound has to hold for larger ones.
FURTHEST = 100.0
# Means and deviations beyond this, or below its inverse, have no squares in single precision.
LARGEST = 1e15
# Numbers that are looked at together, and rows at least.
STRIP, LEAST_STRIP = 2**17, 64
# What no quick look is made from.
UNUSED = ("fill", "inputs", "numeric", "other", "unit", "width")
VERSION = attrgetter("_version")
NONE = np.zeros(0, dtype=np.bool_)
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
        """Whether one of each set holds rows, ``(rows, columns)``."""
        places = self.coordinates(rows)
        held = self.sets[0].hold(places)
        for each in self.sets[1:]:
            held &= each.hold(places)
        return held


# Everything that has to hold a row.
Way = tuple[Compared, ...]


@dataclass(frozen=True)
class Screen:
    """The quick look at a covered set.

    Attributes:
        ends: For rows of 4 and of 8 bytes a number the smallest and the largest values that are
            looked at; each ``(columns,)``.
        first: One ball or ellipsoid of every view, where these hold most rows.
        whole: All of them; rows are sure by one of several ways.
    """

    ends: Mapping[int, tuple[Singles, Singles]]
    first: First | None
    whole: tuple[Way, ...]

    def certain(self, row: NDArray[Any]) -> bool:
        """Whether one row, ``(columns,)``, is inside for certain: the same in fewer calls."""
        low, high = self.ends[row.itemsize]
        # Bytes are looked through in less time than numpy takes to be asked.
        if FALSE in (row >= low).tobytes() or FALSE in (row <= high).tobytes():
            return False
        if self.first is not None and FALSE not in self.first.hold(row).tobytes():
            return True
        return bool(self._whole(row[None])[0])

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
        held = np.ones(len(rows), dtype=np.bool_)
        if FALSE in between.tobytes():
            held[np.flatnonzero(~between.ravel()) // len(low)] = False
        sure = np.zeros_like(held) if self.first is None else held.copy()
        if self.first is not None:
            for member in self.first.hold(rows).T:
                sure &= member
        left = np.flatnonzero(held != sure)
        if len(left):
            sure[left] = self._whole(rows if len(left) == len(rows) else rows[left])
        return sure

    def _whole(self, rows: NDArray[Any]) -> Bools:
        """Whether all views hold rows, ``(rows, columns)``, by any of their balls or ellipsoids."""
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
    if len(covered.other) or not {Balls, Ranges} <= kinds <= {Balls, Ranges, Neighbours, Density}:
        return None
    if float(covered.ranges.threshold) < 0.0:
        return None
    mean, unit = covered.whitened.mean.numpy(), covered.whitened.unit.numpy()
    if not (np.abs(mean) < LARGEST).all() or not ((unit > 1 / LARGEST) & (unit < LARGEST)).all():
        return None
    low = np.maximum(covered.ranges.low.numpy(), mean - FURTHEST * unit)
    high = np.minimum(covered.ranges.high.numpy(), mean + FURTHEST * unit)
    first, whole = _looks(covered, low, high)
    ends = {4: _ends(low, high, np.float32), 8: _ends(low, high, np.float64)}
    return Screen(ends, first, whole)


def _looks(covered: Covered, low: Floats, high: Floats) -> tuple[First | None, tuple[Way, ...]]:
    """The first look, and those at everything."""
    balls, others, reduced = _balls(covered), _others(covered), covered.reduced
    narrow, places = covered.columns <= NARROW, places_of(covered)
    own = Linear.of(covered.whitened, low, high, np.float32 if narrow else np.float64)
    if reduced is None or not others:
        sets = [balls, *others]
        first = first_of(covered.whitened, sets, places, low, high) if narrow else None
        return first, ((Compared(own, tuple(_quick(each, own, places) for each in sets)),),)
    few = Principal.of(reduced, low, high)
    rest = tuple(_quick(each, few, places, few.spread) for each in others)
    exact = (Compared(few, rest), Compared(own, (_quick(balls, own, places),)))
    inner = balls.within(reduced) if covered.whitened.matrix is None else None
    if inner is None or not _worth(inner, covered, places, few.spread):
        return None, (exact,)
    return None, ((Compared(few, (*rest, _quick(inner, few, places))),), exact)


def _worth(inner: Spheres, covered: Covered, places: Floats, spread: Floats) -> bool:
    """Whether balls of principal components hold many places, which only a density gives."""
    if not isinstance(covered.of_inputs[-1], Density):
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


class Unwritten:
    """Whether the numbers of a covered set are still those that a quick look was made from.

    Every write to a tensor raises its version, so the sum over tensors tells of any; and whatever
    holds them, by name, must hold the same ones. It is asked before every look, so all of it runs
    without a loop of Python's own.
    """

    def __init__(self, covered: Covered) -> None:
        held: list[tuple[dict[str, Any], str, Any]] = []
        for module in covered.modules():
            held += [(module._modules, name, child) for name, child in module._modules.items()]
            held += [
                (module._buffers, name, value)
                for name, value in module._buffers.items()
                if value is not None and (name not in UNUSED or isinstance(module, Units))
            ]
        self.places, self.names, self.things = zip(*held, strict=True)
        self.tensors = [each for each in self.things if isinstance(each, Tensor)]
        # Tensors of inference mode do not tell whether they were written to.
        self.tell = not any(value.is_inference() for value in self.tensors)
        self.versions = sum(map(VERSION, self.tensors)) if self.tell else -1
        self.views, self.count = covered.views._modules, len(covered.views)

    def unchanged(self) -> bool:
        """Whether every tensor is the same one, and nobody has written to it."""
        return (
            self.tell
            and sum(map(VERSION, self.tensors)) == self.versions
            and all(map(is_, map(dict.get, self.places, self.names), self.things))
            and len(self.views) == self.count
        )
