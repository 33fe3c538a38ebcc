"""Which sections an audit fills, how much of it, and what they say of directions and votes."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from farfield.report.content.words import UNKNOWN, distance, is_telling, percent

if TYPE_CHECKING:
    from farfield.audit.fields import Detected, Family, Ray, Surface
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


def sections(audit: Audit, limits: Limits) -> list[Section]:
    """All sections in their order."""
    tabular = len(audit.model.inputs) <= 1
    plain = audit.task == "classification"
    several = audit.model.instances > 1
    made = [
        (
            "remedies",
            "What to do",
            audit.remedies or audit.guard,
            "No remedy is listed for this model.",
        ),
        ("verdict", "Verdict", True, ""),
        ("directions", "Directions", audit.families, "No direction was followed."),
        (
            "features",
            "Features",
            plain and audit.features,
            ""
            if not plain
            else "Image models have pictures instead of a table of pixels."
            if not tabular
            else "The audit holds no features.",
        ),
        ("what_if", "What if", audit.what_if, ""),
        ("flips", "Smallest changes", audit.flips, ""),
        (
            "entry_errors",
            "Errors of data entry",
            audit.entry_errors,
            "" if not (plain and tabular) else "No column can be entered wrongly.",
        ),
        (
            "rays",
            "Rays to infinity" if audit.verdict.seen_to is None else "Rays, as far as was looked",
            shown_rays(audit, limits),
            "No ray was recorded.",
        ),
        (
            "surfaces",
            "Two features at a time",
            shown_surfaces(audit, limits),
            "Surfaces need at least two numeric features.",
        ),
        ("pictures", "Pictures", audit.pictures, "" if tabular else "No example image was given."),
        (
            "votes",
            "Votes",
            several and plain,
            "Audit a folder or a list of models to see where the members of an ensemble disagree."
            if plain
            else "",
        ),
        ("spread", "Predicted spread", audit.collapses, ""),
        (
            "health",
            "Quality on the data",
            audit.health,
            "Name the column of outcomes with --label to see accuracy and calibration.",
        ),
        (
            "detection",
            "Telling other data apart",
            audit.detection or audit.out_sets,
            "Give data of another kind with --ood NAME=FILE to see whether it is noticed.",
        ),
        ("facts", "Facts to reproduce this", True, ""),
    ]
    return [Section(name, title, bool(what), missing) for name, title, what, missing in made]


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


@dataclass(frozen=True)
class Trial:
    """One score on one data set; ``best`` if no score has a higher AUROC there."""

    found: Detected
    best: bool


@dataclass(frozen=True)
class ScoreContest:
    """All scores on one data set, the best first."""

    dataset: str
    trials: list[Trial]
    remark: str


def contests(audit: Audit, limits: Limits) -> list[ScoreContest]:
    """Group detection by data set, and say who wins."""
    grouped: dict[str, list[Detected]] = {}
    telling = [each for each in audit.detection if is_telling(each.score, audit.model.instances)]
    for each in telling[: 4 * limits.rows]:
        grouped.setdefault(each.dataset, []).append(each)
    made = []
    for dataset, found in grouped.items():
        found.sort(key=lambda each: -_order(each.auroc.value))
        top = found[0].auroc.value
        trials = [Trial(each, each.auroc.value == top) for each in found]
        made.append(ScoreContest(dataset, trials, _remark(found)))
    return made


def _order(value: float) -> float:
    return -1.0 if math.isnan(value) else value


def _remark(found: list[Detected]) -> str:
    """Whether plain distances beat what the model says about itself."""
    own = [each.auroc for each in found if not each.reference]
    references = [each.auroc for each in found if each.reference]
    if not own or not references:
        return ""
    mine, theirs = max(each.value for each in own), max(each.value for each in references)
    if theirs > mine:
        return (
            "Here a plain distance to the training data does better than every score of the model."
        )
    return "Here the model's best score does at least as well as a plain distance to its data."
