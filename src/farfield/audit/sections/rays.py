"""Rays through to infinity: the curves of a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.audit.case import Case
from farfield.audit.families import affordable, in_common, settled
from farfield.audit.fields.drawings import Ray
from farfield.audit.subject import Floats, Subject
from farfield.errors import UnsupportedOperation
from farfield.exact import FarField, SureFrom, along
from farfield.exact.ray.stretches import kinks
from farfield.levels import SURE
from farfield.scores import PROBABILITY_SCORES, all_scores

# Rays are shown out to a million standard deviations; whatever comes after is the limit.
OUTMOST = 1e6
STEPS = 160
# How many features get rays, and how many random directions.
FEATURES, RANDOM = 4, 2
# A ray of a network with more units than this is not walked exactly for a report.
MOST_UNITS = 20_000
# Nor one of trees with more thresholds and leaves than this: half a second.
MOST_STEPS = 60_000
# How many products of weights and values the last 99.9% of one ray may cost: a second.
WALKING = 5e9


def compute(case: Case) -> dict[str, Any]:
    """Both open ends of the most telling features, and random directions."""
    case.stage("rays")
    subject = case.subject
    names, origins, directions = [], [], []
    for feature in case.telling[:FEATURES]:
        for sign, bound, word in ((1.0, feature.high, "up"), (-1.0, feature.low, "down")):
            if np.isinf(bound):
                direction = np.zeros_like(subject.centre)
                direction[feature.places[0]] = sign
                names.append(f"{feature.name} {word}, from the median row")
                origins.append(subject.centre)
                directions.append(direction)
    if subject.is_free.any():
        for index, direction in enumerate(subject.whitened_directions(RANDOM, case.rng)):
            names.append(f"Random direction {index + 1}, from a row of the data")
            origins.append(subject.rows[index % len(subject.rows)])
            directions.append(np.asarray(direction))
    return {"rays": rays(subject, names, origins, directions) if names else ()}


def rays(
    subject: Subject,
    names: Sequence[str],
    origins: Sequence[Floats],
    directions: Sequence[Floats],
    unit: str = "",
) -> tuple[Ray, ...]:
    """Follow rays at many distances and in the limit, with their first 99.9% if it is exact."""
    starts, ways = (np.asarray(np.stack(each), dtype=float) for each in (origins, directions))
    far = subject.far(starts, torch.from_numpy(ways))
    walking = WALKING * len(names)
    lasting, final = settled(far, walking), None
    if isinstance(far, FarField):
        final = in_common(far.final_from(budget=affordable(far, walking)), far.winner)
    firsts = _firsts(subject, starts, ways)
    inward = subject.in_deviations(torch.from_numpy(ways)).tolist()
    limits = {"confidence": far.confidence} | {name: far.score(name) for name in PROBABILITY_SCORES}
    made = []
    for index, (name, start, way) in enumerate(zip(names, starts, ways, strict=True)):
        one = inward[index] or 1.0
        t, p = _seen(subject, start, way, one)
        scores = {"confidence": p.mean(dim=0).amax(dim=-1)} | dict(all_scores(p))
        first, pieces = firsts[index]
        steps = 1.0 if unit else one
        each = Ray(
            name=name,
            unit=unit or "standard deviations",
            t=tuple(float(f"{step:.6g}") for step in (t if unit else t * one).tolist()),
            scores={n: tuple(round(v, 6) for v in values.tolist()) for n, values in scores.items()},
            limits={n: float(value[index]) for n, value in limits.items()},
            reach=float(far.reach[:, index].amax()) * steps,
            first=None if first is None else first * steps,
            pieces=pieces,
            settled=_known(lasting, index, steps),
            final=None if final is None else _known(final, index, steps),
            exact=bool(lasting.exact[index] & (lasting if final is None else final).exact[index]),
        )
        made.append(each)
    return tuple(made)


def _seen(subject: Subject, start: Floats, way: Floats, one: float) -> tuple[Floats, Tensor]:
    """Places on a ray at which the model has an answer, and probabilities there."""
    t = np.concatenate([[0.0], np.geomspace(1e-2, OUTMOST, STEPS - 1)]) / one
    p = subject.model.probabilities(start + t.reshape(-1, *[1] * start.ndim) * way)
    answered = ~p.isnan().any(dim=-1).any(dim=0)
    return t[answered.numpy()], p[:, answered]


def _known(found: SureFrom, index: int, steps: float) -> float | None:
    """A distance in steps, unless it is not known at all."""
    t = float(found.t[index])
    return None if np.isnan(t) else t * steps


def _firsts(
    subject: Subject, origins: Floats, directions: Floats
) -> list[tuple[float | None, int | None]]:
    """The exact first distances with 99.9% confidence, and how many pieces the rays have."""
    unknown: list[tuple[float | None, int | None]] = [(None, None)] * len(origins)
    if not subject.exact or units(subject) > MOST_UNITS:
        return unknown
    if not subject.piecewise and subject.weights > MOST_STEPS:
        return unknown
    try:
        lines = along(subject.network, origins, directions)
    except UnsupportedOperation:
        return unknown
    first, count = lines.first_reaching(SURE).tolist(), lines.counts.sum(dim=0).tolist()
    return list(zip(first, count, strict=True))


def units(subject: Subject) -> int:
    """How many numbers the network decides on, all instances together."""
    return sum(kinks(group.program) * len(group.members) for group in subject.network.groups)
