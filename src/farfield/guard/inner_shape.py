"""One ellipsoid inside of two balls or ellipsoids: most rows are told by it alone.

Around a centre c, with ``w = A (u - c)`` and ``a = s - A c``, a ball or ellipsoid is
``|w - a|^2 <= r^2``. Since ``-2 a.w <= k (a.w)^2 / |a|^2 + |a|^2 / k`` for every ``k > 0``, it
holds all of

    |w|^2 + k (a.w)^2 / |a|^2 <= r^2 - (1 + 1 / k) |a|^2,

an ellipsoid ``|M v| <= 1`` of ``v = u - c``, narrower in one direction only. Of two such ones,
with ``M_2 M_1^-1 = U S V``, the lengths of ``B v = max(S, 1) V M_1 v`` are at least those of
``M_1 v`` and of ``M_2 v``: ``|B v| <= 1`` is inside of both. How far rounding is from that is
measured, and taken off.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from farfield.guard.shapes import ROOM, Bools, Floats, Shape, share_of

# Centres that are tried between those of the two, and k.
STEPS, NARROWER = 5, (0.5, 1.0, 2.0, 4.0)
# Matrices whose inverses are known to less than the room for rounding.
WORST_CONDITION = 1e6


def inside_both(one: Shape, other: Shape, places: Floats) -> Shape | None:
    """An ellipsoid inside of both that holds many places; ``None`` where none was found."""
    if not (_usable(one) and _usable(other)):
        return None
    begin, end = (np.linalg.solve(each.factor, each.shift) for each in (one, other))
    best, most = None, 0
    for centre, narrower in itertools.product(np.linspace(begin, end, STEPS), NARROWER):
        pair = [_around(centre, each, narrower) for each in (one, other)]
        if pair[0] is None or pair[1] is None:
            continue
        factor = _longest(pair[0], pair[1])
        found = int(held(Shape(factor, factor @ centre, 1.0), places).sum())
        if found > most:
            best, most = (centre, factor, pair[0], pair[1]), found
    return None if best is None else _proven(*best)


def held(shape: Shape, places: Floats) -> Bools:
    """Which places a ball or an ellipsoid holds, but for rounding, ``(places,)``."""
    found: Bools = np.square(places @ shape.factor.T - shape.shift).sum(axis=1) <= shape.square
    return found


def _usable(shape: Shape) -> bool:
    return shape.square > 0.0 and bool(np.linalg.cond(shape.factor) <= WORST_CONDITION)


def _around(centre: Floats, shape: Shape, narrower: float) -> Floats | None:
    """M of an ellipsoid around a centre inside of a ball or an ellipsoid."""
    away = shape.shift - shape.factor @ centre
    # What rounding may take off it.
    lost = np.abs(shape.shift) + np.abs(shape.factor) @ np.abs(centre)
    length = float(np.linalg.norm(away))
    longest = length + share_of(len(centre), np.float64) * float(np.linalg.norm(lost))
    square = shape.square - (1.0 + 1.0 / narrower) * longest**2
    if square <= 0.0 or length == 0.0:
        return None if square <= 0.0 else shape.factor / math.sqrt(square)
    along = (math.sqrt(1.0 + narrower) - 1.0) * np.outer(away, away @ shape.factor) / length**2
    found: Floats = (shape.factor + along) / math.sqrt(square)
    return found


def _longest(first: Floats, second: Floats) -> Floats:
    """B."""
    _, stretch, axes = np.linalg.svd(_over(second, first))
    found: Floats = np.maximum(stretch, 1.0)[:, None] * (axes @ first)
    return found


def _proven(centre: Floats, factor: Floats, first: Floats, second: Floats) -> Shape | None:
    """The ellipsoid, smaller by what B is short of ``M_1`` or ``M_2`` as computed."""
    if not np.linalg.cond(factor) <= WORST_CONDITION:
        return None
    short = [float(np.linalg.norm(_over(each, factor), 2)) for each in (first, second)]
    factor = factor * (max(1.0, *short) * (1.0 + ROOM))
    return Shape(factor, factor @ centre, 1.0)


def _over(upper: Floats, lower: Floats) -> Floats:
    """``upper lower^-1``."""
    return np.asarray(np.linalg.solve(lower.T, upper.T).T, np.float64)
