"""Make a guard: fit views, choose among them, set thresholds, count."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from farfield.data.columns import Columns
from farfield.errors import InputError
from farfield.estimate import clopper_pearson
from farfield.guard.calibrate import STEEPS, Judge, Levels, Ranked, choose_views, enough
from farfield.guard.certificate import Certificate, Coverage, ViewLevel
from farfield.guard.covered import Covered, least_temperature
from farfield.guard.fit import BATCH, Maker, alone, divide, most_rows, over, scores
from farfield.guard.synthetic import Synthetic, synthetic_neighbours
from farfield.guard.verify import NEW_OUTSIDE, said_of_new
from farfield.guard.views.balls import Balls
from farfield.guard.views.categories import Categories, are_bits
from farfield.guard.views.features import Described
from farfield.guard.views.ranges import Ranges

Floats = NDArray[np.float64]
# The smallest and the largest value of each column.
Ends = tuple[Floats, Floats]
# Reads rows, part by part.
Parts = Callable[[], Iterator[NDArray[Any]]]
# A distance this small, in units of the covered set, is not resolved by float64 arithmetic.
LEAST_DISTANCE = 1e-3
# Data without any spread is taken to be as wide as one of its units.
LEAST_RADIUS = 1.0
# By which factors thresholds are moved away from the usual scores if held-out rows miss the share.
STRETCHES = (1.0, 1.25, 1.5, 2.0)
STRETCHED = "held-out rows missed the share at first, and thresholds were moved out by {:g}"
# Rows that only calibrate: at most so many.
MOST_SCORED = 50_000
# Synthetic rows of each kind: about so many.
MOST_SYNTHETIC = 1000


@dataclass(frozen=True)
class Goal:
    """What is to be promised: of a regressor, a spread; of a classifier, all the rest."""

    radii: float
    epsilon: float
    keep: float
    classes: int
    spread: float = 0.0

    def unit(self) -> float:
        """h, which makes d = 1 hot enough; spreads grow with d itself."""
        if self.spread:
            return 1.0
        return 1.0 / math.sqrt(least_temperature(self.classes, self.epsilon) - 1.0) * (1 - 1e-9)


@dataclass(frozen=True)
class Draft:
    """A calibrated covered set, and what can be said of it."""

    covered: Covered
    certificate: Certificate


def make(
    maker: Maker,
    rows: Floats,
    unseen: Floats | None,
    goal: Goal,
    ask: Callable[[NDArray[np.intp]], Floats],
    labels: NDArray[np.int64] | None,
    ends: Ends,
    parts: Parts,
    bits: Sequence[int] = (),
) -> Draft:
    """Fit views, choose among them, set thresholds, and count.

    Args:
        maker: Fits views.
        rows: Training rows.
        unseen: Rows that are only counted.
        goal: What is to be promised.
        ask: The model's own probabilities at positions of ``rows``.
        labels: Classes of ``rows``, if known.
        ends: The smallest and the largest values of all rows that the user calls training rows.
        parts: Reads all of those.
        bits: Columns of numbers that are 0 and 1 in all of those.
    """
    unit, known_rows = goal.unit(), _known(maker, rows)
    found, places, synthetic, covered = _cross_fit(maker, rows, known_rows)
    seen = None if known_rows is None else known_rows.features
    aside = None if unseen is None else _features(maker, unseen)
    views = covered.each_view
    floors = [view.floor for view in views]
    needed = [i for i, v in enumerate(views) if isinstance(v, Balls | Ranges | Categories)]
    p, known = (None, None) if goal.spread else (ask(places), labels)
    judge = Judge(
        found,
        synthetic.rows,
        synthetic.bases,
        p,
        None if known is None else known[places],
        unit,
    )
    chosen = choose_views(judge, floors, needed, goal.keep)
    covered.views = nn.ModuleList([views[view] for view in chosen])
    covered.unit.fill_(unit)
    usual = dict(zip(chosen, Ranked.of(found[:, chosen]).at(goal.keep), strict=True))
    barred = [v for i in chosen if isinstance(v := views[i], Categories) and usual[i] < v.count]
    for stretch in STRETCHES:
        own, _ = enough(judge, chosen, floors, goal.keep, stretch)
        data_radius = _set_levels(covered, own, rows, seen, goal.radii, barred)
        held_out = None if unseen is None else _interval(_inside(covered, unseen, aside))
        if held_out is None or (held_out.high or 1.0) >= goal.keep:
            break
    else:
        raise InputError(_missed(covered, held_out, goal.keep, unseen, aside, maker.columns))
    # Rows that were only counted, or only ranked, have training values too. Whoever was inside of
    # a smaller range still is, and of fewer categories.
    covered.ranges.widen(*ends)
    _widen_categories(covered, parts, maker.columns)
    _bar_other_bits(
        covered, [each for each in bits if unseen is None or are_bits(unseen[:, each]).all()]
    )
    certificate = _certificate(covered, own, goal, maker, data_radius, held_out, unseen, aside)
    training = Coverage(inside=int(_inside(covered, rows, seen).sum()), rows=len(rows))
    notes = said_of_new(covered)
    if stretch > 1.0:
        notes = (STRETCHED.format(stretch), *notes)
    return Draft(covered, certificate.model_copy(update={"training": training, "notes": notes}))


def _widen_categories(covered: Covered, parts: Parts, columns: Columns) -> None:
    """Let the view of categories know every value, and every pair, of all rows."""
    for place, view in enumerate(covered.each_view):
        if isinstance(view, Categories):
            fill = covered.fill.numpy()
            filled = (
                np.where(np.isnan(rows[start : start + BATCH]), fill, rows[start : start + BATCH])
                for rows in parts()
                for start in range(0, len(rows), BATCH)
            )
            covered.views[place] = view.widened(filled, columns.blocks)


def _bar_other_bits(covered: Covered, bits: Sequence[int]) -> None:
    """Put rows outside whose columns of 0 and 1 hold anything else.

    No row that anything was counted by has such a value, so no count is another.
    """
    if not bits:
        return
    views = covered.each_view
    for place, view in enumerate(views):
        if isinstance(view, Categories):
            covered.views[place] = view.with_bits(bits)
            return
    views.insert(len(covered.of_inputs), Categories.of_bits(bits))
    covered.views = nn.ModuleList(views)


def _known(maker: Maker, rows: Floats) -> Described | None:
    """What the network makes of rows; ``None`` where that cannot be measured."""
    found = None if maker.watch is None else maker.watch.know(rows)
    return found if found is not None and np.isfinite(found.features).all() else None


def _features(maker: Maker, rows: Floats) -> Floats | None:
    return None if maker.watch is None else maker.watch.know(rows).features


@alone()
def _cross_fit(
    maker: Maker, rows: Floats, known: Described | None
) -> tuple[Floats, NDArray[np.intp], Synthetic, Covered]:
    """Scores of rows by views that have not seen them, their positions, and final views."""
    parts: list[Floats] = []
    places: list[NDArray[np.intp]] = []
    made: list[Synthetic] = []
    pairs = list(divide(rows, maker.seed))
    for fitted, scored in pairs:
        covered = maker.fit(rows[fitted], None if known is None else known.at(fitted))
        apart, before = scored[:MOST_SCORED], sum(len(each) for each in places)
        features = None if known is None else known.features[apart]
        parts.append(scores(covered, rows[apart], features))
        places.append(apart)
        few = apart[: math.ceil(MOST_SYNTHETIC / len(pairs))]
        synthetic = synthetic_neighbours(rows, few, maker.columns, maker.seed + len(made))
        made.append(synthetic.map(partial(scores, covered)).at(np.arange(len(few)) + before))
    if len(pairs) > 1:
        most = np.arange(min(len(rows), most_rows(rows)))
        covered = maker.fit(rows[most], None if known is None else known.at(most))
    return np.concatenate(parts), np.concatenate(places), Synthetic.all(made), covered


def _set_levels(
    covered: Covered,
    own: Levels,
    rows: Floats,
    features: Floats | None,
    radii: float,
    barred: Sequence[Categories],
) -> float:
    """Give views their thresholds, and the balls a width that keeps the promise's radius.

    Categories that were never seen are outside by themselves, unless more of the rows that
    thresholds are set by have one (or as many new pairs) than may be outside at all.
    """
    for view, threshold, width in zip(covered.each_view, own.thresholds, own.widths, strict=True):
        view.set(float(threshold), float(width))
    for categories in barred:
        categories.bar_new()
    inside = _inside(covered, rows, features)
    lengths = over(lambda part, _: covered.length(part), rows, None)[inside]
    reach = covered.balls.reach if len(covered.numeric) else 0.0
    largest = max(float(lengths.max()) if len(lengths) else 0.0, reach / 2, LEAST_RADIUS)
    if not len(covered.numeric):
        return max(largest, covered.radius / radii)
    rest = _rest(covered, radii * largest / 2)
    allowed = math.sqrt(max(0.0, (radii * largest) ** 2 - rest**2)) * (1 - 1e-6) - reach
    if not allowed > LEAST_DISTANCE * max(reach, 1e-12):
        least = 1.05 * math.hypot(reach, rest) / max(largest, 1e-300)
        raise InputError(
            f"radii={radii:g} cannot be kept: the covered set itself reaches {least / 1.05:.3g} "
            "data radii from the mean, and inside it nothing is changed; ask for radii >= "
            f"{least:.3g}"
        )
    balls = covered.balls
    balls.width.fill_(min(float(balls.width), allowed))
    return largest


def _rest(covered: Covered, most: float) -> float:
    """The radius of columns that are not numeric; ranges are narrowed if it leaves no room."""
    if not len(covered.other):
        return 0.0
    ranges, narrowest = covered.ranges, float(covered.ranges.width) * STEEPS[0] / STEEPS[-1]
    while (rest := ranges.radius(covered.other, covered.centre)) > most:
        if float(ranges.width) <= narrowest:
            break
        ranges.width.mul_(0.5)
    return rest


def _certificate(
    covered: Covered,
    own: Levels,
    goal: Goal,
    maker: Maker,
    data_radius: float,
    held_out: Coverage | None,
    unseen: Floats | None,
    aside: Floats | None,
) -> Certificate:
    each = None if unseen is None else over(covered.each, unseen, aside) > 0
    radius = covered.radius
    return Certificate(
        classes=goal.classes,
        task="regression" if goal.spread else "classification",
        epsilon=0.0 if goal.spread else float(goal.epsilon),
        spread=goal.spread,
        radius=radius,
        radii=radius / data_radius,
        data_radius=data_radius,
        temperature=1.0 + 1.0 / float(covered.unit) ** 2,
        unit=float(covered.unit),
        keep=goal.keep,
        # Thresholds beyond ``keep`` do not let in what is barred.
        share=min(own.share, goal.keep) if NEW_OUTSIDE in said_of_new(covered) else own.share,
        views=tuple(
            ViewLevel(
                name=view.name,
                sees=view.sees,
                threshold=float(view.threshold),
                width=float(view.width),
                unseen_outside=None if each is None else int(each[:, place].sum()),
            )
            for place, view in enumerate(covered.each_view)
        ),
        held_out=held_out,
        training=Coverage(inside=0, rows=1),
        metric=covered.whitened.describe(),
        min_rows=maker.min_rows,
        digest=covered.digest(),
        dtype="any",
        members=1,
    )


def _inside(covered: Covered, rows: Floats, features: Floats | None) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = over(covered.distance, rows, features) <= 0.0
    return inside


def _interval(inside: NDArray[np.bool_]) -> Coverage:
    found = clopper_pearson(int(inside.sum()), len(inside))
    return Coverage(
        inside=int(inside.sum()),
        rows=len(inside),
        low=found.low,
        high=found.high,
        level=found.level,
    )


def _missed(
    covered: Covered,
    held_out: Coverage | None,
    keep: float,
    unseen: Floats | None,
    aside: Floats | None,
    columns: Columns,
) -> str:
    """Why a guard is not made."""
    if unseen is None or held_out is None:
        raise AssertionError("without held-out rows nothing is missed")
    each = over(covered.each, unseen, aside)
    worst = covered.names[int((each > 0).sum(axis=0).argmax())]
    outside = unseen[each.max(axis=1) > 0]
    said = covered.explain(torch.from_numpy(outside[0]), columns.say)[3]
    return (
        f"held-out rows inside: {held_out}, and {100 * keep:g}% were asked for; they are not like "
        f"the training rows. The view of {worst} puts most of them outside, for instance: {said}. "
        "Guard with rows from the same source (shuffle them if they are sorted), with more rows, "
        f"or with keep={max(0.5, math.floor(100 * (held_out.high or 0.5)) / 100):g}"
    )
