"""Arrays of integers of any length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import fmpz
from numpy.typing import NDArray

Integers = NDArray[np.object_]


def objects(items: Sequence[Any], shape: tuple[int, ...]) -> Integers:
    """Put integers into an array of a shape."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(shape)


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """``numpy.where`` for arrays of integers of any length."""
    return np.where(condition, yes, no)


def as_integers(values: NDArray[np.float64]) -> tuple[Integers, Any]:
    """Floats as integers over a common power of two."""
    mantissas, exponents = np.frexp(values)
    whole = (mantissas * 2.0**53).astype(np.int64)
    shifts = choose(whole == 0, 0, exponents.astype(np.int64) - 53)
    least = int(min(shifts.min(initial=0), 0))
    numerators = [int(m) << int(e - least) for m, e in zip(whole, shifts, strict=True)]
    return objects([fmpz(n) for n in numerators], values.shape), fmpz(1 << -least)


def quotient(top: Any, bottom: Any) -> float:
    """A quotient of integers, rounded once; infinite where it is beyond the range of floats."""
    try:
        return int(top) / int(bottom)
    except OverflowError:
        return math.inf if (top > 0) == (bottom > 0) else -math.inf
