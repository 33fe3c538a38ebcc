"""Categorical columns: which combinations were seen, and how far others are from them.

Numeric columns are whitened. A one-hot block is measured so that another category is one unit away;
a column of codes by the difference of codes. Inputs are covered if their numeric part is in a ball
*and* their categories are a combination that was seen; otherwise both distances add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.errors import InputError
from farfield.guard.cover import Cover, fit_cover
from farfield.guard.whitening import MetricKind, Whitening, fit_whitening

Floats = NDArray[np.float64]
Categorical = Sequence[int | Sequence[int]]
# More combinations than this are not a list of what was seen but nearly every row of its own.
MOST_COMBINATIONS = 4096
PROTOTYPES = 64
# How far a combination may be off by rounding.
TOLERATED = 1e-3


@dataclass(frozen=True)
class Columns:
    """Which columns are numeric and which categorical.

    Attributes:
        numeric: Positions of numeric columns.
        categorical: Positions of categorical ones.
        scale: ``(categorical,)`` units for each step of theirs.
    """

    numeric: tuple[int, ...]
    categorical: tuple[int, ...]
    scale: tuple[float, ...]


def read_columns(categorical: Categorical | None, width: int) -> Columns:
    """Read positions of code columns, and lists of positions of one-hot blocks.

    >>> read_columns([0, (2, 3)], 5).numeric
    (1, 4)
    """
    places: list[int] = []
    scale: list[float] = []
    for item in categorical or ():
        block = [item] if isinstance(item, int | np.integer) else list(item)
        places += [int(place) for place in block]
        scale += [1.0 if len(block) == 1 else 1 / math.sqrt(2)] * len(block)
    if any(not 0 <= place < width for place in places) or len(set(places)) < len(places):
        raise InputError(
            f"categorical must name different columns from 0 to {width - 1}, got {categorical!r}"
        )
    numeric = tuple(place for place in range(width) if place not in set(places))
    return Columns(numeric, tuple(places), tuple(scale))


def fit_metric(rows: Floats, columns: Columns, kind: MetricKind | None) -> Whitening:
    """Whiten numeric columns and scale categorical ones, in one metric over all of them."""
    if not columns.categorical:
        return fit_whitening(rows, kind)
    width = rows.shape[1]
    numeric, other = list(columns.numeric), list(columns.categorical)
    mean = torch.from_numpy(rows.mean(axis=0))
    own = fit_whitening(rows[:, numeric], kind)
    scale = torch.tensor(columns.scale, dtype=torch.float64)
    if own.kind == "full":
        matrix = torch.zeros(width, width, dtype=torch.float64)
        matrix[np.ix_(numeric, numeric)] = own.matrix
        matrix[other, other] = scale
    else:
        matrix = torch.ones(width, dtype=torch.float64)
        matrix[numeric], matrix[other] = own.matrix, scale
    # Units differ between columns now, whatever the numeric ones have in common.
    kind_now: MetricKind = "full" if own.kind == "full" else "diagonal"
    return Whitening(kind_now, mean, matrix, own.shrinkage, own.constant)


def describe_metric(metric: Whitening, columns: Columns, seen: Cover | None) -> str:
    """Say the metric in words, categories included."""
    text = metric.describe()
    if seen is not None:
        listed = float(seen.radii.max()) <= TOLERATED
        what = "combination that was seen" if listed else "ball of combinations that were seen"
        text += (
            f"; {len(columns.categorical)} categorical column(s): another category of a one-hot "
            f"block counts 1, codes their difference, and the distance to the nearest {what} is "
            "added"
        )
    return text


def seen_combinations(units: Floats, columns: Columns, seed: int) -> Cover | None:
    """The combinations of categories among whitened rows, as balls of almost no radius.

    Where there are too many to list, prototypes whose balls hold all of them.
    """
    if not columns.categorical:
        return None
    own = units[:, list(columns.categorical)]
    found = np.unique(own, axis=0)
    if len(found) > MOST_COMBINATIONS:
        base, _, _ = fit_cover(own, PROTOTYPES, seed)
        return base.grown(max(0.0, float(base.distance(torch.from_numpy(found)).max())))
    radii = torch.full((len(found),), TOLERATED, dtype=torch.float64)
    return Cover(torch.from_numpy(found), radii)
