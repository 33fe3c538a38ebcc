"""Arrays of integers of any length."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import fmpz
from numpy.typing import NDArray

Integers = NDArray[np.object_]
LEAST = math.ulp(0.0)
# Numbers that are converted before somebody looks at the clock.
STRIDE = 1 << 16


def objects(items: Sequence[Any], shape: tuple[int, ...]) -> Integers:
    """Put integers into an array of a shape."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(shape)


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """``numpy.where`` for arrays of integers of any length."""
    return np.where(condition, yes, no)


def as_integers(
    values: NDArray[np.float64], check: Callable[[], None] = lambda: None
) -> tuple[Integers, Any]:
    """Floats as integers over a common power of two; ``check`` is called now and then."""
    mantissas, exponents = np.frexp(values)
    whole = (mantissas * 2.0**53).astype(np.int64)
    shifts = choose(whole == 0, 0, exponents.astype(np.int64) - 53)
    least = int(min(shifts.min(initial=0), 0))
    numerators: list[Any] = []
    for start in range(0, len(whole), STRIDE):
        check()
        part = slice(start, start + STRIDE)
        pairs = zip(whole[part].tolist(), (shifts[part] - least).tolist(), strict=True)
        numerators += [fmpz(m << e) for m, e in pairs]
    return objects(numerators, values.shape), fmpz(1 << -least)


def quotient(top: Any, bottom: Any) -> float:
    """A quotient of integers, rounded once; infinite where it is beyond the range of floats.

    Its sign survives: what is not zero does not become zero.

    >>> quotient(1, 3), quotient(-1, 10**400), quotient(10**400, 1), quotient(0, 5)
    (0.333..., -5e-324, inf, 0.0)
    """
    sign = 1.0 if (top > 0) == (bottom > 0) else -1.0
    try:
        rounded = int(top) / int(bottom)
    except OverflowError:
        return sign * math.inf
    return sign * LEAST if rounded == 0 and top != 0 else rounded
