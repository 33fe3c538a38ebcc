"""Comparisons as models make them, brought to one form: ``x <= c`` in float64.

A library that rounds its inputs to single precision, or asks ``x < c``, still cuts the float64
numbers in two: those up to some largest one go one way, all others the other. That number is found
here, so that rows at a threshold, and one unit in the last place beside it, go where they go in
the library itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
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
