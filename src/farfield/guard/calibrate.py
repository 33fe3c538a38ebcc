"""Thresholds and widths of all views together: as many new rows inside as was asked for.

Rows that views were not fitted on are ranked by each view. Taking the same rank as every view's
threshold gives one nested family of sets; the rank above the one at which ``ceil((n + 1) keep)`` of
the n rows are inside of all of them makes a new row from the same source stay inside with at least
that probability (Vovk et al. 2005). Where rows are too few for that, thresholds go beyond the
largest scores as exponential tails do.

Among shares from ``keep`` on and among widths, those at which rows near the data would lose little
likelihood are looked at. Of the pairs that tell most synthetic rows from the data, the one that
costs least is taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

Floats = NDArray[np.float64]
SHARES = (0.995, 0.998, 0.999, 0.9995, 1.0)
# d is 1 where a score exceeds its threshold by so many times what that is above the usual score.
STEEPS = tuple(2.0 ** (step / 4) for step in range(-4, 17))
FIRST, ONCE = STEEPS[0], np.ones(1)
# Nats per row that new rows may lose on average, with this confidence.
BUDGET, LEVEL = 2e-3, 0.975
# What a row outside loses is told from at least so many rows, moved out by so many scales.
TOLD_FROM, FURTHER = 10, (1.0, 2.0, 4.0, 8.0)
# Shares and widths that notice as much as others up to this AUROC are alike.
ALIKE = 0.001
# What a view must add to the AUROC of synthetic rows, to be kept.
LEAST_GAIN = 0.005
# Rows that synthetic ones are told from: at most so many.
MOST_RANKED = 4000
# Numbers that are looked at together.
MOST_NUMBERS = 1_000_000


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
        # View by view: numpy is slow at the largest of a few numbers in each of many rows.
        found: Floats = np.full(len(scores), -np.inf)
        for each, threshold, width in zip(scores.T, self.thresholds, self.widths, strict=True):
            np.maximum(found, (each - threshold) / width, out=found)
        return found


@dataclass(frozen=True, eq=False)
class Ranked:
    """Scores of rows that the views were not fitted on, ranked once.

    Attributes:
        scores: ``(rows, views)``.
        ordered: The same, each view by itself.
        places: ``(rows,)`` the largest rank of each row, in order.
        usual: ``(views,)`` medians.
    """

    scores: Floats
    ordered: Floats
    places: Floats
    usual: Floats

    @classmethod
    def of(cls, scores: Floats) -> Ranked:
        """Rank scores."""
        ordered = np.sort(scores, axis=0)
        places = np.sort(_ranks(scores, ordered).max(axis=1))
        return cls(scores, ordered, places, np.median(scores, axis=0))

    @cached_property
    def further(self) -> dict[float, Floats]:
        """Scales to the scores, if all rows were so many scales further out than they are."""
        return {scales: self._moved(scales) for scales in FURTHER}

    def _moved(self, scales: float) -> Floats:
        """The largest of n exponential scores lies log(n) scales above the usual."""
        beyond = 1.0 + scales / math.log(len(self.scores) + 1)
        moved: Floats = self.usual + (self.scores - self.usual) * beyond
        return moved

    def outside(self, thresholds: Floats) -> Outside:
        """The rows beyond thresholds, moved out until there are enough of them."""
        for moved in self.further.values():
            places = np.flatnonzero((moved > thresholds).any(axis=1))
            if len(places) >= TOLD_FROM:
                break
        count, rows = int((self.scores > thresholds).any(axis=1).sum()), len(self.scores)
        share = 1.0 if count == rows else float(betaincinv(count + 1, rows - count, LEVEL))
        return Outside(places, moved[places], share)

    def at(self, keep: float) -> Floats:
        """``(views,)`` the scores at the rank that leaves a share inside; the largest, if any."""
        count = len(self.scores)
        place = int(self.places[min(count, math.ceil((count + 1) * keep)) - 1])
        found: Floats = self.ordered[min(place, count - 1)]
        return found

    def levels(
        self, floors: Sequence[float], keep: float, stretch: float = 1.0, steep: float = FIRST
    ) -> Levels:
        """Thresholds under which a new row is inside of all views with probability ``keep``.

        Args:
            floors: ``(views,)`` least widths.
            keep: The share of rows to be inside.
            stretch: By which factor thresholds go further from the usual score.
            steep: Widths, in what thresholds are above the usual score.

        >>> found = Ranked.of(np.arange(99.0)[:, None]).levels([1.0], 0.9)
        >>> found.thresholds.round(6).tolist(), found.widths.round(6).tolist()
        ([90.0], [20.5])
        """
        count, views = self.scores.shape
        place = int(self.places[min(count, math.ceil((count + 1) * keep)) - 1])
        # Among n + 1 rows each rank is at most one more, so the next score up is what a new row
        # needs.
        thresholds, share = self.ordered[min(place, count - 1)], keep
        if place >= count:
            # The largest of n exponential scores lies log(n) scales out, and
            # log(views / (1 - keep)) are needed.
            needs = math.log(views / (1.0 - min(keep, 1.0 - 1e-4))) / math.log(count + 1)
            stretch *= max(1.0, needs)
            share = min(keep, max(0.0, 1.0 - views / (count + 1)))
        thresholds = self.usual + stretch * (thresholds - self.usual)
        # Room for the rounding of another batch size: the row that sets a threshold is inside.
        thresholds = thresholds + 1e-9 * (1.0 + np.abs(thresholds))
        least = np.multiply(floors, steep / FIRST)
        return Levels(thresholds, np.maximum(steep * (thresholds - self.usual), least), share)


@dataclass(frozen=True, eq=False)
class Outside:
    """Rows that are outside, or would be if they were somewhat further out.

    Attributes:
        places: ``(outside,)`` which rows.
        scores: ``(outside, views)`` of theirs, moved out.
        share: Of new rows, at the upper end of its interval, that is outside as it is.
    """

    places: NDArray[np.intp]
    scores: Floats
    share: float


@dataclass(frozen=True, eq=False)
class Judge:
    """What thresholds cost rows near the data, and what they notice.

    Attributes:
        scores: ``(rows, views)`` of rows that the views were not fitted on.
        synthetic: Kind to ``(made, views)`` scores of synthetic rows.
        bases: ``(made,)`` the row that each of them was made from.
        p: ``(rows, classes)`` the model's own probabilities; ``None`` for a regressor.
        labels: ``(rows,)`` classes; without them the model's own probabilities count.
        unit: h.
        known: What was enough, by what it was asked for.
    """

    scores: Floats
    synthetic: Mapping[str, Floats]
    bases: NDArray[np.intp]
    p: Floats | None
    labels: NDArray[np.int64] | None
    unit: float
    known: dict[tuple[object, ...], tuple[Levels, float]] = field(default_factory=dict)

    def temperatures(self, own: Levels, scores: Floats) -> Floats:
        """``T``, ``(rows,)``."""
        hot: Floats = 1.0 + np.square(np.maximum(own.distances(scores), 0.0) / self.unit)
        return hot

    def lost(self, own: Levels, outside: Outside, wider: Floats = ONCE) -> Floats:
        """Nats that a new row may lose on average, ``(widths,)``.

        The share of rows outside, at the upper end of its interval, times what a row outside
        loses, told from rows that are moved out until there are enough. What rows gain that the
        model has wrong is not set off against it: with few rows, that is chance.

        Args:
            own: Thresholds.
            outside: What is outside of them.
            wider: Factors of all widths.
        """
        found = np.zeros(len(wider))
        if self.p is None or not len(outside.places):
            return found
        p = self.p[outside.places]
        labels = None if self.labels is None else self.labels[outside.places]
        above = self.temperatures(own, outside.scores) - 1.0
        step = max(1, MOST_NUMBERS // p.size)
        for start in range(0, len(wider), step):
            some = slice(start, start + step)
            hot = 1.0 + above / np.square(wider[some])[:, None]
            change = likelihood_lost(p, labels, hot)
            found[some] = outside.share * np.maximum(change, 0.0).mean(axis=1)
        return found

    def noticed(self, own: Levels, views: Sequence[int]) -> float:
        """AUROC of synthetic rows by their confidence, if the model's own stays as it was."""
        return float(self.look(own, views).noticed(ONCE)[0])

    def look(self, own: Levels, views: Sequence[int]) -> Apart:
        """How far rows and synthetic ones are out, by widths that are these but for a factor."""
        rows = self.scores[:MOST_RANKED, views]
        near = self._above[: len(rows)], self.temperatures(own, rows) - 1.0
        kinds = [self.temperatures(own, each[:, views]) - 1.0 for each in self.synthetic.values()]
        above = np.tile(self._above[self.bases], len(kinds))
        return Apart(near, (above, np.concatenate(kinds)))

    @cached_property
    def _above(self) -> Floats:
        """How far the model's own confidence is above the uniform answer, ``(rows,)``."""
        if self.p is None:
            return np.ones(len(self.scores))
        share = 1.0 / self.p.shape[1]
        found: Floats = np.nan_to_num(self.p.max(axis=1), nan=share) - share
        return found


@dataclass(frozen=True, eq=False)
class Apart:
    """Rows near the data and synthetic ones: confidences above the uniform one, and ``T - 1``.

    Attributes:
        near: Of rows near the data, ``(rows,)`` each.
        far: Of synthetic rows of every kind, of which there are as many each.
    """

    near: tuple[Floats, Floats]
    far: tuple[Floats, Floats]

    def noticed(self, wider: Floats) -> Floats:
        """AUROCs of synthetic rows by their confidence, if all widths were wider by factors."""
        found = np.empty(len(wider))
        step = max(1, MOST_NUMBERS // len(self.far[0]))
        for start in range(0, len(wider), step):
            some = slice(start, start + step)
            near, far = (
                np.sort(_uncertainty(*each, wider[some]), axis=1) for each in (self.near, self.far)
            )
            found[some] = [_auroc(*each) for each in zip(near, far, strict=True)]
        return found


def _uncertainty(above: Floats, hot: Floats, wider: Floats) -> Floats:
    """``(widths, rows)``."""
    found: Floats = -above / (1.0 + hot / np.square(wider)[:, None])
    return found


def enough(
    judge: Judge, views: Sequence[int], floors: Sequence[float], keep: float, stretch: float = 1.0
) -> tuple[Levels, float]:
    """The share and the width that cost least, of those that notice most and cost little."""
    asked = *views, *floors, keep, stretch
    if asked not in judge.known:
        judge.known[asked] = _enough(judge, views, [floors[view] for view in views], keep, stretch)
    return judge.known[asked]


def _enough(
    judge: Judge, views: Sequence[int], least: Sequence[float], keep: float, stretch: float
) -> tuple[Levels, float]:
    ranked = Ranked.of(judge.scores[:, views])
    found: list[tuple[float, float, float, float]] = []
    for share in (keep, *(each for each in SHARES if each > keep)):
        steepest = ranked.levels(least, share, stretch)
        lost = judge.lost(steepest, ranked.outside(steepest.thresholds), np.array(STEEPS) / FIRST)
        cheap = np.flatnonzero(lost <= BUDGET)
        if not len(cheap):
            continue
        steeps = np.array(STEEPS)[cheap]
        noticed = judge.look(steepest, views).noticed(steeps / FIRST)
        found += [(share, *each) for each in zip(steeps, noticed, lost[cheap], strict=True)]
    if not found:
        # The last is the widest set, and the one that costs least.
        own = ranked.levels(least, share, stretch, STEEPS[-1])
        return own, judge.noticed(own, views)
    most = max(noticed for _, _, noticed, _ in found)
    alike = [each for each in found if each[2] >= most - ALIKE]
    share, steep, *_ = min(alike, key=lambda each: each[3])
    return ranked.levels(least, share, stretch, steep), most


def choose_views(
    judge: Judge, floors: Sequence[float], needed: Sequence[int], keep: float
) -> list[int]:
    """The views that notice synthetic rows which those before them do not.

    Args:
        judge: Of thresholds.
        floors: ``(views,)`` least widths.
        needed: Views that are kept whatever they notice.
        keep: The share of rows to be inside.
    """
    chosen = list(needed)
    best = enough(judge, chosen, floors, keep)[1]
    left = [view for view in range(judge.scores.shape[1]) if view not in chosen]
    while left:
        found = {view: enough(judge, sorted([*chosen, view]), floors, keep)[1] for view in left}
        view = max(left, key=lambda each: found[each])
        if found[view] < best + LEAST_GAIN:
            break
        chosen, best = sorted([*chosen, view]), found[view]
        left.remove(view)
    return chosen


def likelihood_lost(p: Floats, labels: NDArray[np.int64] | None, hot: Floats) -> Floats:
    """How many nats each row loses when it is mixed at a temperature, ``(..., rows)``.

    Args:
        p: ``(rows, classes)``.
        labels: ``(rows,)`` classes; without them the model's own probabilities count.
        hot: ``(..., rows)`` temperatures.
    """
    share, tiny = 1.0 / p.shape[1], 1e-12
    p = np.where(np.isfinite(p).all(axis=1, keepdims=True), p, share)
    weights = p if labels is None else np.ones((len(p), 1))
    p = p if labels is None else p[np.arange(len(p)), labels][:, None]
    mixed = share + (p - share) / hot[..., None]
    change = np.log(np.maximum(p, tiny)) - np.log(np.maximum(mixed, tiny))
    lost: Floats = (weights * change).sum(axis=-1)
    return lost


def _ranks(scores: Floats, ordered: Floats) -> NDArray[np.intp]:
    """The rank of every row by each view, from 1 on; equals share the least."""
    pairs = zip(ordered.T, scores.T, strict=True)
    return 1 + np.stack([each.searchsorted(own) for each, own in pairs], axis=1)


def _auroc(near: Floats, far: Floats) -> float:
    """How often one of the second lies above one of the first, both in order; ties count half."""
    below = far.searchsorted(near).sum() + far.searchsorted(near, "right").sum()
    pairs = 2 * len(near) * len(far)
    return float(pairs - below) / len(far) / (2.0 * len(near))
