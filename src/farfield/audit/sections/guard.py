"""Before and after the guard, as an audit shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from farfield.audit.case import Case
from farfield.audit.fields.directions import Family
from farfield.audit.fields.features import End, Feature
from farfield.audit.fields.repair import BeforeAfter, GuardedFeature
from farfield.audit.subject import Floats, Subject
from farfield.errors import FarfieldError
from farfield.estimate import value_of
from farfield.evaluate.calibration import calibration
from farfield.evaluate.detection import detection

if TYPE_CHECKING:
    from farfield.audit.given_guard import AnyGuard

Pair = tuple[float, float]
# Rows that are moved to a feature's bound.
MOVED = 100
# Rows of an out-of-distribution set that a guard is compared on.
MOST_OUT = 2000
# Rows of the batch that is timed, and how often; the fastest counts.
BATCH, REPEATS = 1000, 4
# The attack on the guard: of wide rows there are fewer starts, and fewer steps from each.
ATTACKED, RESTARTS, STEPS, FEWEST_STEPS, WIDE = 32_000, (2, 64), 60, 5, 500


def compute(case: Case) -> dict[str, Any]:
    """Compare with the guard that the model came with, or with one fitted on most of the rows.

    Rows of the result: blind shares by family, accuracy, likelihood and calibration, AUROC and
    FPR95 of every out-of-distribution set by the model's own confidence, milliseconds per row and
    per batch. The plain side is evaluated through the guard's own copy of the model, so that
    timings and numbers differ by the guard alone.
    """
    case.stage("guard")
    safe = case.shown_guard
    # Rows that the guard has not been fitted on, unless it was asked for: then it knows of some.
    apart = np.ones(len(case.subject.rows), bool) if case.asked_guard else case.protection[1]
    rows = {"": case.subject.rows[apart]} | {
        name: np.asarray(source.sample(MOST_OUT, random_state=case.settings.seed).X, float)
        for name, source in case.ood.items()
    }
    known = case.subject.labels
    labels = None if known is None else known[apart]
    plain = {name: safe.own_proba(values) for name, values in rows.items()}
    after = {name: safe.predict_proba(values) for name, values in rows.items()}
    same = np.concatenate([plain[name].argmax(1) == after[name].argmax(1) for name in rows])
    certificate = safe.certificate
    compared = BeforeAfter(
        promise=certificate.statement(),
        rows=_blindness(case, safe, case.found["families"])
        | _measured(plain, after, labels)
        | _milliseconds(safe, rows[""]),
        certificate={
            "radius in whitened units": certificate.radius,
            "radius in data radii": certificate.radii,
            "epsilon": certificate.epsilon,
            "classes": float(certificate.classes),
            **_unseen(case, safe, plain[""], after[""]),
            "training rows unchanged": certificate.training.share,
            "rows with the same class": float(same.mean()),
            "largest probability allowed beyond the radius": certificate.largest_probability,
            **_attacked(case, safe),
            "views": ", ".join(view.name for view in certificate.views),
            "metric": certificate.metric,
            "rows that it was made from": float(certificate.training.rows),
        },
        features=_features(case.subject, safe, case.found.get("features", ())),
    )
    return {"guard": compared}


def compute_if_possible(case: Case) -> dict[str, Any]:
    """The same; a guard that nobody asked for and that cannot be made is left out."""
    found: dict[str, Any] = {}
    with _left_out(case):
        found |= {} if case.unguarded else compute(case)
    return found


def make_if_possible(case: Case) -> None:
    """Make the guards that other parts ask; one that nobody asked for may fail."""
    with _left_out(case):
        _ = case.shown_guard


@contextmanager
def _left_out(case: Case) -> Iterator[None]:
    """Note why there is no guard, unless it was asked for."""
    try:
        yield
    except FarfieldError as error:
        if case.asked_guard:
            raise
        case.unguarded.append(" ".join(str(error).split()))


def _attacked(case: Case, safe: AnyGuard) -> dict[str, float]:
    """The most that an attack finds beyond the radius; made on guards that were asked for."""
    if not case.asked_guard:
        return {}
    from farfield.guard.falsify import falsify

    columns = case.subject.centre.size
    attack = falsify(
        safe,
        restarts=int(np.clip(ATTACKED // columns, *RESTARTS)),
        steps=int(np.clip(STEPS * WIDE // columns, FEWEST_STEPS, STEPS)),
        random_state=case.settings.seed,
    )
    return {"largest probability an attack found there": attack.largest}


def _unseen(case: Case, safe: AnyGuard, plain: Floats, after: Floats) -> dict[str, float]:
    """How many rows stay as they are that the guard has not seen."""
    held_out = safe.certificate.held_out
    if not case.asked_guard:
        return {"unseen rows unchanged": float((plain == after).all(axis=1).mean())}
    return {} if held_out is None else {"unseen rows unchanged": held_out.share}


def _blindness(case: Case, safe: AnyGuard, found: Sequence[Family]) -> dict[str, Pair]:
    """The blind shares of all families; with the guard every direction ends at ``1 / K``."""
    after = float(1 / safe.certificate.classes >= case.settings.threshold)
    return {f"blind: {each.name}": (value_of(each.share), after) for each in found}


def _features(
    subject: Subject, safe: AnyGuard, table: Sequence[Feature]
) -> tuple[GuardedFeature, ...]:
    """Every numeric feature, down and up."""
    known = {feature.name: feature for feature in table}
    moving = [each for each in subject.numbers if each.name in known]
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


def _after(subject: Subject, safe: AnyGuard, place: int, end: End | None) -> float | None:
    """The median confidence at an end, with the guard."""
    if end is None:
        return None
    if end.bound is None:
        return 1 / safe.certificate.classes
    moved = subject.spread(MOVED).copy()
    moved[:, place] = end.bound
    # The same median as without the guard: that of two middle rows is the lower one's.
    return float(torch.as_tensor(safe.predict_proba(moved).max(axis=1)).median())


def _certified(safe: AnyGuard, places: Any) -> Floats:
    """From which values on, down and up, no class can exceed the promise, ``(features, 2)``.

    A column beyond its range by the threshold and the width of ranges makes ``d >= 1``, whatever
    all other columns hold.
    """
    ranges = safe.covered.ranges
    room = (float(ranges.threshold) + float(ranges.width)) * ranges.unit.numpy()[:, places]
    low, high = ranges.low.numpy()[places] - room[0], ranges.high.numpy()[places] + room[1]
    values: Floats = np.stack([low, high], axis=1)
    return values


def _measured(
    plain: Mapping[str, Floats], after: Mapping[str, Floats], labels: Any
) -> dict[str, Pair]:
    """Calibration on the rows of the data, and detection of every other set, before and after."""
    rows: dict[str, Pair] = {}
    sides = (plain, after)
    if labels is not None:
        fits = [calibration(np.asarray(each[""], dtype=np.float64), labels) for each in sides]
        for name in ("accuracy", "nll", "ece"):
            rows[name] = (float(getattr(fits[0], name)), float(getattr(fits[1], name)))
    for name in plain:
        if name:
            here, there = (
                detection(*(1 - each[key].max(axis=1) for key in ("", name))) for each in sides
            )
            rows[f"AUROC: {name}"] = (here.auroc, there.auroc)
            rows[f"FPR95: {name}"] = (here.fpr95, there.fpr95)
    return rows


def _milliseconds(safe: AnyGuard, X: Floats) -> dict[str, Pair]:
    """Fastest times of one row and of a batch, both models in turn."""
    batch: Any = X[np.arange(BATCH) % len(X)]
    calls: tuple[Callable[[Any], object], ...] = (safe.own_proba, safe.predict_proba)
    from farfield.guard.model import GuardedModel

    if isinstance(safe, GuardedModel):
        batch = safe.rows(batch).to(safe.dtype)
        calls = (safe.unguarded, safe.forward)
    best = np.full((2, 2), np.inf)
    with torch.no_grad():
        for _ in range(REPEATS):
            for side, call in enumerate(calls):
                for place, values in enumerate((batch[:1], batch)):
                    start = time.perf_counter()
                    call(values)
                    best[place, side] = min(best[place, side], time.perf_counter() - start)
    (one, one_after), (many, many_after) = (1e3 * best).tolist()
    return {
        "milliseconds for one row": (one, one_after),
        "milliseconds for a batch": (many, many_after),
    }
