"""Which sections an audit fills, how much of it, and what they say of directions and votes.

A new section is one more line in ``_PARTS``, and a template of its name.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from farfield.report.content.words import UNKNOWN, distance, percent

if TYPE_CHECKING:
    from farfield.audit.fields.directions import Family
    from farfield.audit.fields.drawings import Ray, Surface
    from farfield.audit.record import Audit

# The largest page, in bytes.
LARGEST = 5_000_000


@dataclass(frozen=True)
class Limits:
    """The most of each thing that a page shows; the rest stays in the JSON file.

    Attributes:
        features: Rows of the table of features.
        values: Values of one categorical feature.
        rays: Rays to choose from.
        samples: Places along one ray, or one curve.
        surfaces: Pairs of features to choose from.
        edges: Edges of regions in one surface; the longest are kept.
        points: Data points on one surface.
        pictures: Example images.
        rows: Rows of any other table.
    """

    features: int = 1000
    values: int = 40
    rays: int = 48
    samples: int = 240
    surfaces: int = 16
    edges: int = 5000
    points: int = 800
    pictures: int = 24
    rows: int = 200

    def halved(self) -> Limits:
        """Half as much of everything, but always something."""
        return Limits(**{each.name: max(1, getattr(self, each.name) // 2) for each in fields(self)})


@dataclass(frozen=True)
class Section:
    """One section of the page; ``missing`` says what would fill it."""

    id: str
    title: str
    filled: bool
    missing: str


@dataclass(frozen=True)
class _Part:
    """A section that pages can have: whether an audit fills it, and what it says if not."""

    id: str
    title: Callable[[Audit], str]
    filled: Callable[[Audit, Limits], object]
    missing: Callable[[Audit], str]


def sections(audit: Audit, limits: Limits) -> list[Section]:
    """All sections in their order."""
    return [
        Section(part.id, part.title(audit), bool(part.filled(audit, limits)), part.missing(audit))
        for part in _PARTS
    ]


def _said(text: str) -> Callable[[Audit], str]:
    """The same of every audit."""
    return lambda _: text


def _classifies(audit: Audit) -> bool:
    return audit.task == "classification"


def _is_table(audit: Audit) -> bool:
    return len(audit.model.inputs) <= 1


def _rays_title(audit: Audit) -> str:
    return "Rays to infinity" if audit.verdict.seen_to is None else "Rays, as far as was looked"


def _no_features(audit: Audit) -> str:
    if not _classifies(audit):
        return ""
    if not _is_table(audit):
        return "Image models have pictures instead of a table of pixels."
    return "The audit holds no features."


def _no_errors(audit: Audit) -> str:
    told = _classifies(audit) and _is_table(audit)
    return "No column can be entered wrongly." if told else ""


def _no_votes(audit: Audit) -> str:
    if not _classifies(audit):
        return ""
    return "Audit a folder or a list of models to see where the members of an ensemble disagree."


def _part(
    name: str,
    title: str | Callable[[Audit], str],
    filled: Callable[[Audit, Limits], object],
    missing: str | Callable[[Audit], str] = "",
) -> _Part:
    titled = _said(title) if isinstance(title, str) else title
    return _Part(name, titled, filled, _said(missing) if isinstance(missing, str) else missing)


def _always(*_: object) -> bool:
    return True


def shown_rays(audit: Audit, limits: Limits) -> list[Ray]:
    """The rays that can be drawn: some score is known somewhere."""
    return [each for each in audit.rays if len(each.t) > 1 and known_scores(each)][: limits.rays]


def known_scores(ray: Ray) -> list[str]:
    """The scores of a ray that have a number at all."""
    return [name for name, values in ray.scores.items() if any(map(math.isfinite, values))]


def shown_surfaces(audit: Audit, limits: Limits) -> list[Surface]:
    """The surfaces that can be drawn: a window, and a grid that fits its shape."""
    return [
        each
        for each in audit.surfaces
        if 0 < each.extent[1] - each.extent[0] < math.inf
        and 0 < each.extent[3] - each.extent[2] < math.inf
        and layers(each)
    ][: limits.surfaces]


def layers(surface: Surface) -> Mapping[str, str]:
    """The grids whose bytes fit the shape and whose range is known."""
    rows, columns = surface.shape
    kept = {}
    for name, text in surface.grids.items():
        low, high = surface.ranges.get(name, (math.nan, math.nan))
        try:
            size = len(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            continue
        if size == rows * columns > 0 and math.isfinite(low) and math.isfinite(high):
            kept[name] = text
    return kept


def ends_told(family: Family) -> str:
    """How sure the model is at the end of most rays."""
    if len(family.confidence) != 5:
        return UNKNOWN
    low, _, median, _, high = map(percent, family.confidence)
    if low == high:
        return f"{median} on nine rays in ten"
    return f"{median} on the middle ray, {low} to {high} on nine rays in ten"


def settled_told(family: Family, audit: Audit) -> str:
    """From where on the model is 99.9% sure for good, in standard deviations."""
    if len(family.settled) != 3:
        return UNKNOWN
    seen = audit.verdict.seen_to is not None
    if family.settled[0] == math.inf:
        return f"{distance(math.inf, seen=seen)}, on 95% of rays or more"
    if all(map(math.isnan, family.settled)):
        return distance(math.nan)
    bound = is_bound(family.settled_exact, audit)
    first, median, last = (distance(each, bound=bound, seen=seen) for each in family.settled)
    return (
        f"{median} on the middle ray, {first} on the first 5%, {last} on 95% (standard deviations)"
    )


def settled_middle(family: Family, audit: Audit) -> str:
    """The same for the middle ray alone."""
    seen = audit.verdict.seen_to is not None
    return distance(family.settled[1], bound=is_bound(family.settled_exact, audit), seen=seen)


def is_bound(exact: bool, audit: Audit) -> bool:
    """Whether distances are upper bounds: neither exact nor merely seen."""
    return not exact and audit.verdict.seen_to is None


@dataclass(frozen=True)
class DividedVotes:
    """One end at which the members of an ensemble disagree."""

    feature: str
    side: str
    votes: Mapping[str, float]


def most_divided(audit: Audit, most: int = 12) -> list[DividedVotes]:
    """The ends of features at which the largest vote is smallest."""
    found = []
    for feature in audit.features:
        for side, end in (("down", feature.down), ("up", feature.up)):
            votes = [] if end is None else [each for each in end.votes.values() if each == each]
            if end is not None and votes and max(votes) < 1:
                found.append((max(votes), feature.name, side, end.votes))
    found.sort(key=lambda each: each[0])
    return [DividedVotes(name, side, votes) for _, name, side, votes in found[:most]]


_PARTS = (
    _part(
        "remedies",
        "What to do",
        lambda audit, _: audit.remedies or audit.guard,
        "No remedy is listed for this model.",
    ),
    _part("verdict", "Verdict", _always),
    _part(
        "directions", "Directions", lambda audit, _: audit.families, "No direction was followed."
    ),
    _part(
        "features",
        "Features",
        lambda audit, _: _classifies(audit) and audit.features,
        _no_features,
    ),
    _part("what_if", "What if", lambda audit, _: audit.what_if),
    _part("flips", "Smallest changes", lambda audit, _: audit.flips),
    _part("entry_errors", "Errors of data entry", lambda audit, _: audit.entry_errors, _no_errors),
    _part("rays", _rays_title, shown_rays, "No ray was recorded."),
    _part(
        "surfaces",
        "Two features at a time",
        shown_surfaces,
        "Surfaces need at least two numeric features.",
    ),
    _part(
        "pictures",
        "Pictures",
        lambda audit, _: audit.pictures,
        lambda audit: "" if _is_table(audit) else "No example image was given.",
    ),
    _part(
        "votes",
        "Votes",
        lambda audit, _: audit.model.instances > 1 and _classifies(audit),
        _no_votes,
    ),
    _part("spread", "Predicted spread", lambda audit, _: audit.collapses),
    _part(
        "health",
        "Quality on the data",
        lambda audit, _: audit.health,
        "Name the column of outcomes with --label to see accuracy and calibration.",
    ),
    _part(
        "detection",
        "Telling other data apart",
        lambda audit, _: audit.detection or audit.out_sets,
        "Give data of another kind with --ood NAME=FILE to see whether it is noticed.",
    ),
    _part("facts", "Facts to reproduce this", _always),
)
