"""Families of directions, as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from farfield.audit.fields.kinds import Share


@dataclass(frozen=True)
class Family:
    """A family of directions, and how many of them the model is blind in.

    Attributes:
        name: Short name, the key of ``Audit.blindness``.
        title: What the directions are.
        share: The blind share: exact, or with its interval where directions were sampled.
        rays: How many rays were followed to infinity.
        confidence: Quantiles 0.05, 0.25, 0.5, 0.75 and 0.95 of the confidence at infinity.
        classes: Name of a class to the share of rays that end in it.
        reach: Median distance at which the last unit settles, in standard deviations. Beyond it
            logits are straight lines, which may still cross.
        settled: Quantiles 0.05, 0.5 and 0.95 of the distance from which on every instance stays at
            99.9% or more; infinity where it never does. In standard deviations of the data.
        scores: Name of a score to its quantiles 0.05, 0.5 and 0.95 at infinity.
        disagreeing: Share of rays on which the instances end in different classes.
        settled_exact: Whether ``settled`` is exact; if not, it is at most that, or, of a model that
            can only be evaluated, what was seen.
        unanswered: Share of rays on which a model that can only be evaluated gave no number at the
            outermost look; what is told of them is its last answer before. Of other models those
            on which several limits are possible: see :attr:`farfield.FarField.undecided`.
        constant: Whether nothing changes any more beyond the last switch, as of trees.
    """

    name: str
    title: str
    share: Share
    rays: int
    confidence: tuple[float, ...]
    classes: Mapping[str, float]
    reach: float
    settled: tuple[float, ...]
    scores: Mapping[str, tuple[float, ...]]
    disagreeing: float
    settled_exact: bool = True
    unanswered: float = 0.0
    constant: bool = False
