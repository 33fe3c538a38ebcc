"""The options of a guard, and the rows that it is made from: all, or a sample of very many."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.data.columns import Categorical, Columns, blocks_of
from farfield.errors import InputError
from farfield.guard.make import Ends, Parts
from farfield.guard.views.categories import are_bits
from farfield.guard.views.units import MetricKind
from farfield.levels import EPSILON, KEEP, RADII

MIN_ROWS = 10
# At most so many rows are made use of, of wide ones so many numbers, but so many rows at least.
MOST_ROWS, MOST_NUMBERS, LEAST_ROWS = 100_000, 50_000_000, 10_000
SAMPLED = "views, thresholds and counts are of {:,} rows, drawn at random from {:,}"
# Rows that are looked at together.
PART = 65_536


@dataclass(frozen=True)
class Options:
    """The options of :func:`guard`, checked."""

    radii: float = RADII
    epsilon: float = EPSILON
    keep: float = KEEP
    held_out: Any = 0.1
    labels: Any = None
    categorical: Categorical | None = None
    numeric: Sequence[int | str] = ()
    metric: MetricKind | None = None
    min_rows: int = MIN_ROWS
    random_state: int = 0

    def __post_init__(self) -> None:
        _check_positive("radii", self.radii)
        for name, value in (("epsilon", self.epsilon), ("keep", self.keep)):
            if not (isinstance(value, float | int) and 0 < value < 1):
                raise InputError(f"{name} must lie between 0 and 1, got {value!r}")
        if not (isinstance(self.min_rows, int) and self.min_rows > 0):
            raise InputError(f"min_rows must be a positive whole number, got {self.min_rows!r}")
        if not (isinstance(self.random_state, int) and self.random_state >= 0):
            raise InputError(f"random_state must be a whole number >= 0, got {self.random_state!r}")


@dataclass(frozen=True, eq=False)
class Drawn:
    """Rows that a guard is made from.

    Attributes:
        X: The rows, as many as are made use of.
        options: With their labels.
        ends: The smallest and the largest values of all rows.
        parts: Reads all rows, part by part.
        bits: Columns of numbers that are 0 and 1 in all rows, and never missing.
        notes: What the certificate says of it.
    """

    X: Any
    options: Options
    ends: Ends
    parts: Parts
    bits: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def draw(X: Any, columns: Columns, options: Options, classes: int) -> Drawn:
    """Look at all rows, part by part, and draw a sample of very many: so memory is bounded."""
    count = len(X)
    if count < max(options.min_rows, 3):
        raise InputError(
            f"X has {count} rows (n_samples={count}); a guard stores means of at least "
            f"min_rows={options.min_rows} rows, so that no row can be read from it. Pass more "
            "rows, or a smaller min_rows"
        )
    low, high = np.full(columns.width, np.inf), np.full(columns.width, -np.inf)
    parts, bits = partial(_parts, X, columns), _may_be_bits(columns, options, count)
    for rows in parts():
        low, high = np.fmin(low, np.fmin.reduce(rows)), np.fmax(high, np.fmax.reduce(rows))
        bits = bits[are_bits(rows[:, bits]).all(axis=0)]
    if not (np.isfinite(low) & np.isfinite(high)).all():
        raise InputError("X holds infinite numbers, or a column of nothing but NaN; drop them")
    if float(np.maximum(-low, high).max()) > 1e100:
        raise InputError("X holds numbers beyond 1e100, of which no distances can be computed")
    most = min(MOST_ROWS, max(LEAST_ROWS, MOST_NUMBERS // columns.width))
    own = tuple(int(place) for place in bits if low[place] < high[place])
    if count <= most:
        return Drawn(X, options, (low, high), parts, own)
    codes = codes_of(options.labels, count, classes)
    rng = np.random.default_rng([options.random_state, 4])
    places = np.sort(rng.choice(count, most, replace=False))
    labels = None if codes is None else codes[places]
    said = (SAMPLED.format(most, count),)
    return Drawn(some(X, places), replace(options, labels=labels), (low, high), parts, own, said)


def _may_be_bits(columns: Columns, options: Options, count: int) -> NDArray[np.intp]:
    """Columns of a table that are categories if they hold nothing but 0 and 1.

    Of fewer rows than ``1 / (1 - keep)`` nobody can tell that ``keep`` of the new ones will be so.
    """
    told = {place for each in blocks_of(options.numeric, columns) for place in each}
    few = count * (1.0 - options.keep) < 1.0 - 1e-9
    if few or len(columns.shape) > 1 or options.metric == "isotropic":
        return np.zeros(0, dtype=np.intp)
    return np.array([place for place in columns.numeric if place not in told], dtype=np.intp)


def _parts(X: Any, columns: Columns) -> Iterator[NDArray[Any]]:
    """All rows, part by part."""
    for start in range(0, len(X), PART):
        yield columns.look(some(X, slice(start, start + PART)), "X")


def some(X: Any, places: NDArray[np.intp] | slice) -> Any:
    """Some rows of an array, a tensor or a DataFrame."""
    if hasattr(X, "iloc"):
        return X.iloc[places]
    return np.asarray(X.detach().cpu() if isinstance(X, torch.Tensor) else X)[places]


def codes_of(labels: Any, rows: int, classes: int) -> NDArray[np.int64] | None:
    """Labels as whole numbers from 0 on, one for each row."""
    if labels is None:
        return None
    codes = np.asarray(labels)
    if codes.shape != (rows,) or codes.dtype.kind not in "iu":
        raise InputError(
            f"labels must be whole numbers of shape ({rows},), got {codes.dtype} {codes.shape}"
        )
    if len(codes) and not (codes.min() >= 0 and codes.max() < classes):
        raise InputError(
            f"labels must lie between 0 and {classes - 1}, got {codes.min()} to {codes.max()}"
        )
    return codes.astype(np.int64)


def _check_positive(name: str, value: Any) -> None:
    if not (isinstance(value, float | int) and 0 < value < math.inf):
        raise InputError(f"{name} must be a positive number, got {value!r}")
