"""Thresholds of all views together: as many new rows inside as was asked for.

Rows that views were not fitted on are ranked by each view. Taking the same rank as every view's
threshold gives one nested family of sets; the rank above the one at which ``ceil((n + 1) keep)`` of
the n rows are inside of all of them makes a new row from the same source stay inside with at least
that probability (Vovk et al. 2005). Where rows are too few for that, thresholds go beyond the
largest scores as exponential tails do. The share is raised while rows outside lose too much
likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Floats = NDArray[np.float64]
SHARES = (0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 1.0)
# Nats per row that rows near the data may lose on average.
BUDGET = 1e-3
# What a view must add to the synthetic rows that are noticed, to be kept.
LEAST_GAIN = 0.01
# d is 1 where a score exceeds its threshold by this share of what that is above the usual score.
STEEP = 0.5


@dataclass(frozen=True)
class Levels:
    """Calibrated thresholds.

    Attributes:
        thresholds: ``(views,)``.
        widths: ``(views,)``.
        share: Of new rows, that is guaranteed by ranks alone.
    """

    thresholds: Floats
    widths: Floats
    share: float

    def distances(self, scores: Floats) -> Floats:
        """``d``, ``(rows,)``."""
        found: Floats = ((scores - self.thresholds) / self.widths).max(axis=1)
        return found


def levels(scores: Floats, floors: Sequence[float], keep: float, stretch: float = 1.0) -> Levels:
    """Thresholds under which a new row is inside of all views with probability ``keep``.

    Args:
        scores: ``(rows, views)`` of rows that the views were not fitted on.
        floors: ``(views,)`` least widths.
        keep: The share of rows to be inside.
        stretch: By which factor thresholds go further from the usual score.

    >>> found = levels(np.arange(99.0)[:, None], [1.0], 0.9)
    >>> found.thresholds.round(6).tolist(), found.widths.round(6).tolist()
    ([90.0], [20.5])
    """
    count = len(scores)
    ranks = rankdata(scores, method="min", axis=0).max(axis=1)
    needed = min(count, math.ceil((count + 1) * keep))
    place = int(np.sort(ranks)[needed - 1])
    # Among n + 1 rows each rank is at most one more, so the next score up is what a new row needs.
    ordered = np.sort(scores, axis=0)
    thresholds = ordered[min(place, count - 1)]
    usual, views = np.median(scores, axis=0), scores.shape[1]
    share = keep
    if place >= count:
        # The largest of n exponential scores lies log(n) scales out, and log(views / (1 - keep))
        # are needed.
        needs = math.log(views / (1.0 - min(keep, 1.0 - 1e-4))) / math.log(count + 1)
        stretch *= max(1.0, needs)
        share = min(keep, max(0.0, 1.0 - views / (count + 1)))
    thresholds = usual + stretch * (thresholds - usual)
    # Room for the rounding of another batch size: the row that sets a threshold is inside.
    thresholds = thresholds + 1e-9 * (1.0 + np.abs(thresholds))
    widths = np.maximum(STEEP * (thresholds - usual), floors)
    return Levels(thresholds, widths, share)


def choose_views(
    scores: Floats,
    synthetic: Mapping[str, Floats],
    floors: Sequence[float],
    needed: Sequence[int],
    keep: float,
    unit: float,
) -> list[int]:
    """The views that notice synthetic rows which those before them do not.

    Args:
        scores: ``(rows, views)`` of rows that the views were not fitted on.
        synthetic: Kind to ``(rows, views)`` scores of synthetic rows.
        floors: ``(views,)`` least widths.
        needed: Views that are kept whatever they notice.
        keep: The share of rows to be inside.
        unit: h.
    """
    chosen = list(needed)

    def noticed(views: list[int]) -> float:
        own = levels(scores[:, views], [floors[view] for view in views], keep)
        shares = []
        for rows in synthetic.values():
            outside = np.maximum(own.distances(rows[:, views]), 0.0) / unit
            shares.append(1.0 - float((1.0 / (1.0 + outside**2)).mean()))
        return float(np.mean(shares))

    best = noticed(chosen)
    left = [view for view in range(scores.shape[1]) if view not in chosen]
    while left:
        found = {view: noticed(sorted([*chosen, view])) for view in left}
        view = max(left, key=lambda each: found[each])
        if found[view] < best + LEAST_GAIN:
            break
        chosen, best = sorted([*chosen, view]), found[view]
        left.remove(view)
    return chosen


def enough(
    scores: Floats,
    floors: Sequence[float],
    keep: float,
    unit: float,
    lost: Callable[[Floats], float],
    stretch: float = 1.0,
) -> Levels:
    """The smallest share from ``keep`` on at which rows lose little."""
    found = levels(scores, floors, keep, stretch)
    for share in (keep, *(each for each in SHARES if each > keep)):
        found = levels(scores, floors, share, stretch)
        outside = np.maximum(found.distances(scores), 0.0) / unit
        if lost(1.0 + np.square(outside)) <= BUDGET:
            break
    return found


def likelihood_lost(p: Floats, labels: NDArray[np.int64] | None) -> Callable[[Floats], float]:
    """How many nats rows lose on average when they are mixed at given temperatures.

    Args:
        p: ``(rows, classes)``.
        labels: ``(rows,)`` classes; without them the model's own probabilities count.
    """
    share = 1.0 / p.shape[1]
    p = np.where(np.isfinite(p).all(axis=1, keepdims=True), p, share)
    tiny = 1e-12

    def lost(temperatures: Floats) -> float:
        mixed = share + (p - share) / temperatures[:, None]
        change = np.log(np.maximum(p, tiny)) - np.log(np.maximum(mixed, tiny))
        if labels is None:
            return float((p * change).sum(axis=1).mean())
        return float(change[np.arange(len(p)), labels].mean())

    return lost
