"""Cut many polygons by many lines: which cross, in which order, with what left over.

Cutting works in rounds. A *pair* is a polygon and a unit that is not settled on it. In a round
every polygon with pairs is divided along one of them; its children inherit the others, as far as
they still apply. The number of rounds is the depth of the deepest chain of cuts, and each round
is array code over all polygons.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from farfield.exact.planar.polygons import Floats, Integers, Mask, Polygons, halves, join, signed

# How many numbers a test of all lines on all polygons may hold at a time: what fits into a cache.
BLOCK = 1 << 16
UNLIMITED = 1 << 62
OpenPairs = Callable[[Floats, Integers, Integers], Mask]
Divide = Callable[[Polygons, Integers], tuple[Polygons, Integers]]


class TooManyPolygons(Exception):  # noqa: N818 - a signal within the walk, not an error
    """There are more polygons than were asked for at most."""


def cut(polygons: Polygons, lines: Floats, most: int = UNLIMITED) -> Polygons | None:
    """Cut every polygon along its own lines, ``(3, polygons, lines)``; ``None`` if nothing is cut.

    The parent of a polygon in the result is its index in ``polygons``.

    Raises:
        TooManyPolygons: If there would be more than ``most``.
    """
    owner, unit = _crossed(polygons, lines)

    def divide(chosen: Polygons, unit: Integers) -> tuple[Polygons, Integers]:
        line = lines[:, chosen.parent, unit]
        return halves(chosen, line, signed(chosen.corners, line))

    def open_pairs(corners: Floats, parent: Integers, unit: Integers) -> Mask:
        value = signed(corners, lines[:, parent, unit])
        crossed: Mask = (value.min(axis=1) < 0) & (value.max(axis=1) > 0)
        return crossed

    return _refine(polygons, owner, unit, open_pairs, divide, most)


def cut_at_breaks(
    polygons: Polygons, columns: Floats, breaks: Floats, offsets: Integers, most: int = UNLIMITED
) -> Polygons | None:
    """Cut every polygon along the lines where columns equal breaks; ``None`` if nothing is cut.

    Only breaks between the smallest and the largest value at the corners are looked at.

    Args:
        polygons: What to cut.
        columns: ``(3, polygons, outputs)``.
        breaks: Those of each output, one after another, increasing.
        offsets: ``(outputs + 1,)`` where those of each output start.
        most: How many polygons there may be.

    Raises:
        TooManyPolygons: If there would be more than ``most``.
    """
    output = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    owner, unit = _between(polygons, columns, breaks, offsets)

    def lines(parent: Integers, unit: Integers) -> Floats:
        found: Floats = columns[:, parent, output[unit]].copy()
        found[2] -= breaks[unit]
        return found

    def divide(chosen: Polygons, unit: Integers) -> tuple[Polygons, Integers]:
        line = lines(chosen.parent, unit)
        return halves(chosen, line, signed(chosen.corners, line))

    def open_pairs(corners: Floats, parent: Integers, unit: Integers) -> Mask:
        value = signed(corners, lines(parent, unit))
        crossed: Mask = (value.min(axis=1) < 0) & (value.max(axis=1) > 0)
        return crossed

    return _refine(polygons, owner, unit, open_pairs, divide, most)


def _between(
    polygons: Polygons, columns: Floats, breaks: Floats, offsets: Integers
) -> tuple[Integers, Integers]:
    """Pairs of a polygon and a break that a column may pass on it, ordered by polygon."""
    x, y = polygons.corners.transpose(2, 0, 1)
    owners, units = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
    for output in range(len(offsets) - 1):
        a, b, c = columns[:, :, output, None]
        value = a * x + b * y + c
        own = breaks[offsets[output] : offsets[output + 1]]
        first = np.searchsorted(own, value.min(axis=1))
        count = np.searchsorted(own, value.max(axis=1), side="right") - first
        owner = np.repeat(np.arange(len(polygons)), count)
        place = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
        owners.append(owner)
        units.append(offsets[output] + first[owner] + place)
    owner, unit = np.concatenate(owners), np.concatenate(units)
    order = np.argsort(owner, kind="stable")
    return owner[order], unit[order]


def _crossed(polygons: Polygons, lines: Floats) -> tuple[Integers, Integers]:
    """Pairs of a polygon and a line that may cross it, ordered by polygon.

    A line that crosses a polygon crosses the rectangle around it, and by more than roundings, as
    corners close to a line are on it (:func:`signed`). The corners are asked later.
    """
    low, high = polygons.corners.min(axis=1), polygons.corners.max(axis=1)
    x, y = (low + (high - low) / 2).T
    width, height = ((high - low) / 2).T
    step = max(1, BLOCK // max(1, lines.shape[2]))
    found = []
    for start in range(0, len(polygons), step):
        part = slice(start, start + step)
        a, b, c = lines[:, part]
        far = a * x[part, None]
        far += b * y[part, None]
        far += c
        reach = np.abs(a) * width[part, None]
        reach += np.abs(b) * height[part, None]
        owner, unit = np.nonzero(np.abs(far, out=far) < reach)
        found.append((owner + start, unit))
    return np.concatenate([o for o, _ in found]), np.concatenate([u for _, u in found])


def _refine(
    polygons: Polygons,
    owner: Integers,
    unit: Integers,
    is_open: OpenPairs,
    divide: Divide,
    most: int,
) -> Polygons | None:
    """Divide polygons until no pair is open.

    Args:
        polygons: What to divide.
        owner: The polygon of each pair, in order.
        unit: The unit of each pair.
        is_open: Tells, from the corners, the original polygon and the unit, which pairs are open.
        divide: Divides polygons along one unit each; also tells which polygon each came from.
        most: How many polygons there may be.
    """
    active = Polygons(polygons.corners, polygons.edges, polygons.counts, np.arange(len(polygons)))
    keep = _still_open(active, owner, unit, is_open)
    owner, unit = owner[keep], unit[keep]
    if len(owner) == 0:
        return None
    done: list[Polygons] = []
    settled = 0
    while True:
        pending = np.bincount(owner, minlength=len(active))
        busy = pending > 0
        done.append(active[~busy])
        settled += len(done[-1])
        if len(owner) == 0:
            result = join(done)
            return result[np.argsort(result.parent, kind="stable")]
        active, pending = active[busy], pending[busy]
        start = np.cumsum(pending) - pending
        chosen = start + pending // 2
        children, source = divide(active, unit[chosen])
        rest = np.ones(len(unit), dtype=bool)
        rest[chosen] = False
        unit, pending = unit[rest], pending - 1
        start = np.cumsum(pending) - pending
        each = pending[source]
        owner = np.repeat(np.arange(len(children)), each)
        place = np.arange(len(owner)) - np.repeat(np.cumsum(each) - each, each)
        unit = unit[np.repeat(start[source], each) + place]
        if settled + len(children) > most:
            raise TooManyPolygons
        keep = _still_open(children, owner, unit, is_open)
        active, owner, unit = children, owner[keep], unit[keep]


def _still_open(polygons: Polygons, owner: Integers, unit: Integers, is_open: OpenPairs) -> Mask:
    """Which pairs are open, looking at some at a time."""
    step = max(1, BLOCK // (4 * polygons.corners.shape[1]))
    found = [np.empty(0, dtype=bool)]
    for start in range(0, len(owner), step):
        some = owner[start : start + step]
        corners = polygons.corners[some]
        found.append(is_open(corners, polygons.parent[some], unit[start : start + step]))
    return np.concatenate(found)


def cut_by_largest(
    polygons: Polygons, candidates: Floats, most: int = UNLIMITED
) -> Polygons | None:
    """Cut polygons where the largest of ``(candidates, 3, polygons, units)`` changes.

    Raises:
        TooManyPolygons: If there would be more than ``most``.
    """
    number = len(candidates)

    def values(corners: Floats, parent: Integers, unit: Integers) -> Floats:
        """``(candidates, pairs, corners)``: how far each candidate is above the others."""
        functions = candidates[:, :, parent, unit]
        gaps = np.full((number, *corners.shape[:2]), np.inf)
        for i in range(number):
            for j in range(number):
                if i != j:
                    gap = signed(corners, functions[i] - functions[j])
                    np.minimum(gaps[i], gap, out=gaps[i])
        return gaps

    def open_pairs(corners: Floats, parent: Integers, unit: Integers) -> Mask:
        lead = values(corners, parent, unit)
        contested: Mask = (lead.min(axis=2) < 0).all(axis=0)
        return contested

    def divide(chosen: Polygons, unit: Integers) -> tuple[Polygons, Integers]:
        functions = candidates[:, :, chosen.parent, unit]
        parts, sources = [], []
        for winner in range(number):
            part, source = _where_largest(chosen, functions, winner)
            parts.append(part)
            sources.append(source)
        return join(parts), np.concatenate(sources)

    owner, unit = _contested(polygons, candidates)
    return _refine(polygons, owner, unit, open_pairs, divide, most)


def _contested(polygons: Polygons, candidates: Floats) -> tuple[Integers, Integers]:
    """Pairs of a polygon and a unit of which no candidate is largest at every corner."""
    most = polygons.corners.shape[1]
    step = max(1, BLOCK // max(1, candidates.shape[0] * candidates.shape[3]))
    found = []
    for start in range(0, len(polygons), step):
        part = slice(start, start + step)
        a, b, c = candidates[:, :, part].swapaxes(0, 1)
        leads = np.ones(a.shape, dtype=bool)
        for place in range(most):
            x, y = polygons.corners[part, place].T
            value = a * x[:, None] + b * y[:, None] + c
            leads &= value == value.max(axis=0)
        owner, unit = np.nonzero(~leads.any(axis=0))
        found.append((owner + start, unit))
    return np.concatenate([o for o, _ in found]), np.concatenate([u for _, u in found])


def _where_largest(chosen: Polygons, functions: Floats, winner: int) -> tuple[Polygons, Integers]:
    """The part of each polygon where one candidate is largest; of equals, the first."""
    source = np.arange(len(chosen))
    for other in range(len(functions)):
        if other == winner:
            continue
        gap = (functions[winner] - functions[other])[:, source]
        value = signed(chosen.corners, gap)
        above, below = value.max(axis=1) > 0, value.min(axis=1) < 0
        inside = np.flatnonzero(~below & (above | (winner < other)))
        crossed = np.flatnonzero(above & below)
        pieces, _ = halves(chosen[crossed], gap[:, crossed], value[crossed])
        upper = pieces[np.arange(len(crossed))]
        chosen = join([chosen[inside], upper])
        source = source[np.concatenate([inside, crossed])]
    return chosen, source
