"""Prove a certificate again, from the numbers of a guard alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from farfield.errors import InputError
from farfield.guard.certificate import Certificate
from farfield.guard.covered import Covered, least_temperature
from farfield.guard.views.categories import Categories

NEW_OUTSIDE = "a category that no training row had puts a row outside by itself, with d >= 1"
NEW_INSIDE = (
    "a category that no training row had does not put a row outside by itself: too many of the "
    "rows that thresholds were set by had one, or as many new pairs"
)


@dataclass(frozen=True)
class Verification:
    """What a proof from the numbers found.

    Attributes:
        holds: Whether the promise follows.
        radius: From where on ``d >= 1`` follows.
        temperature: The least T there.
        problems: Why the promise does not follow.
    """

    holds: bool
    radius: float
    temperature: float
    problems: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.holds


def verify(certificate: Certificate, model: Any) -> Verification:
    """Recompute every constant of a certificate from a guard, and check every inequality.

    Nothing is taken from the certificate but its claims. The model inside plays no part.
    """
    covered = getattr(model, "covered", model)
    if not isinstance(covered, Covered):
        raise InputError(
            f"a certificate is verified against a guarded model, got {type(model).__name__}"
        )
    problems = broken(covered)
    if problems:
        return Verification(False, math.inf, 1.0, tuple(problems))
    radius, unit = covered.radius, float(covered.unit)
    temperature = 1 + 1 / unit**2
    problems = _claims(certificate, covered, radius, temperature)
    classes = getattr(getattr(model, "held", None), "classes", certificate.classes)
    if classes != certificate.classes:
        problems.append(f"the model has {classes} classes, not {certificate.classes}")
    return Verification(not problems, radius, temperature, tuple(problems))


def said_of_new(covered: Covered) -> tuple[str, ...]:
    """What follows from the numbers for categories that were never seen."""
    views = [view for view in covered.each_view if isinstance(view, Categories)]
    return tuple(NEW_OUTSIDE if view.new_outside else NEW_INSIDE for view in views)


def broken(covered: Covered) -> list[str]:
    """What makes a covered set unfit for any proof."""
    found = []
    for name, value in covered.named_buffers():
        if value.is_floating_point() and name != "fill" and not bool(torch.isfinite(value).all()):
            found.append(f"{name} holds numbers that are not finite")
    positive = {"unit": covered.unit, "whitened.unit": covered.whitened.unit}
    positive |= {f"the width of {view.name}": view.width for view in covered.each_view}
    positive["the unit of ranges"] = covered.ranges.unit
    found += [f"{name} is not positive" for name, value in positive.items() if (value <= 0).any()]
    if not 1e-100 < float(covered.unit) < 1e100:
        found.append(f"h = {float(covered.unit):g} is out of range")
    matrix = covered.whitened.matrix
    if not found and matrix is not None and not covered.whitened.condition() < 1e12:
        found.append("the whitening matrix has a kernel: some direction has no distance")
    return found


def _claims(
    certificate: Certificate, covered: Covered, radius: float, temperature: float
) -> list[str]:
    found = []
    if certificate.task == "classification":
        needed = least_temperature(certificate.classes, certificate.epsilon) * (1 - 1e-6)
        if not temperature * (1 - 1e-12) >= needed:
            found.append(
                f"the temperature at d = 1 is {temperature:.6g}, and {needed:.6g} is needed"
            )
    if not certificate.radius >= radius * (1 - 1e-9):
        found.append(
            f"the radius is said to be {certificate.radius:.6g}, but follows from {radius:.6g} on"
        )
    own = certificate.radius
    if len(covered.numeric) and not covered.balls.proves(
        covered.whitened, covered.balls.radius(covered.whitened)
    ):
        found.append(f"the balls do not prove any radius up to {own:.6g} in float64")
    if not math.isclose(certificate.radii * certificate.data_radius, own, rel_tol=1e-6):
        found.append("radii times the data radius is not the radius")
    if not certificate.temperature <= temperature * (1 + 1e-9):
        found.append(f"the temperature is said to be {certificate.temperature:.6g}")
    if not math.isclose(certificate.unit, float(covered.unit), rel_tol=1e-9):
        found.append(f"h is said to be {certificate.unit:.6g}, it is {float(covered.unit):.6g}")
    stated = [(view.name, view.threshold, view.width) for view in certificate.views]
    real = [(v.name, float(v.threshold), float(v.width)) for v in covered.each_view]
    if certificate.digest != covered.digest():
        found.append("the numbers of the guard are not those that were certified")
    if NEW_OUTSIDE in certificate.notes and NEW_OUTSIDE not in said_of_new(covered):
        found.append("categories that no training row had do not put a row outside by themselves")
    if stated != real:
        found.append("the views are not those of the certificate, or calibrated otherwise")
    return found
