"""How little of one column changes the class, or makes the model sure: column by column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from scipy.special import bdtr

from farfield.audit.case import Case
from farfield.audit.families import THREE, order_statistics
from farfield.audit.fields.features import End, Feature
from farfield.audit.fields.flips import Flip, Middle
from farfield.audit.fields.kinds import Share
from farfield.audit.smallest_flip import flips_of, is_walkable
from farfield.audit.subject import Floats, Subject
from farfield.data import TableColumn
from farfield.estimate import clopper_pearson, value_of
from farfield.evaluate import SmallestFlip
from farfield.graph.network import InstanceGroup
from farfield.graph.rules import RULES, RowFunction, Steps

# About how long a walk takes, in microseconds, as measured: a ray, a kink that it may meet (beside
# its share of a forward pass), a step or a leaf of trees.
RAY, KINK, FORWARD, BREAK = 100.0, 2.3, 2e-5, 0.22
# What all walks together may take by default, and how many rows that gives at least and at most.
MICROSECONDS, FEWEST, MOST = 7e5, 12, 100
# Wider tables are not walked column by column.
COLUMNS = 200
# Of models that cannot be walked: rows, columns that move the model most, categories.
ASKED_ROWS, ASKED_COLUMNS, CATEGORIES = 10, 20, 40
QUANTILES = (0.05, 0.25, 0.5, 0.75)
LEVEL = 0.95


def walked_rows(subject: Subject) -> int | None:
    """From how many rows a model is walked along every column; ``None`` if from none."""
    count = len(subject.numbers)
    if not 0 < count <= COLUMNS or not is_walkable(subject):
        return None
    cost = sum(len(group.members) * _ray(group, subject) for group in subject.network.groups)
    return int(np.clip(MICROSECONDS / (2 * count * cost), FEWEST, MOST))


def _ray(group: InstanceGroup, subject: Subject) -> float:
    """About how long one ray through one member takes."""
    steps = group.program.steps
    kinks = sum(
        math.prod(step.shape[1:])
        for step in steps
        if step.shape and RULES[step.target].kind == "piecewise affine"
    )
    breaks = sum(
        each.parameters if isinstance(each, RowFunction) else len(each.breaks)
        for step in steps
        for each in step.args
        if isinstance(each, RowFunction | Steps)
    )
    work = subject.weights / subject.model.instances
    return RAY + KINK * kinks + FORWARD * kinks * work + BREAK * breaks


def look(case: Case, rows: Floats) -> tuple[SmallestFlip, Floats] | None:
    """The smallest changes, and the rows they start from; ``None`` without columns to change.

    Args:
        case: The case.
        rows: To start from, if the model is walked.
    """
    subject = case.subject
    categories = [each for each in subject.moving if each.discrete][:CATEGORIES]
    numeric: Sequence[TableColumn] = subject.numbers
    if walked_rows(subject) is None:
        numeric, rows = case.telling[:ASKED_COLUMNS], subject.spread(ASKED_ROWS)
    columns = [*numeric, *categories]
    return (flips_of(case, rows, columns), rows) if columns else None


def told(case: Case, found: SmallestFlip) -> tuple[Flip, ...]:
    """Every column, those that need least in standard deviations first."""
    subject = case.subject
    columns = {column.name: column for column in subject.moving}
    exhausted = len(found) == case.source.n_rows
    every = [
        _flip(found, at, columns[name], subject, exhausted) for at, name in enumerate(found.columns)
    ]

    def needed(flip: Flip) -> tuple[float, ...]:
        size = flip.half.value / float(subject.scale[columns[flip.column].places[0]])
        far = math.inf if math.isnan(size) else size
        return -value_of(flip.within), far, -value_of(flip.ever)

    return tuple(sorted(every, key=needed))


def _flip(
    found: SmallestFlip, at: int, column: TableColumn, subject: Subject, exhausted: bool
) -> Flip:
    sizes, sure = np.abs(found.change[:, at]), np.abs(found.sure[:, at])
    flips = within = np.isfinite(sizes)
    half = certain = Middle(math.nan, math.nan, math.nan)
    quantiles: tuple[float, ...] = ()
    if not column.discrete:
        within = sizes <= subject.scale[column.places[0]]
        half, certain = _half(sizes, exhausted), _half(sure, exhausted)
        quantiles = tuple(order_statistics(torch.from_numpy(sizes)[None], QUANTILES)[0].tolist())

    def share(flags: np.ndarray) -> Share:
        count = int(flags.sum())
        return count / len(flags) if exhausted else clopper_pearson(count, len(flags))

    bounded = math.isfinite(column.low) or math.isfinite(column.high)
    return Flip(
        column=column.name,
        unit=column.unit,
        kind="categorical" if column.discrete else "bounded" if bounded else "numeric",
        rows=len(sizes),
        ever=share(flips),
        within=share(within),
        half=half,
        quantiles=quantiles,
        sure=certain,
        exact=bool(found.exact[:, at].all()),
    )


def _half(sizes: Floats, exhausted: bool) -> Middle:
    """The median; of a sample with the interval of order statistics, whatever the distribution."""
    ordered, count = np.sort(sizes), len(sizes)
    middle = float(ordered[(count - 1) // 2])
    if exhausted:
        return Middle(middle, middle, middle)
    below = bdtr(np.arange(count + 1), count, 0.5)
    low = int(np.searchsorted(below, (1 - LEVEL) / 2)) - 1
    high = int(np.searchsorted(below, (1 + LEVEL) / 2))
    return Middle(
        middle,
        float(ordered[low]) if low >= 0 else 0.0,
        float(ordered[high]) if high < count else math.inf,
    )


def with_firsts(
    features: tuple[Feature, ...], found: SmallestFlip, rows: Floats, subject: Subject
) -> tuple[Feature, ...]:
    """Say at every end of a feature where the model is first sure, if that is known exactly."""
    at = {name: place for place, name in enumerate(found.columns)}
    columns = {column.name: column for column in subject.moving}
    made = []
    for feature in features:
        place = at.get(feature.name)
        if place is None or feature.values or not found.exact[:, place].all():
            made.append(feature)
            continue
        values, ways = rows[:, columns[feature.name].places[0]], found.ways[:, place]
        up, down = (
            _first(end, sign, values, ways[:, way])
            for way, (end, sign) in enumerate(((feature.up, 1.0), (feature.down, -1.0)))
        )
        made.append(replace(feature, up=up, down=down))
    return tuple(made)


def _first(end: End | None, sign: float, values: Floats, t: Floats) -> End | None:
    if end is None:
        return None
    outward = torch.from_numpy(sign * values + t)[None]
    low, middle, high = (sign * each for each in order_statistics(outward, THREE)[0].tolist())
    return replace(end, first=(low, middle, high))
