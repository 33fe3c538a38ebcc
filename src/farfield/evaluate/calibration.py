"""Calibration: does a confidence of 0.8 mean right in 8 of 10 cases?

Every error compares, bin by bin, the mean confidence with the share that is right:
``sum_b (points in b / points) * |right_b - confidence_b|``. Bins are ``(lower, upper]``, and
the first takes 0 too, so confidence 1, the far field's own, falls into the last.

* ``ece``: confidence of the predicted class, bins of equal width (Guo et al., 2017).
* ``adaptive_ece``: the same, with bins of equal numbers of points (Mukhoti et al., 2020). Equal
  confidences share a bin, so the order of the points does not matter.
* ``classwise_ece``: the mean over classes of the error of that class's probability, bins of
  equal width (Kull et al., 2019).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from farfield.errors import InputError
from farfield.estimate import Estimate, clopper_pearson
from farfield.evaluate.bootstrap import (
    RandomState,
    check_bootstrap,
    norm_estimates,
    percentile_estimates,
    resampled_means,
)
from farfield.scores.simplex import mean_over_instances

Bins = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """One bar of a reliability diagram: points with confidence in ``(lower, upper]``."""

    lower: float
    upper: float
    points: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Calibration:
    """How well probabilities fit labels.

    Attributes:
        nll: Mean of ``-log p[y]`` in nats; infinite when a label had probability 0.
        brier: Mean of ``sum_c (p[c] - [c = y])^2``, from 0 to 2 (Brier, 1950).
        ece: Expected calibration error, bins of equal width.
        adaptive_ece: Expected calibration error, bins of equal numbers of points.
        classwise_ece: Mean over classes of their calibration errors.
        accuracy: Share of points whose most probable class (the first among equals) is right.
        reliability: The bins of ``ece`` that hold points.
        points: Number of points.
        intervals: Name of a number above to its `Estimate`; empty unless asked for.
    """

    nll: float
    brier: float
    ece: float
    adaptive_ece: float
    classwise_ece: float
    accuracy: float
    reliability: tuple[ReliabilityBin, ...]
    points: int
    intervals: Mapping[str, Estimate] = field(default_factory=dict)


def calibration(
    p: NDArray[Any] | Tensor,
    y: NDArray[Any] | Tensor,
    *,
    bins: int = 15,
    interval: float | None = None,
    resamples: int = 1000,
    random_state: RandomState = 0,
) -> Calibration:
    """Measure how well probabilities fit labels.

    Args:
        p: Probabilities, ``(points, classes)``, or ``(instances, points, classes)`` whose mean
            over instances is measured. Not logits.
        y: Labels, ``(points,)``, whole numbers from 0 to ``classes - 1``.
        bins: Number of bins of the calibration errors.
        interval: Confidence level of intervals, or None for none: Clopper and Pearson's for the
            accuracy, the bootstrap for all others. Bins stay those of the given points. Binned
            errors of a perfectly calibrated model are positive by chance; their intervals allow
            for that and then reach down to 0.
        resamples: Number of bootstrap resamples.
        random_state: Seed or generator of the bootstrap.

    Returns:
        A `Calibration`; its ``intervals`` are filled when ``interval`` is given.

    >>> p = np.array([[0.75, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.25]])
    >>> result = calibration(p, np.array([0, 0, 1, 1]))
    >>> result.accuracy, result.ece, result.brier
    (0.75, 0.0, 0.375)
    """
    mean = mean_over_instances(p)
    labels = _as_labels(y, *mean.shape)
    if bins < 1:
        raise InputError(f"bins must be at least 1, got {bins}.")
    confidence = mean.max(axis=1)
    right = mean.argmax(axis=1) == labels
    width_bins = _equal_width(confidence, bins)
    columns = _contributions(mean, labels, bins)
    means = np.asarray(columns.sum(axis=0)).reshape(1, -1) / len(mean)
    plain, errors = _plain(means), _errors(means, bins)
    numbers = {name: float(value[0]) for name, value in (plain | errors).items()}
    intervals: dict[str, Estimate] = {}
    if interval is not None:
        check_bootstrap(interval, resamples)
        resampled = resampled_means(columns, resamples, random_state)
        intervals = percentile_estimates(
            {name: numbers[name] for name in plain}, _plain(resampled), interval
        ) | norm_estimates(
            {name: numbers[name] for name in errors}, _errors(resampled - means, bins), interval
        )
        # A count of independent rows: where all are right, no resample would differ.
        intervals |= {"accuracy": clopper_pearson(int(right.sum()), len(right), interval)}
    return Calibration(
        **numbers,
        reliability=_reliability(confidence, right, width_bins, bins),
        points=len(mean),
        intervals=intervals,
    )


def _as_labels(y: NDArray[Any] | Tensor, points: int, classes: int) -> NDArray[np.intp]:
    """Return ``(points,)`` class indices."""
    array = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if array.dtype.kind not in "iub":
        raise InputError(
            f"y must hold whole numbers from 0 to {classes - 1}, got dtype {array.dtype}. "
            "Turn class names into indices with numpy.searchsorted(estimator.classes_, y)."
        )
    if array.shape != (points,):
        raise InputError(f"y must have shape ({points},), one label per point, got {array.shape}.")
    if array.min() < 0 or array.max() >= classes:
        raise InputError(
            f"y must hold whole numbers from 0 to {classes - 1}, "
            f"got labels from {array.min()} to {array.max()}."
        )
    return array.astype(np.intp)


def _equal_width(confidence: NDArray[np.float64], bins: int) -> Bins:
    """Return the bin ``(k / bins, (k + 1) / bins]`` of every confidence."""
    return np.searchsorted(np.arange(1, bins) / bins, confidence)


def _equal_count(confidence: NDArray[np.float64], bins: int) -> Bins:
    """Return bins that hold the same number of points as far as ties allow."""
    ranks = -(-np.arange(1, bins) * len(confidence) // bins) - 1
    edges = np.unique(np.sort(confidence)[np.maximum(ranks, 0)])
    return np.searchsorted(edges, confidence)


def _contributions(mean: NDArray[np.float64], labels: NDArray[np.intp], bins: int) -> Any:
    """Return a sparse matrix ``(points, columns)`` of which every number needs column means only.

    Columns: impossible label, negative log-likelihood, Brier, right; then what is right minus
    confidence in the bins of ``ece``, of ``adaptive_ece``, and of every class.
    """
    points, classes = mean.shape
    of_label = np.take_along_axis(mean, labels[:, None], axis=1)
    target = np.arange(classes) == labels[:, None]
    confidence = mean.max(axis=1, keepdims=True)
    right = mean.argmax(axis=1, keepdims=True) == labels[:, None]
    plain = np.hstack(
        [
            of_label == 0,
            -np.log(np.where(of_label == 0, 1.0, of_label)),
            ((mean - target) ** 2).sum(axis=1, keepdims=True),
            right,
        ]
    )
    gaps = np.hstack([right - confidence, right - confidence, target - mean])
    places = np.column_stack(
        [
            _equal_width(confidence, bins),
            _equal_count(confidence[:, 0], bins),
            _equal_width(mean, bins),
        ]
    )
    places += np.arange(2 + classes) * bins
    starts = np.arange(points + 1) * (2 + classes)
    binned = sparse.csr_array(
        (gaps.ravel(), places.ravel(), starts), shape=(points, (2 + classes) * bins)
    )
    return sparse.hstack([sparse.csr_array(plain), binned], format="csr")


def _plain(means: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Name the first column means, of shape ``(resamples, columns)``."""
    impossible, nll, brier, accuracy = means[:, :4].T
    return {
        "nll": np.where(impossible > 0, np.inf, nll),
        "brier": brier,
        "accuracy": accuracy,
    }


def _errors(means: NDArray[np.float64], bins: int) -> dict[str, NDArray[np.float64]]:
    """Sum the absolute gaps of the bins; every error is a norm of the remaining column means."""
    gaps = np.abs(means[:, 4:]).reshape(len(means), -1, bins).sum(axis=2)
    return {
        "ece": gaps[:, 0],
        "adaptive_ece": gaps[:, 1],
        "classwise_ece": gaps[:, 2:].mean(axis=1),
    }


def _reliability(
    confidence: NDArray[np.float64], right: NDArray[np.bool_], places: Bins, bins: int
) -> tuple[ReliabilityBin, ...]:
    """Average confidence and accuracy over every bin that holds points."""
    return tuple(
        ReliabilityBin(
            lower=k / bins,
            upper=(k + 1) / bins,
            points=int((places == k).sum()),
            confidence=float(confidence[places == k].mean()),
            accuracy=float(right[places == k].mean()),
        )
        for k in np.unique(places).tolist()
    )
