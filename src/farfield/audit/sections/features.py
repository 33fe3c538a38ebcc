"""One feature at a time, up and down: what the model says at the end, and from where on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from farfield.audit.black_box import OUTMOST
from farfield.audit.case import Case
from farfield.audit.families import WALKING
from farfield.audit.fields.features import Feature, Value
from farfield.audit.fields.kinds import Kind
from farfield.audit.sections.feature_ends import Ends, both_ends
from farfield.audit.sections.flips import look, told, walked_rows, with_firsts
from farfield.audit.subject import Floats, Subject
from farfield.data import TableColumn

# Signed distances of a feature's curve in standard deviations; the ends are the limits.
MAGNITUDES = tuple(float(f"{10 ** (k / 2):.4g}") for k in range(-2, 9))
CURVE_STEPS = (
    -np.inf,
    *(-step for step in reversed(MAGNITUDES)),
    0.0,
    *MAGNITUDES,
    np.inf,
)
# The work of the per-feature table: multiplications, rays and rows per feature at most.
WORK = 2e10
MOST_RAYS = 20_000
# Rays of a model that can only be evaluated cost many evaluations each.
MOST_LOOKED_AT = 2_000
MOST_ROWS = 100
# Features that get a curve: as many as a report shows.
MOST_CURVES = 1000
# How many numbers the rays of one block of features may hold.
BLOCK = 1 << 22


def compute(case: Case) -> dict[str, Any]:
    """The table of features, the distances of their curves, and how little changes the class."""
    subject, threshold = case.subject, case.settings.threshold
    rows = sampled_rows(subject)
    features = table(subject, threshold, case.stage("features"), rows)
    found: dict[str, Any] = {"features": features}
    found["curve_steps"] = curve_steps(subject) if features else ()
    case.stage("smallest changes")
    looked = look(case, rows)
    if looked is not None:
        found["features"] = with_firsts(features, *looked, subject)
        found["flips"] = told(case, looked[0])
    return found


def sampled_rows(subject: Subject) -> Floats:
    """Rows that features are moved from; a ray costs as many products as the model has weights."""
    count = max(1, len(subject.moving))
    rays = min(MOST_RAYS, WORK / max(1, subject.weights)) if subject.exact else MOST_LOOKED_AT
    rows = int(np.clip(rays / (2 * count), 3, MOST_ROWS))
    return subject.spread(min(rows, walked_rows(subject) or rows))


def curve_steps(subject: Subject) -> tuple[float, ...]:
    """The distances of a feature's curve; where nothing is known of infinity, the last look."""
    if subject.exact:
        return CURVE_STEPS
    return (-OUTMOST, *CURVE_STEPS[1:-1], OUTMOST)


def table(
    subject: Subject, threshold: float, advance: Callable[[float], None], rows: Floats
) -> tuple[Feature, ...]:
    """Describe every feature, moved from rows."""
    count = max(1, len(subject.moving))
    numeric = subject.numbers
    size = max(1, BLOCK // (subject.centre.size * 2 * (len(rows) + 1)))
    found: dict[str, Feature] = {}
    for first in range(0, len(numeric), size):
        block = numeric[first : first + size]
        walking = WALKING * len(block) / len(numeric)
        ends = both_ends(subject, block, rows, threshold, walking)
        found |= {feature.name: _numeric(subject, feature, ends) for feature in block}
        advance((first + len(block)) / count)
    found |= _with_curves(subject, numeric, found)
    for feature in subject.moving:
        if feature.discrete:
            found[feature.name] = _categorical(subject, feature, rows)
        elif feature.name not in found:
            found[feature.name] = _constant(subject, feature)
    advance(1.0)
    return tuple(found[feature.name] for feature in subject.moving)


def _numeric(subject: Subject, feature: TableColumn, ends: Ends) -> Feature:
    """One feature with its ends, which are all that is known of its curve so far."""
    place = feature.places[0]
    (down, at_bottom), (up, at_top) = ends[place, -1.0], ends[place, 1.0]
    unbounded = np.isinf(feature.low) and np.isinf(feature.high)
    kind: Kind = "numeric" if unbounded else "bounded"
    return Feature(
        name=feature.name,
        kind=kind,
        unit=feature.unit,
        low=float(subject.low[place]),
        high=float(subject.high[place]),
        mean=float(subject.mean[place]),
        std=float(subject.std[place]),
        down=down,
        up=up,
        curve=(round(at_bottom, 4), round(at_top, 4)),
    )


def _with_curves(
    subject: Subject, numeric: list[TableColumn], found: dict[str, Feature]
) -> dict[str, Feature]:
    """Draw the curves of those features that make the model sure soonest, between their ends."""
    order = sorted(numeric, key=lambda feature: found[feature.name].soonest)
    drawn = {feature.name: found[feature.name] for feature in order}
    done = {name: replace(feature, curve=()) for name, feature in drawn.items()}
    size = max(1, BLOCK // (subject.centre.size * len(CURVE_STEPS)))
    for first in range(0, min(len(order), MOST_CURVES), size):
        block = order[first : min(first + size, MOST_CURVES)]
        for feature, curve in zip(block, _curves(subject, block).tolist(), strict=True):
            bottom, top = drawn[feature.name].curve
            inner = (round(value, 4) for value in curve[1:-1])
            done[feature.name] = replace(drawn[feature.name], curve=(bottom, *inner, top))
    return done


def _curves(subject: Subject, block: list[TableColumn]) -> Tensor:
    """The confidence of the median row along several features, ``(features, steps)``."""
    steps = np.nan_to_num(np.array(CURVE_STEPS), posinf=0.0, neginf=0.0)
    rows = np.tile(subject.centre, (len(block), len(steps), 1))
    for index, feature in enumerate(block):
        place = feature.places[0]
        values = subject.centre[place] + steps * subject.scale[place]
        rows[index, :, place] = np.clip(values, feature.low, feature.high)
    p = subject.model.probabilities(rows.reshape(-1, subject.centre.size)).mean(dim=0)
    return p.amax(dim=-1).reshape(len(block), len(steps))


def _constant(subject: Subject, feature: TableColumn) -> Feature:
    """A column that holds one value only is not moved."""
    place = feature.places[0]
    value = float(subject.low[place])
    return Feature(
        name=feature.name,
        kind="numeric",
        unit=feature.unit,
        low=value,
        high=value,
        mean=value,
        std=0.0,
        down=None,
        up=None,
        curve=(),
    )


def _counts(subject: Subject, feature: TableColumn) -> tuple[int, ...]:
    """Rows with each value of a category; those that had none count as what they were filled to."""
    if not feature.binary:
        return feature.counts
    total = float(subject.mean[feature.places[0]]) * subject.count
    gaps, fill = feature.missing, feature.fill
    between = gaps if isinstance(fill, float) and 0 < fill < 1 else 0
    ones = round(total - between * float(fill or 0.0))
    return subject.count - between - ones, ones


def _categorical(subject: Subject, feature: TableColumn, rows: Floats) -> Feature:
    """Move every sampled row to each category in turn."""
    before = subject.model.probabilities(rows).mean(dim=0)
    values = []
    for index, (value, count) in enumerate(
        zip(feature.options, _counts(subject, feature), strict=True)
    ):
        after = subject.model.probabilities(feature.put(rows, index)).mean(dim=0)
        values.append(
            Value(
                value=value,
                rows=count,
                confidence=(float(before.amax(-1).mean()), float(after.amax(-1).mean())),
                changed=float((after.argmax(-1) != before.argmax(-1)).double().mean()),
            )
        )
    return Feature(
        name=feature.name,
        kind="categorical",
        unit=feature.unit,
        low=0.0,
        high=1.0,
        mean=float("nan"),
        std=float("nan"),
        down=None,
        up=None,
        curve=(),
        values=tuple(values),
    )
