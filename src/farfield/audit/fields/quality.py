"""How good a model is on its data, and at telling other data apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from farfield.estimate import Estimate


@dataclass(frozen=True)
class Bin:
    """One bar of the reliability diagram."""

    lower: float
    upper: float
    points: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Health:
    """How good the model is on the data it was given, with labels.

    Attributes:
        rows: How many rows were used.
        numbers: ``accuracy``, ``nll``, ``brier``, ``ece`` and so on (for a regressor ``rmse``,
            ``nll``, ``coverage`` and so on) with intervals.
        reliability: The bars of the reliability diagram.
        mmc: Mean of the largest probability over the rows.
        certain: Share of the rows with the threshold's confidence or more.
        baseline: What no model at all would give on these rows: the accuracy of always naming the
            most frequent class; for a regressor, the RMSE of always naming the mean.
    """

    rows: int
    numbers: Mapping[str, Estimate]
    reliability: tuple[Bin, ...] = ()
    mmc: float | None = None
    baseline: float | None = None
    certain: float | None = None


@dataclass(frozen=True)
class Detected:
    """How well one score tells one out-of-distribution set from the data.

    Attributes:
        dataset: Name of the set.
        score: Name of the score; ``mahalanobis`` and ``nearest`` do not look at the logits.
        reference: Whether it is such a reference.
        auroc: Chance that an out-point scores higher than an in-point.
        aupr: Average precision, out-points positive.
        fpr95: Share of out-points at least as confident as the 5th percentile of in-points.
        rows: How many out-points.
    """

    dataset: str
    score: str
    reference: bool
    auroc: Estimate
    aupr: Estimate
    fpr95: Estimate
    rows: int


@dataclass(frozen=True)
class OutSet:
    """One out-of-distribution set as the model sees it.

    Attributes:
        name: Its name.
        source: Where it came from.
        rows: How many rows.
        mmc: Mean of the largest probability over its rows.
        certain: Share of its rows with the threshold's confidence or more.
    """

    name: str
    source: str
    rows: int
    mmc: float
    certain: float
