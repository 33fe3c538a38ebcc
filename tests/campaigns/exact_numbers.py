"""Arrays of exact numbers: fractions, or balls of many digits."""

from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, fmpq
from torch import Tensor

Array = np.ndarray


class Numbers:
    """One kind of exact number: how floats become one, and quotients of whole numbers."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def read(self, value: float) -> Any:
        if self.kind == "balls":
            return arb(value)
        return fmpq(*float(value).as_integer_ratio())

    def fraction(self, value: Any) -> Any:
        whole = Fraction(value)
        found = fmpq(whole.numerator, whole.denominator)
        return arb(found) if self.kind == "balls" else found

    def array(self, values: Any) -> Array:
        if isinstance(values, np.ndarray):
            return values
        if not isinstance(values, Tensor):
            return np.array(self.read(float(values)), dtype=object)
        flat = [self.read(value) for value in values.double().flatten().tolist()]
        array = np.empty(len(flat), dtype=object)
        array[:] = flat
        return array.reshape(tuple(values.shape))


def each(function: Any, values: Array) -> Array:
    return np.frompyfunc(function, 1, 1)(values)
