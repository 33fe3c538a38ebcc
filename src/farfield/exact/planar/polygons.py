"""Many convex polygons at once, and how lines cut them.

All polygons sit in one array, counter-clockwise, padded to the same number of corners by repeating
the first corner: a repeated corner adds an edge of length zero, which no line crosses. Each edge
remembers the line it lies on, so that a new corner is the solution of two equations and does not
inherit the rounding of older corners.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Mask = NDArray[np.bool_]
# A corner counts as lying on a line if the line's value there is within this share of its terms.
ON_LINE = 2.0**-40
# Lines that meet at a smaller angle are not used to improve a corner.
PARALLEL = 1e-6


@dataclass(frozen=True, slots=True)
class Polygons:
    """Convex polygons.

    Attributes:
        corners: ``(polygons, most, 2)``.
        edges: ``(polygons, most, 3)``: the line ``n . p + c = 0``, ``|n| = 1``, from each corner
            to the next.
        counts: ``(polygons,)`` how many corners are real.
        parent: ``(polygons,)`` the polygon of the undivided set that each came from.
    """

    corners: Floats
    edges: Floats
    counts: Integers
    parent: Integers

    @classmethod
    def window(cls, extent: tuple[float, float, float, float]) -> Polygons:
        """Make a single rectangle."""
        left, right, low, high = extent
        corners = np.array([[left, low], [right, low], [right, high], [left, high]])
        edges = np.array(
            [[0.0, 1.0, -low], [1.0, 0.0, -right], [0.0, 1.0, -high], [1.0, 0.0, -left]]
        )
        return cls(corners[None], edges[None], np.array([4]), np.array([0]))

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, which: Any) -> Polygons:
        return Polygons(
            self.corners[which], self.edges[which], self.counts[which], self.parent[which]
        )

    def centres(self) -> Floats:
        """``(polygons, 2)``: the mean of the corners, inside each polygon."""
        spare = (self.corners.shape[1] - self.counts)[:, None]
        total: Floats = self.corners.sum(axis=1) - spare * self.corners[:, 0]
        return total / self.counts[:, None]

    def areas(self) -> Floats:
        """``(polygons,)``: sums of triangles that start at the first corner."""
        x, y = (self.corners - self.corners[:, :1]).transpose(2, 0, 1)
        areas: Floats = 0.5 * (x[:, :-1] * y[:, 1:] - x[:, 1:] * y[:, :-1]).sum(axis=1)
        return areas


def join(parts: list[Polygons]) -> Polygons:
    """Put sets of polygons together."""
    most = max(part.corners.shape[1] for part in parts)
    return Polygons(
        np.concatenate([pad(part.corners, most) for part in parts]),
        np.concatenate([pad(part.edges, most) for part in parts]),
        np.concatenate([part.counts for part in parts]),
        np.concatenate([part.parent for part in parts]),
    )


def pad(array: Floats, most: int) -> Floats:
    """Repeat the first corner until there are ``most``."""
    spare = most - array.shape[1]
    if spare == 0:
        return array
    return np.concatenate([array, np.repeat(array[:, :1], spare, axis=1)], axis=1)


def signed(corners: Floats, lines: Floats) -> Floats:
    """Values of lines at corners, with an exact zero where a corner lies on its line.

    ``corners`` is ``(n, most, 2)``, ``lines`` is ``(3, n)``.
    """
    first = lines[0, :, None] * corners[:, :, 0]
    second = lines[1, :, None] * corners[:, :, 1]
    value = first + second
    value += lines[2, :, None]
    np.abs(first, out=first)
    np.abs(second, out=second)
    first += second
    first += np.abs(lines[2])[:, None]
    first *= ON_LINE
    value[np.abs(value) <= first] = 0.0
    return value


def halves(chosen: Polygons, lines: Floats, value: Floats) -> tuple[Polygons, Integers]:
    """Both sides of polygons that lines cross: ``(3, n)`` with ``value`` at the corners.

    Returns the upper sides, then the lower sides, and which polygon each came from.
    """
    number = len(chosen)
    most = chosen.corners.shape[1]
    sign = np.sign(value).astype(np.int8)
    following = np.roll(sign, -1, axis=1)
    row, place = np.nonzero(sign * following < 0)
    # Each corner has two slots: itself, and the crossing on the edge that follows it.
    points = np.empty((number, most, 2, 2))
    points[:, :, 0] = chosen.corners
    points[row, place, 1] = _crossing(chosen, lines, value, row, place)
    keep = np.zeros((2, number, most, 2), dtype=bool)
    keep[0, :, :, 0] = sign >= 0
    keep[1, :, :, 0] = sign <= 0
    keep[:, :, :, 0] &= np.arange(most) < chosen.counts[:, None]
    keep[:, row, place, 1] = True
    norm = np.hypot(lines[0], lines[1])
    border = (lines / norm).T[None, :, None, None, :]
    along = np.zeros((2, number, most, 2), dtype=bool)
    along[0, :, :, 0] = (sign == 0) & (following < 0)
    along[1, :, :, 0] = (sign == 0) & (following > 0)
    along[0, :, :, 1] = sign > 0
    along[1, :, :, 1] = sign < 0
    edges = np.where(along[..., None], border, chosen.edges[None, :, :, None, :])
    source = np.tile(np.arange(number), 2)
    children = _collect(
        np.broadcast_to(points, (2, *points.shape)).reshape(2 * number, 2 * most, 2),
        edges.reshape(2 * number, 2 * most, 3),
        keep.reshape(2 * number, 2 * most),
        np.tile(chosen.parent, 2),
    )
    return children, source


def _collect(points: Floats, edges: Floats, keep: Mask, parent: Integers) -> Polygons:
    """Move the slots that are kept to the front; fill up with the first."""
    place: Integers = np.cumsum(keep, axis=1, dtype=np.intp)
    counts = place[:, -1].copy()
    row, slot = np.nonzero(keep)
    column = place[row, slot] - 1
    first = keep.argmax(axis=1)
    every = np.arange(len(keep))
    shape = (len(keep), int(counts.max(initial=1)))
    corners = np.empty((*shape, 2))
    corners[:] = points[every, first][:, None]
    corners[row, column] = points[row, slot]
    lines = np.empty((*shape, 3))
    lines[:] = edges[every, first][:, None]
    lines[row, column] = edges[row, slot]
    return Polygons(corners, lines, counts, parent)


def _crossing(
    chosen: Polygons, lines: Floats, value: Floats, row: Integers, place: Integers
) -> Floats:
    """Where lines meet edges: interpolated, then improved by one step on the two equations."""
    following = (place + 1) % value.shape[1]
    here, there = value[row, place], value[row, following]
    start, end = chosen.corners[row, place], chosen.corners[row, following]
    share = here / (here - there)
    x, y = (start + share[:, None] * (end - start)).T
    a, b, c = lines[:, row]
    d, e, f = chosen.edges[row, place].T
    determinant = a * e - b * d
    steep = np.abs(determinant) > PARALLEL * np.hypot(a, b)
    determinant = np.where(steep, determinant, np.inf)
    first, second = a * x + b * y + c, d * x + e * y + f
    return np.stack(
        [
            x - (first * e - b * second) / determinant,
            y - (a * second - first * d) / determinant,
        ],
        axis=1,
    )
