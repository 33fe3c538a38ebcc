"""Prove a certificate again, from a guarded model's weights alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from farfield.errors import InputError
from farfield.guard.bounds import growth_bounds, roundoff
from farfield.guard.calibrate import Bounded
from farfield.guard.certificate import Certificate
from farfield.guard.columns import Columns
from farfield.guard.cover import Cover
from farfield.guard.model import GuardedModel
from farfield.guard.promise import Line, distance_slack, tolerance, with_rounding
from farfield.guard.whitening import Whitening


@dataclass(frozen=True)
class Verification:
    """What a proof from the weights found.

    Attributes:
        holds: Whether the promise follows.
        apart: How far apart logits can be at the stated distance, at most; to be at most
            ``tolerance``.
        tolerance: How far they may be.
        line: The bound that was found, rounding included.
        problems: Why the promise does not follow.
    """

    holds: bool
    apart: float
    tolerance: float
    line: Line
    problems: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.holds


def verify(certificate: Certificate, model: Any) -> Verification:
    """Recompute every constant of a certificate from a guarded model, and check the inequality.

    Nothing is taken from the certificate but its claims, except a growth bound that the user gave.
    """
    if not isinstance(model, GuardedModel):
        raise InputError(
            f"a certificate is verified against a guarded model, got {type(model).__name__}"
        )
    metric, cover = model.metric, model.cover
    seen = None if model.seen is None else model.seen.cover
    reach = math.hypot(cover.reach, 0.0 if seen is None else seen.reach) * (1 + 1e-12)
    unit, slack = model.unit, 1.0
    distance = certificate.distance
    if distance > 0:
        slack = distance_slack(len(metric.mean), metric.condition(), reach, distance)
    line = _best_line(certificate, model, metric, cover, seen, reach)
    apart = line.guarded(distance * (1 - slack), unit) if slack < 1 else math.inf
    allowed = tolerance(model.held.classes, certificate.epsilon)
    problems = _problems(certificate, reach, unit, slack, apart, allowed)
    return Verification(not problems, apart, allowed, line, tuple(problems))


def _best_line(
    certificate: Certificate,
    model: GuardedModel,
    metric: Whitening,
    cover: Cover,
    seen: Cover | None,
    reach: float,
) -> Line:
    """The growth bound that gives least at the stated distance."""
    columns = Columns(tuple(model.numeric), tuple(model.categorical), ())
    if certificate.growth.method == "given":
        bounds: tuple[Bounded, ...] = (Bounded(certificate.growth, None),)
        held = model.held
    else:
        held = replace(model.held, modules=list(model.members), network=model.network)
        bounds = growth_bounds(held, metric, cover, seen, columns, None)
    own = roundoff(held)
    lines = [with_rounding(b.line(cover, reach), b.growth, reach, own) for b in bounds]
    if certificate.growth.method == "given" and certificate.anchored:
        lines = [Line(certificate.offset, certificate.slope)]
    return min(lines, key=lambda line: line.at(certificate.distance))


def _problems(
    certificate: Certificate,
    reach: float,
    unit: float,
    slack: float,
    apart: float,
    allowed: float,
) -> list[str]:
    found = []
    room = 1 + 1e-9
    if not 0 < certificate.distance < math.inf or slack >= 0.5:
        found.append(f"distance {certificate.distance:g} is not resolved by float64")
    if not 0 < unit <= certificate.distance * (1 - slack):
        found.append(f"unit {unit:g} must be positive and below the distance")
    if certificate.radius * room < reach + certificate.distance:
        found.append(
            f"radius {certificate.radius:.6g} is less than the covered set's {reach:.6g} plus the "
            f"distance {certificate.distance:.6g}"
        )
    if not apart <= allowed:
        found.append(
            f"logits can be {apart:.4g} apart at the stated distance, more than {allowed:.4g}"
        )
    return found
