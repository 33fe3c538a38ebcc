"""A quick look: rows that are inside of all views for certain, found in single precision.

Nearly all rows are well inside, where T is exactly 1 and nothing else need be known. The quick look
evaluates all views in single precision, with a bound on every rounding error: a row that is inside
by more than the bound is inside in double precision too. All others are looked at again, exactly.
Rows of many columns are looked at in double precision, where the same bounds are as good as
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from farfield.guard.first_look import First, first_of
from farfield.guard.shapes import (
    ROOM,
    Bools,
    Coordinates,
    Ellipsoids,
    Floats,
    Kind,
    Singles,
    Spheres,
    as_column,
    squares_of,
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


@dataclass(frozen=True)
class Desk:
    """Memory that is used again: to get it takes longer than to fill it.

    Attributes:
        sheets: Name to memory.
    """

    sheets: dict[tuple[str, Any], NDArray[Any]]

    def take(self, name: str, shape: tuple[int, int], kind: Any) -> NDArray[Any]:
        """An array to be written to; what it holds is from before."""
        count = shape[0] * shape[1]
        sheet = self.sheets.get((name, kind))
        if sheet is None or len(sheet) < count:
            sheet = self.sheets[name, kind] = np.empty(count, kind)
        return sheet[:count].reshape(shape)


@dataclass(frozen=True)
class Screen:
    """The quick look at a covered set.

    Attributes:
        ends: For rows of 4 and of 8 bytes a number the smallest and the largest values that are
            looked at, and what is subtracted from them first; each ``(columns,)``.
        mean: ``(columns, 1)``, in double precision.
        scale: ``(columns, 1)``, one by the deviations.
        first: One ball or ellipsoid of every view, where these hold most rows.
        whitened: Coordinates of the balls.
        balls: The balls.
        reduced: Coordinates of all other views; ``None`` where they are those of the balls.
        others: Their sets.
        desks: Memory that nobody uses at the moment.
    """

    ends: Mapping[int, tuple[Singles, Singles, Singles]]
    mean: Floats
    scale: Singles
    first: First | None
    whitened: Coordinates
    balls: Spheres
    reduced: Coordinates | None
    others: tuple[Spheres | Ellipsoids, ...]
    desks: list[Desk] = field(default_factory=list, repr=False)

    def certain(self, row: NDArray[Any]) -> bool:
        """Whether one row, ``(columns,)``, is inside for certain: the same in fewer calls."""
        low, high, centre = self.ends[row.itemsize]
        moved = np.minimum(np.maximum(row, low), high)
        # Equal bytes are equal numbers, or NaN, which nothing holds.
        if moved.tobytes() != row.tobytes():
            return False
        if self.first is not None:
            centred = np.empty(len(row) + 1, np.float32)
            centred[-1] = 1.0
            np.subtract(moved, centre, out=centred[:-1], casting="same_kind")
            if self.first.holds(centred):
                return True
        return bool(self._whole(row[:, None])[0])

    def inside(self, rows: NDArray[Any]) -> Bools:
        """Which rows are inside for certain, ``(rows,)``; NaN never is."""
        columns = len(self.scale)
        if self.first is None:
            parts = _parts(len(rows), columns)
            return np.concatenate([NONE, *(self._between(rows[each]) for each in parts)])
        held, sure = np.empty((2, len(rows)), dtype=np.bool_)
        # A desk belongs to whoever took it, so that threads do not write on each other's.
        desk = self.desks.pop() if self.desks else Desk({})
        for part in _parts(len(rows), columns):
            held[part], sure[part] = self._first(self.first, rows[part], desk)
        self.desks.append(desk)
        left = np.flatnonzero(held != sure)
        for part in _parts(len(left), columns):
            some = left[part]
            sure[some] = self._whole(np.ascontiguousarray(rows[some].T))
        return sure

    def _between(self, rows: NDArray[Any]) -> Bools:
        """Whether rows are between their ends, and all views hold them."""
        values = np.ascontiguousarray(rows.T)
        low, high, _ = (each[:, None] for each in self.ends[values.itemsize])
        # Whatever is not between its ends is moved there, so that nothing overflows.
        moved = np.minimum(np.maximum(values, low), high)
        held: Bools = np.logical_and.reduce(moved == values, axis=0)
        return held & self._whole(moved)

    def _first(self, first: First, rows: NDArray[Any], desk: Desk) -> tuple[Bools, Bools]:
        """Which rows are between their ends, and which of them the first look is sure of."""
        count, columns = rows.shape
        values = desk.take("values", (columns, count), rows.dtype)
        np.copyto(values, rows.T)
        low, high, centre = (each[:, None] for each in self.ends[values.itemsize])
        moved = desk.take("moved", (columns, count), rows.dtype)
        np.maximum(values, low, out=moved)
        np.minimum(moved, high, out=moved)
        same = np.equal(moved, values, out=desk.take("same", (columns, count), np.bool_))
        held: Bools = np.logical_and.reduce(same, axis=0)
        centred = desk.take("centred", (columns + 1, count), np.float32)
        centred[-1] = 1.0
        np.subtract(moved, centre, out=centred[:-1], casting="same_kind")
        found = desk.take("found", (len(first.matrix), count), np.float32)
        return held, held & first.hold(centred, found)

    def _whole(self, values: Singles) -> Bools:
        """Whether all views hold rows, ``(columns, rows)``, by any of their balls or ellipsoids."""
        standard = (values - self.mean).astype(self.scale.dtype, copy=False)
        standard *= self.scale
        squares = squares_of(standard)
        own = self.whitened(standard, squares)
        held = self.balls.hold(*own)
        other = own if self.reduced is None else self.reduced(standard, squares)
        for each in self.others:
            held &= each.hold(*other)
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
    balls = covered.balls
    kind: Kind = np.float32 if covered.columns <= NARROW else np.float64
    spheres = Spheres.of(balls.centres.numpy(), (balls.radii + balls.threshold).numpy(), kind)
    if spheres is None or float(covered.ranges.threshold) < 0.0:
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
    mean, unit = covered.whitened.mean.numpy(), covered.whitened.unit.numpy()
    if not (np.abs(mean) < LARGEST).all() or not ((unit > 1 / LARGEST) & (unit < LARGEST)).all():
        return None
    low = np.maximum(covered.ranges.low.numpy(), mean - FURTHEST * unit)
    high = np.minimum(covered.ranges.high.numpy(), mean + FURTHEST * unit)
    centre = mean.astype(np.float32).astype(np.float64)
    bounds = np.maximum(high - centre, centre - low) * (1.0 + ROOM)
    return Screen(
        {4: _ends(low, high, centre, np.float32), 8: _ends(low, high, centre, np.float64)},
        as_column(mean, np.float64),
        as_column(1.0 / unit, kind),
        first_of(covered, [spheres, *others], centre, bounds) if kind is np.float32 else None,
        Coordinates.of(covered.whitened, kind),
        spheres,
        Coordinates.of(covered.reduced, kind) if others and covered.reduced is not None else None,
        tuple(others),
    )


def _ends(low: Floats, high: Floats, centre: Floats, own: Kind) -> tuple[Singles, Singles, Singles]:
    """The smallest and the largest number of a precision between two ends; NaN without any."""
    least: Singles = low.astype(own)
    most: Singles = high.astype(own)
    least = np.where(least < low, np.nextafter(least, own(np.inf)), least)
    most = np.where(most > high, np.nextafter(most, own(-np.inf)), most)
    least = np.where(least <= most, least, own(np.nan))
    return least, most, centre.astype(own)


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
