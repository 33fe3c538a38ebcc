"""Rays through to infinity: the curves of a report."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from farfield.audit.case import Case
from farfield.audit.families import affordable, in_common, settled
from farfield.audit.fields import Ray
from farfield.audit.subject import Floats, Subject
from farfield.errors import UnsupportedOperation
from farfield.exact import FarField, SureFrom, along
from farfield.exact.ray.stretches import kinks
from farfield.levels import SURE
from farfield.scores import all_scores

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
    advance = case.stage("rays")
    subject = case.subject
    rays = []
    chosen = case.telling[:FEATURES]
    for index, feature in enumerate(chosen):
        for sign, bound, word in ((1.0, feature.high, "up"), (-1.0, feature.low, "down")):
            if np.isinf(bound):
                direction = np.zeros_like(subject.centre)
                direction[feature.places[0]] = sign
                name = f"{feature.name} {word}, from the median row"
                rays.append(ray(subject, name, subject.centre, direction))
        advance((index + 1) / len(chosen))
    if subject.is_free.any():
        for index, direction in enumerate(subject.whitened_directions(RANDOM, case.rng)):
            name = f"Random direction {index + 1}, from a row of the data"
            rays.append(ray(subject, name, subject.rows[index % len(subject.rows)], direction))
    return {"rays": tuple(rays)}


def ray(subject: Subject, name: str, origin: Any, direction: Any, unit: str = "") -> Ray:
    """Follow one ray at many distances and in the limit, with its first 99.9% if it is exact."""
    start, way = np.asarray(origin, dtype=float), np.asarray(direction, dtype=float)
    one = float(subject.in_deviations(torch.from_numpy(way[None]))[0]) or 1.0
    t = np.concatenate([[0.0], np.geomspace(1e-2, OUTMOST, STEPS - 1)]) / one
    rows = start + t.reshape(-1, *[1] * start.ndim) * way
    p = subject.model.probabilities(rows)
    answered = ~p.isnan().any(dim=-1).any(dim=0)
    p, t = p[:, answered], t[answered.numpy()]
    far = subject.far(start[None], torch.from_numpy(way[None]))
    scores = {"confidence": p.mean(dim=0).amax(dim=-1)} | dict(all_scores(p))
    limits = {"confidence": far.confidence} | {n: far.score(n) for n in all_scores(p[:, :1])}
    first, pieces = _first(subject, start, way)
    steps = 1.0 if unit else one
    lasting = settled(far, WALKING)
    final = None
    if isinstance(far, FarField):
        final = in_common(far.final_from(budget=affordable(far, WALKING)), far.winner)
    return Ray(
        name=name,
        unit=unit or "standard deviations",
        t=tuple(float(f"{step:.6g}") for step in (t if unit else t * one)),
        scores={n: tuple(round(float(v), 6) for v in values) for n, values in scores.items()},
        limits={n: float(value[0]) for n, value in limits.items()},
        reach=float(far.reach.amax()) * steps,
        first=None if first is None else first * steps,
        pieces=pieces,
        settled=_known(lasting, steps),
        final=None if final is None else _known(final, steps),
        exact=bool(lasting.exact[0] & (lasting if final is None else final).exact[0]),
    )


def _known(found: SureFrom, steps: float) -> float | None:
    """A distance in steps, unless it is not known at all."""
    t = float(found.t[0])
    return None if np.isnan(t) else t * steps


def _first(subject: Subject, origin: Floats, direction: Floats) -> tuple[float | None, int | None]:
    """The exact first distance with 99.9% confidence, and how many pieces the ray has."""
    if not subject.exact or units(subject) > MOST_UNITS:
        return None, None
    if not subject.piecewise and subject.weights > MOST_STEPS:
        return None, None
    try:
        lines = along(subject.network, origin[None], direction[None])
    except UnsupportedOperation:
        return None, None
    return float(lines.first_reaching(SURE)[0]), int(lines.counts.sum())


def units(subject: Subject) -> int:
    """How many numbers the network decides on, all instances together."""
    return sum(kinks(group.program) * len(group.members) for group in subject.network.groups)
