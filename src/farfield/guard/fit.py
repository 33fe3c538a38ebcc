"""Fit every view that could be of use, to rows of training data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.data.columns import Columns
from farfield.guard.clusters import Grouping
from farfield.guard.covered import Covered
from farfield.guard.members import Onlooker
from farfield.guard.views.balls import Balls
from farfield.guard.views.categories import Categories
from farfield.guard.views.density import Density
from farfield.guard.views.features import Described, Features
from farfield.guard.views.neighbours import Neighbours
from farfield.guard.views.ranges import Ranges
from farfield.guard.views.units import MetricKind, fit_units, reduce
from farfield.guard.views.view import View

Floats = NDArray[np.float64]
# Views are fitted to a sample of at most so many rows, fewer of wide ones.
FITTED_ROWS, FITTED_NUMBERS, LEAST_FITTED = 20_000, 10_000_000, 1000
# With at least so many rows, some are set apart for thresholds; with fewer, every fold in turn.
SPLIT_ROWS, SET_APART, FOLDS = 4000, 0.25, 10
BATCH = 4096


@contextmanager
def alone() -> Iterator[None]:
    """Have numpy multiply on one thread.

    What it multiplies here is small, and its threads wait for one another by spinning: beside other
    load that takes fifty times as long.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield


@dataclass(frozen=True)
class Maker:
    """What is needed to fit views to any part of the rows.

    Attributes:
        columns: What the columns are.
        metric: Of the balls; ``None`` lets the rows decide.
        min_rows: The least rows that anything stored is a mean of.
        seed: Of k-means and mixtures.
        watch: What the network makes of rows, if it can be looked at.
    """

    columns: Columns
    metric: MetricKind | None
    min_rows: int
    seed: int
    watch: Onlooker | None = None

    def fit(self, rows: Floats, known: Described | None = None) -> Covered:
        """Fit all views; none of them is calibrated.

        Args:
            rows: ``(rows, columns)``.
            known: What the network makes of them.
        """
        fill = np.full(rows.shape[1], np.nan)
        gaps = np.isnan(rows).any(axis=0)
        fill[gaps] = np.nanmedian(rows[:, gaps], axis=0)
        rows = np.where(np.isnan(rows), fill, rows)
        image = len(self.columns.shape) > 1
        metric: MetricKind | None = "isotropic" if image and not self.metric else self.metric
        numeric, other = list(self.columns.numeric), list(self.columns.categorical)
        own = rows[:, numeric]
        units = fit_units(own, metric)
        narrow = reduce(units, own, self.seed)
        ranges = Ranges.fit(rows, common=metric == "isotropic")
        views: list[View] = [ranges]
        if numeric:
            standard = torch.from_numpy(own)
            whitened = units(standard).numpy()
            reduced = whitened if narrow is None else narrow(standard).numpy()
            wide = Grouping(whitened, self.min_rows, self.seed)
            near = wide if narrow is None else Grouping(reduced, self.min_rows, self.seed)
            views = [
                Balls.fit(wide),
                ranges,
                Neighbours.fit(near),
                Density.fit(reduced, self.min_rows, self.seed),
            ]
        if other:
            views.append(Categories.fit(rows, self.columns.blocks))
        if known is not None:
            views.append(Features.fit(known, self.min_rows, self.seed))
        covered = Covered(units, narrow, views, other, torch.from_numpy(fill))
        if self.watch is not None:
            covered.watch(self.watch)
        return covered


def divide(rows: Floats, seed: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Pairs of rows to fit on and rows to score: one pair if rows are many, else folds."""
    order = np.random.default_rng([seed, 2]).permutation(len(rows))
    if len(rows) >= SPLIT_ROWS:
        apart = int(SET_APART * len(rows))
        yield order[apart:][: most_rows(rows)], order[:apart]
        return
    if len(rows) == 1:
        yield order, order
        return
    for fold in range(min(FOLDS, len(rows))):
        out = np.arange(len(rows)) % FOLDS == fold
        yield order[~out], order[out]


def most_rows(rows: Floats) -> int:
    """How many rows views are fitted to."""
    wide = FITTED_NUMBERS // max(1, int(rows.shape[1]))
    return min(FITTED_ROWS, max(LEAST_FITTED, wide))


def scores(covered: Covered, rows: Floats, features: Floats | None = None) -> Floats:
    """The score of every view, ``(rows, views)``; infinite where rows hold no numbers.

    Args:
        covered: Its views.
        rows: ``(rows, columns)``.
        features: What the network makes of them, if that is known already.
    """
    return over(partial(_scores, covered), rows, features)


def _scores(covered: Covered, rows: Tensor, features: Tensor | None) -> Tensor:
    place, finite = covered.place(rows, features)
    each = torch.stack([view.score(place) for view in covered.each_view], dim=1)
    return torch.where(finite[:, None], each, torch.full_like(each, torch.inf))


def over(
    function: Callable[[Tensor, Tensor | None], Tensor], rows: Floats, features: Floats | None
) -> Floats:
    """Something of rows and their features, in batches."""
    found = []
    with torch.no_grad():
        for start in range(0, len(rows), BATCH):
            part = slice(start, start + BATCH)
            own = None if features is None else torch.from_numpy(features[part])
            found.append(function(torch.from_numpy(rows[part]), own))
    return np.asarray(torch.cat(found).numpy())
