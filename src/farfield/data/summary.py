"""Means, deviations and ranges of many columns in one pass."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Summary:
    """Exact statistics of every input, of the shape of one row.

    Attributes:
        count: Number of rows.
        mean: Mean, float64.
        std: Standard deviation, divided by the number of rows.
        low: Smallest value.
        high: Largest value.
    """

    count: int
    mean: Floats
    std: Floats
    low: Floats
    high: Floats


class Moments:
    """Running count, mean, sum of squared deviations and range of ``size`` columns.

    Chunks are combined by the formulas of Chan, Golub and LeVeque (1979), in float64:
    with ``d = mean_b - mean_a`` and ``n = n_a + n_b``,
    ``mean = mean_a + d n_b / n`` and ``M = M_a + M_b + d^2 n_a n_b / n``.

    >>> moments = Moments(1)
    >>> _ = moments.add(np.array([[1.0, 2.0]])).add(np.array([[6.0, np.nan]]))
    >>> moments.count.tolist(), moments.mean.tolist(), moments.variance().round(12).tolist()
    ([3], [3.0], [4.666666666667])
    """

    def __init__(self, size: int) -> None:
        self.count = np.zeros(size, dtype=np.int64)
        self.mean, self.squares = np.zeros(size), np.zeros(size)
        self.low, self.high = np.full(size, np.inf), np.full(size, -np.inf)

    def add(self, values: Floats) -> Self:
        """Take in ``(columns, rows)``; NaN is left out."""
        if values.shape[1] == 0:
            return self
        absent = np.isnan(values)
        count = values.shape[1] - absent.sum(axis=1)
        holes = bool(absent.any())
        # Beyond 1e154 squares overflow; the deviation is then infinite, which is the truth.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            mean = (np.where(absent, 0.0, values) if holes else values).sum(axis=1) / count
            mean = np.where(count > 0, mean, 0.0)
            apart = values - mean[:, None]
            if holes:
                apart[absent] = 0.0
            squares = np.einsum("ij,ij->i", apart, apart)
        low = (np.where(absent, np.inf, values) if holes else values).min(axis=1)
        high = (np.where(absent, -np.inf, values) if holes else values).max(axis=1)
        return self.merge(count, mean, squares, low, high)

    def merge(
        self, count: NDArray[np.int64], mean: Floats, squares: Floats, low: Floats, high: Floats
    ) -> Self:
        """Take in what is known about further rows."""
        total = self.count + count
        safe = np.maximum(total, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            apart = mean - self.mean
            self.mean = self.mean + apart * (count / safe)
            self.squares = self.squares + squares + apart**2 * (self.count * (count / safe))
        self.low, self.high = np.minimum(self.low, low), np.maximum(self.high, high)
        self.count = total
        return self

    def fill(self, missing: NDArray[np.int64], value: Floats) -> Self:
        """Take in ``missing`` rows that all hold ``value``; NaN where there are none."""
        value = np.where(missing > 0, value, self.mean)
        none = missing == 0
        low, high = np.where(none, np.inf, value), np.where(none, -np.inf, value)
        return self.merge(missing, value, np.zeros(len(missing)), low, high)

    def of(self, chosen: list[int]) -> "Moments":
        """Return a copy for some of the columns."""
        copy = Moments(len(chosen))
        return copy.merge(
            self.count[chosen],
            self.mean[chosen],
            self.squares[chosen],
            self.low[chosen],
            self.high[chosen],
        )

    def variance(self) -> Floats:
        """Mean squared deviation, which divides by the number of rows."""
        return self.squares / np.maximum(self.count, 1)
