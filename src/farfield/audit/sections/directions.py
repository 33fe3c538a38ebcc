"""In how many directions a model is blind, family by family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from farfield.audit import families
from farfield.audit.case import Case
from farfield.audit.families import FamilyRays
from farfield.audit.fields.directions import Family

# Images are wide: fewer rays per family.
IMAGE_RAYS = 200


def compute(case: Case) -> dict[str, Any]:
    """The families of directions."""
    advance = case.stage("directions")
    subject, threshold = case.subject, case.settings.threshold
    drawn = np.random.default_rng([case.settings.seed, 1])
    whole = (
        families.whole_circle(subject, threshold),
        families.orthants(subject, threshold, case.settings.directions, drawn),
    )
    done = [each for each in whole if each is not None]
    rays = [each for each in (*_own(case), *_towards(case)) if each is not None]
    for index, each in enumerate(rays):
        done.append(families.follow(subject, each, threshold))
        advance((index + 1) / len(rays))
    case.warnings.extend(_silent(done, exact=subject.exact))
    return {"families": tuple(done)}


def _silent(found: Sequence[Family], *, exact: bool) -> list[str]:
    """Say that a model stops answering far out, or has no one answer there."""
    worst = max(found, key=lambda each: each.unanswered, default=None)
    if worst is None or not worst.unanswered:
        return []
    if exact:
        return [
            f"On up to {worst.unanswered:.1%} of the directions "
            f"({worst.title[0].lower()}{worst.title[1:]}) several answers of the model are "
            "possible far out: a jump is approached from an unknown side, or neighbours tie for "
            "the last place, among which the library takes any. Neighbours that tie are counted "
            "in equal parts, and of two sides of a jump one."
        ]
    return [
        f"Far out the model gives no number (NaN) on up to {worst.unanswered:.1%} of the "
        f"directions ({worst.title[0].lower()}{worst.title[1:]}); what is told of those is its "
        "last answer before."
    ]


def _own(case: Case) -> list[FamilyRays | None]:
    """The directions that every model of a kind has."""
    subject, count = case.subject, case.settings.directions
    if subject.is_image:
        return [*families.image_rays(subject, min(count, IMAGE_RAYS), case.rng)]
    title = "From the mean of the data through its own rows"
    return [
        families.axes(subject),
        case.random_rays,
        families.towards(subject, "data", title, subject.rows, count),
    ]


def _towards(case: Case) -> list[FamilyRays | None]:
    """The directions of every out-of-distribution set."""
    subject, settings = case.subject, case.settings
    limit = min(settings.directions, IMAGE_RAYS) if subject.is_image else settings.directions
    found = []
    for name, source in case.ood.items():
        sample = np.asarray(source.sample(limit, random_state=settings.seed).X, float)
        title = f"From the mean of the data towards {name}"
        found.append(families.towards(subject, f"towards {name}", title, sample, limit))
    return found
