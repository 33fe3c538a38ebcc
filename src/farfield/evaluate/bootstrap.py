"""The bootstrap: how much would a number vary, had other points been drawn?

Points are drawn with replacement, as many as there are. Everything is a count of how often each
point was drawn, so a resample costs one count and one weighted sum, in chunks of resamples.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import InputError
from farfield.estimate import Estimate, check_level

RandomState = int | np.random.Generator
_CHUNK_ENTRIES = 1 << 17


def check_bootstrap(interval: float, resamples: int) -> None:
    """Refuse levels outside of (0, 1) and too few resamples for the level."""
    check_level(interval)
    needed = int(np.ceil(2.0 / (1.0 - interval)))
    if resamples < needed:
        raise InputError(
            f"An interval at level {interval} needs at least {needed} resamples, got {resamples}."
        )


def generator(random_state: RandomState) -> np.random.Generator:
    """Turn a seed into a generator of its own; a generator is used, and moved on, as it is."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, (int, np.integer)) and random_state >= 0:
        return np.random.default_rng(int(random_state))
    raise InputError(
        "random_state must be a whole number from 0 on, or a numpy.random.Generator; "
        f"got {random_state!r}."
    )


def draws(points: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Count how often each point occurs in each of ``size`` resamples: ``(size, points)``."""
    drawn = rng.integers(points, size=(size, points))
    drawn += np.arange(size)[:, None] * points
    return np.bincount(drawn.ravel(), minlength=size * points).reshape(size, points)


def chunks(resamples: int, points: int) -> Iterator[int]:
    """Split the resamples into chunks of bounded memory."""
    size = max(1, _CHUNK_ENTRIES // points)
    for start in range(0, resamples, size):
        yield min(size, resamples - start)


def resampled_means(columns: Any, resamples: int, random_state: RandomState) -> NDArray[np.float64]:
    """Average a matrix ``(points, columns)`` over every resample: ``(resamples, columns)``.

    The matrix may be a numpy array or a sparse array of scipy.
    """
    points = columns.shape[0]
    rng = generator(random_state)
    parts = [
        np.asarray((columns.T @ draws(points, size, rng).T.astype(np.float64)).T) / points
        for size in chunks(resamples, points)
    ]
    return np.concatenate(parts)


def percentile_estimates(
    values: Mapping[str, float], resampled: Mapping[str, NDArray[np.float64]], level: float
) -> dict[str, Estimate]:
    """Give every value the interval that holds the central share of its resampled values.

    Ends are order statistics, so infinite values are welcome.
    """
    made = {}
    for name, value in values.items():
        tail = (1.0 - level) / 2.0
        low = float(np.quantile(resampled[name], tail, method="lower"))
        high = float(np.quantile(resampled[name], 1.0 - tail, method="higher"))
        method = f"percentile bootstrap, {len(resampled[name])} resamples"
        made[name] = Estimate(value, min(low, value), max(high, value), level, method)
    return made


def norm_estimates(
    values: Mapping[str, float], distances: Mapping[str, NDArray[np.float64]], level: float
) -> dict[str, Estimate]:
    """Give every norm (from 0 to 1) of a mean vector an interval: plus or minus a distance.

    Resampled norms are no guide to a norm: noise makes them larger, so that percentiles miss a
    true norm of 0 for certain. But the norms of two vectors differ by no more than the norm of
    their difference. With ``distances`` the norms of resampled minus given vectors, the distance
    that the share ``level`` of resamples keeps bounds the difference from the truth, too.
    """
    made = {}
    for name, value in values.items():
        reach = float(np.quantile(distances[name], level, method="higher"))
        method = f"bootstrap of the distance, {len(distances[name])} resamples"
        low, high = max(value - reach, 0.0), max(min(value + reach, 1.0), value)
        made[name] = Estimate(value, low, high, level, method)
    return made
