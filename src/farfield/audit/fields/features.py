"""One feature at a time: its two ends, or its values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from farfield.audit.fields.kinds import Kind, Share


@dataclass(frozen=True)
class End:
    """One end of one feature: what happens when only this feature goes up, or down.

    Attributes:
        bound: Where the feature stops, if it has a bound on this side; else ``None``, and the end
            is infinity.
        label: The class that most of the sampled rows end in.
        share: Share of the sampled rows that do.
        confidence: Smallest, median and largest confidence at the end.
        blind: Share of the sampled rows that end with the threshold's confidence or more; with an
            interval where the model could only be evaluated.
        votes: Name of a class to the mean share of instances that end in it.
        distance: Quantiles 0.05, 0.5 and 0.95 over the rows: how far until every instance is 99.9%
            sure for good, up to the end, in the feature's units.
        beyond: How far the feature's value is then beyond the training range, in standard
            deviations (negative: inside); the same quantiles.
        assumptions: Share of rows in whose last region Proposition 2's assumptions hold; ``None``
            where they were not checked, or where the feature is bounded.
        scores: Name of a score to its median at the end.
        value: The value of the feature from which on that is so; the same quantiles as ``beyond``,
            infinite where it never is.
        exact: Whether ``distance``, ``beyond`` and ``value`` are exact; if not, they are bounds:
            confidence is there for good at the latest there (or, of a model that can only be
            evaluated, what was seen).
        first: The value at which the model is first 99.9% sure, on the way out; the same quantiles
            over the same rows. Exact; NaN where it is not known.
    """

    bound: float | None
    label: str
    share: float
    confidence: tuple[float, float, float]
    blind: Share
    votes: Mapping[str, float]
    distance: tuple[float, float, float]
    beyond: tuple[float, float, float]
    assumptions: float | None
    scores: Mapping[str, float]
    value: tuple[float, float, float] = (math.nan, math.nan, math.nan)
    exact: bool = True
    first: tuple[float, float, float] = (math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Value:
    """One value of a categorical feature: every sampled row moved to it.

    Attributes:
        value: The category.
        rows: How many rows of the data have it.
        confidence: Mean confidence before, and after the move.
        changed: Share of the sampled rows whose predicted class changes.
    """

    value: str
    rows: int
    confidence: tuple[float, float]
    changed: float


@dataclass(frozen=True)
class Feature:
    """One feature: a numeric one with two ends, or a categorical one with its values.

    Attributes:
        name: Its name.
        kind: ``numeric``, ``bounded`` (on at least one side) or ``categorical``.
        unit: Its unit, or nothing.
        low: Smallest value in the data.
        high: Largest value.
        mean: Mean over all rows.
        std: Standard deviation over all rows.
        down: What happens as it goes down; ``None`` if categorical or constant and bounded.
        up: What happens as it goes up.
        curve: Confidence of the median row along the feature: from far down through the data to
            far up; at the ``t`` of ``Audit.curve_steps``, both ends being the limits. Empty if
            categorical, or if a thousand other features of the table make the model sure sooner.
        values: For a categorical feature, its values.
    """

    name: str
    kind: Kind
    unit: str
    low: float
    high: float
    mean: float
    std: float
    down: End | None
    up: End | None
    curve: tuple[float, ...]
    values: tuple[Value, ...] = ()

    @property
    def soonest(self) -> float:
        """How far out, in standard deviations, the nearer end makes the model sure for good."""
        ends = [end.beyond[1] for end in (self.down, self.up) if end is not None]
        return min((each for each in ends if not math.isnan(each)), default=math.inf)


@dataclass(frozen=True)
class Collapse:
    """A regressor at one end of one feature.

    Attributes:
        feature: Name of the feature.
        side: ``up`` or ``down``.
        collapses: Share of the sampled rows whose predicted scale shrinks to its smallest value.
        scale_slope: Median growth of the raw scale per unit.
        spread_slope: Median growth of the standard deviation between members per unit.
    """

    feature: str
    side: Literal["up", "down"]
    collapses: float
    scale_slope: float
    spread_slope: float
