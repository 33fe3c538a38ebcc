"""Comparisons as models make them, brought to one form: ``x <= c`` in float64.

A library that rounds its inputs to single precision, or asks ``x < c``, still cuts the float64
numbers in two: those up to some largest one go one way, all others the other. That number is found
here, so that rows at a threshold, and one unit in the last place beside it, go where they go in
the library itself. So it is with sets of categories: each is a set of intervals of float64 numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# A set of numbers by its ends, which increase: ``x`` is inside if an odd number is below it.
Ends = tuple[float, ...]
LARGEST = np.finfo(np.float32).max
# Half a unit in the last place beyond the largest float32: from here on numbers round to infinity.
BEYOND = float(LARGEST) + 2.0**103


def below(thresholds: Any) -> Floats:
    """Turn ``x < c`` into ``x <= c'``.

    >>> float(below([1.0])[0]) < 1.0
    True
    """
    with np.errstate(over="ignore"):
        return np.nextafter(np.asarray(thresholds, dtype=np.float64), -np.inf)


def rounded_at_most(thresholds: Any) -> Floats:
    """Turn ``float32(x) <= c`` into ``x <= c'``, both in float64.

    The numbers that round to ``float32`` values up to ``c`` end halfway between the largest of
    these and its neighbour; there the one with the even last digit gets it.

    >>> limit = rounded_at_most([1.0])[0]
    >>> bool(np.float32(limit) <= 1.0), bool(np.float32(np.nextafter(limit, 2.0)) <= 1.0)
    (True, False)
    """
    wanted = np.asarray(thresholds, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        low = wanted.astype(np.float32)
        low = np.where(low > wanted, np.nextafter(low, np.float32(-np.inf)), low)
        high = np.nextafter(low, np.float32(np.inf))
        middle = low.astype(np.float64) / 2 + high.astype(np.float64) / 2
        middle = np.where(low == LARGEST, BEYOND, middle)
        middle = np.where(low == -np.inf, -BEYOND, middle)
        up = middle.astype(np.float32) > low
    found = np.where(up, np.nextafter(middle, -np.inf), middle)
    return np.where(np.isinf(wanted), wanted, found)


def rounded_below(thresholds: Any) -> Floats:
    """Turn ``float32(x) < c``, ``c`` a float32 number, into ``x <= c'``."""
    narrow = np.asarray(thresholds, dtype=np.float32)
    with np.errstate(over="ignore"):
        previous = np.nextafter(narrow, np.float32(-np.inf))
    # Below the smallest number there is only minus infinity, which numbers may round to.
    lowest = np.isneginf(previous) & np.isfinite(narrow)
    return np.where(lowest, -BEYOND, rounded_at_most(previous.astype(np.float64)))


def whole_categories(members: Iterable[int]) -> Ends:
    """The numbers whose whole part, rounded down, is one of ``members``.

    >>> whole_categories([1, 2]) == (float(below(1.0)), float(below(3.0)))
    True
    """
    inside = _sorted(members)
    return _joined(below(inside), below(inside + 1.0))


def truncated_categories(members: Iterable[int]) -> Ends:
    """The numbers that become one of ``members`` without their fraction: 0 from above -1 on."""
    inside = _sorted(members)
    return _joined(np.where(inside == 0, -1.0, below(inside)), below(inside + 1.0))


def rounded_categories(members: Iterable[int]) -> Ends:
    """The numbers whose ``float32`` has one of ``members`` as its whole part."""
    inside = _sorted(members)
    return _joined(rounded_below(inside), rounded_below(inside + 1.0))


def _sorted(members: Iterable[int]) -> Floats:
    held = members if isinstance(members, np.ndarray) else list(members)
    return np.unique(np.asarray(held, dtype=np.float64))


def _joined(starts: Floats, stops: Floats) -> Ends:
    """Ends of intervals, each without its start and with its stop; neighbours become one."""
    first = np.append(True, starts[1:] != stops[:-1])[: len(starts)]
    last = np.append(first[1:], True)[: len(stops)]
    return tuple(np.stack([starts[first], stops[last]], axis=1).reshape(-1).tolist())
