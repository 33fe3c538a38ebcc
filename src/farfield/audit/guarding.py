"""Before and after the guard, as an audit shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from farfield.audit.black_box import BlackBox
from farfield.audit.findings import BeforeAfter, End, Feature, GuardedFeature
from farfield.audit.subject import Floats, Subject
from farfield.evaluate import Estimate
from farfield.guard.compare import Side, compare
from farfield.guard.falsify import falsify
from farfield.guard.function import GuardedFunction
from farfield.guard.model import GuardedModel
from farfield.guard.protect import guard

# Of the sampled rows, every fifth is kept out of the guard and only compared on.
KEPT_OUT = 5
# The promise: beyond three data radii no class above 1/K + 0.01.
RADII, EPSILON = 3.0, 0.01
# Rows that are moved to a feature's bound.
MOVED = 100


def guarded(
    subject: Subject, rows: Floats, labels: Any, *, radii: float, epsilon: float, seed: int
) -> GuardedModel | GuardedFunction:
    """Guard a subject's model on rows of its data; one-hot blocks are categories."""
    blocks = [list(feature.places) for feature in subject.moving if feature.categorical]
    model = subject.model
    safe = guard(
        (lambda X: model.probabilities(X)[0]) if isinstance(model, BlackBox) else model,
        rows,
        radii=radii,
        epsilon=epsilon,
        labels=labels,
        categorical=blocks or None,
        random_state=seed,
    )
    assert isinstance(safe, GuardedModel | GuardedFunction)
    return safe


def before_and_after(
    subject: Subject,
    ood: dict[str, Floats],
    *,
    threshold: float,
    seed: int,
    table: Sequence[Feature] = (),
    given: GuardedModel | GuardedFunction | None = None,
) -> BeforeAfter:
    """Compare with a given guard, or with one that is fitted on most of the sampled rows.

    Rows of the result: blind shares by family, accuracy, likelihood and calibration, AUROC and
    FPR95 of every out-of-distribution set by the model's own confidence, milliseconds per row and
    per batch. Features are those of the given table.
    """
    rows, labels = subject.rows, subject.labels
    apart = np.arange(len(rows)) % KEPT_OUT == 0
    if given is not None or apart.all():
        apart[:] = True
    safe = given
    if safe is None:
        inside = rows if apart.all() else rows[~apart]
        known = None if labels is None else labels if apart.all() else labels[~apart]
        safe = guarded(subject, inside, known, radii=RADII, epsilon=EPSILON, seed=seed)
    found = compare(
        None,
        safe,
        rows[apart],
        None if labels is None else labels[apart],
        ood=ood,
        threshold=threshold,
        random_state=seed,
    )
    certificate = safe.certificate
    attack = falsify(safe, random_state=seed)
    return BeforeAfter(
        promise=found.statement,
        rows=_rows(found.before, found.after),
        certificate={
            "radius in whitened units": certificate.radius,
            "radius in data radii": certificate.radii,
            "epsilon": certificate.epsilon,
            "classes": float(certificate.classes),
            "unseen rows unchanged": found.identical,
            "training rows unchanged": certificate.training.share,
            "rows with the same class": found.same_class,
            "largest probability allowed beyond the radius": certificate.largest_probability,
            "largest probability an attack found there": attack.largest,
            "views": ", ".join(view.name for view in certificate.views),
            "metric": certificate.metric,
        },
        features=_features(subject, safe, table),
    )


def _features(
    subject: Subject, safe: GuardedModel | GuardedFunction, table: Sequence[Feature]
) -> tuple[GuardedFeature, ...]:
    """Every numeric feature, down and up."""
    known = {feature.name: feature for feature in table}
    moving = [each for each in subject.moving if each.name in known and not each.categorical]
    if not moving:
        return ()
    places = np.array([each.places[0] for each in moving])
    certified = _certified(safe, places)
    found = []
    for each, (low, high) in zip(moving, certified.tolist(), strict=True):
        down, up = known[each.name].down, known[each.name].up
        place = each.places[0]
        found.append(
            GuardedFeature(
                each.name,
                each.unit,
                before=(_before(down), _before(up)),
                after=(_after(subject, safe, place, down), _after(subject, safe, place, up)),
                certified=(low if _is_open(down) else None, high if _is_open(up) else None),
            )
        )
    return tuple(found)


def _is_open(end: End | None) -> bool:
    return end is not None and end.bound is None


def _before(end: End | None) -> float | None:
    return None if end is None else end.confidence[1]


def _after(
    subject: Subject, safe: GuardedModel | GuardedFunction, place: int, end: End | None
) -> float | None:
    """The median confidence at an end, with the guard."""
    if end is None:
        return None
    if end.bound is None:
        return 1 / safe.certificate.classes
    moved = subject.spread(MOVED).copy()
    moved[:, place] = end.bound
    return float(np.median(safe.predict_proba(moved).max(axis=1)))


def _certified(safe: GuardedModel | GuardedFunction, places: Any) -> Floats:
    """From which values on, down and up, no class can exceed the promise, ``(features, 2)``.

    A column beyond its range by the threshold and the width of ranges makes ``d >= 1``, whatever
    all other columns hold.
    """
    ranges = safe.covered.ranges
    room = (float(ranges.threshold) + float(ranges.width)) * ranges.unit.numpy()[places]
    low, high = ranges.low.numpy()[places] - room, ranges.high.numpy()[places] + room
    values: Floats = np.stack([low, high], axis=1)
    return values


def _rows(before: Side, after: Side) -> dict[str, tuple[float, float]]:
    rows = {
        f"blind: {name}": (_value(share), _value(after.blindness[name]))
        for name, share in before.blindness.items()
    }
    for name in ("accuracy", "nll", "ece"):
        first, second = getattr(before, name), getattr(after, name)
        if first is not None and second is not None:
            rows[name] = (float(first), float(second))
    for name, (auroc, fpr95) in before.detection.items():
        rows[f"AUROC: {name}"] = (auroc, after.detection[name][0])
        rows[f"FPR95: {name}"] = (fpr95, after.detection[name][1])
    rows["milliseconds for one row"] = (1e3 * before.row_seconds, 1e3 * after.row_seconds)
    rows["milliseconds for a batch"] = (1e3 * before.batch_seconds, 1e3 * after.batch_seconds)
    return rows


def _value(share: float | Estimate) -> float:
    return share.value if isinstance(share, Estimate) else float(share)
