"""Regression: errors, likelihoods and coverage of predictive distributions.

Spread is always given as a **standard deviation**, whatever the family: a Laplace distribution
of scale ``b`` has standard deviation ``sqrt(2) b``. Members of an ensemble come first,
``(members, points)``, and form a mixture with equal weights.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special
from torch import Tensor

from farfield.errors import InputError
from farfield.estimate import Estimate, check_level, clopper_pearson
from farfield.evaluate.bootstrap import (
    RandomState,
    check_bootstrap,
    percentile_estimates,
    resampled_means,
)

Family = Literal["gaussian", "laplace"]
Floats = NDArray[np.float64]
Values = NDArray[Any] | Tensor


@dataclass(frozen=True)
class Regression:
    """How well predictive distributions fit targets.

    Attributes:
        rmse: Root of the mean squared error of the (combined) mean.
        mae: Mean absolute error of the (combined) mean.
        nll: Mean negative log-likelihood in nats, of one distribution of the family with the
            members' combined mean and standard deviation.
        mixture_nll: Mean negative log-likelihood of the mixture itself; equal for one member.
        coverage: Share of targets inside of the central interval of the combined distribution.
        level: The share that the central interval promises.
        points: Number of points.
        intervals: Name of a number above to its `Estimate`; empty unless asked for.
    """

    rmse: float
    mae: float
    nll: float
    mixture_nll: float
    coverage: float
    level: float
    points: int
    intervals: Mapping[str, Estimate] = field(default_factory=dict)


def gaussian_nll(y: Values, mean: Values, std: Values) -> Floats:
    """Compute ``log(2 pi s^2) / 2 + (y - m)^2 / (2 s^2)`` for every point, in nats.

    >>> gaussian_nll(np.array([1.0]), np.array([0.0]), np.array([1.0])).round(6)
    array([1.418939])
    """
    return _nll(*_checked(y, mean, std), "gaussian")


def laplace_nll(y: Values, mean: Values, std: Values) -> Floats:
    """Compute ``log(2 b) + |y - m| / b`` with ``b = s / sqrt(2)`` for every point, in nats.

    >>> laplace_nll(np.array([1.0]), np.array([0.0]), np.array([2.0**0.5])).round(6)
    array([1.693147])
    """
    return _nll(*_checked(y, mean, std), "laplace")


def mixture_nll(y: Values, mean: Values, std: Values, family: Family = "gaussian") -> Floats:
    """Compute the negative log-likelihood of an equally weighted mixture, for every point.

    Args:
        y: Targets, ``(points,)``.
        mean: Means, ``(members, points)`` or ``(points,)``.
        std: Standard deviations, shaped like ``mean``.
        family: Of the members: ``"gaussian"`` or ``"laplace"``.

    Returns:
        ``(points,)``, in nats.

    >>> mixture_nll(np.zeros(1), np.array([[-1.0], [1.0]]), np.ones((2, 1))).round(6)
    array([1.418939])
    """
    _check_family(family)
    nll: Floats = _nll(*_checked(y, mean, std), family)
    if nll.ndim == 2:
        nll = math.log(len(nll)) - special.logsumexp(-nll, axis=0)
    return nll


def combine_members(mean: Values, std: Values) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the mixture of members (Lakshminarayanan et al., 2017).

    ``m = mean_i m_i`` and ``s^2 = mean_i s_i^2 + Var_i m_i``.

    Args:
        mean: Means, ``(members, points)`` or ``(points,)``.
        std: Standard deviations, shaped like ``mean``.

    Returns:
        Mean and standard deviation, ``(points,)`` each.

    >>> combine_members(np.array([[0.0], [2.0]]), np.array([[0.0], [0.0]]))
    (array([1.]), array([1.]))
    """
    means, stds = _as_floats(mean, "mean"), _as_floats(std, "std")
    if means.shape != stds.shape or means.ndim not in (1, 2) or means.size == 0:
        raise InputError(
            "mean and std must both have shape (members, points) or (points,), "
            f"got {means.shape} and {stds.shape}."
        )
    if (stds < 0).any():
        raise InputError("std must not be negative. Pass standard deviations, not log scales.")
    if means.ndim == 1:
        return means, stds
    return means.mean(axis=0), np.sqrt((stds**2).mean(axis=0) + means.var(axis=0))


def regression(
    y: Values,
    mean: Values,
    std: Values,
    *,
    family: Family = "gaussian",
    level: float = 0.95,
    interval: float | None = None,
    resamples: int = 1000,
    random_state: RandomState = 0,
) -> Regression:
    """Measure how well predictive distributions fit targets.

    Args:
        y: Targets, ``(points,)``.
        mean: Predicted means, ``(members, points)`` or ``(points,)``.
        std: Predicted standard deviations, shaped like ``mean``, positive.
        family: ``"gaussian"`` or ``"laplace"``.
        level: Share of targets that the central interval promises to hold.
        interval: Confidence level of intervals, or None for none: Clopper and Pearson's for the
            coverage, the bootstrap for all others.
        resamples: Number of bootstrap resamples.
        random_state: Seed or generator of the bootstrap.

    Returns:
        A `Regression`; its ``intervals`` are filled when ``interval`` is given.

    >>> result = regression(np.array([0.0, 3.0]), np.zeros(2), np.ones(2))
    >>> result.mae, result.coverage, round(result.nll, 6)
    (1.5, 0.5, 3.168939)
    """
    _check_family(family)
    check_level(level)
    targets, means, stds = _checked(y, mean, std)
    centre, spread = combine_members(means, stds)
    # Distances are measured in spreads: half of the central interval reaches this far.
    reach = (
        math.sqrt(2.0) * float(special.erfinv(level))
        if family == "gaussian"
        else -math.log1p(-level) / math.sqrt(2.0)
    )
    error = np.abs(targets - centre)
    columns = np.column_stack(
        [
            error**2,
            error,
            _nll(targets, centre, spread, family),
            mixture_nll(targets, means, stds, family),
            error <= reach * spread,
        ]
    )
    exact = _numbers(columns.mean(axis=0, keepdims=True))
    numbers = {name: float(value[0]) for name, value in exact.items()}
    intervals: dict[str, Estimate] = {}
    if interval is not None:
        check_bootstrap(interval, resamples)
        resampled = _numbers(resampled_means(columns, resamples, random_state))
        inside = int(columns[:, -1].sum())
        intervals = percentile_estimates(numbers, resampled, interval)
        intervals |= {"coverage": clopper_pearson(inside, len(targets), interval)}
    return Regression(**numbers, level=level, points=len(targets), intervals=intervals)


def _numbers(means: Floats) -> dict[str, Floats]:
    """Name the column means ``(resamples, columns)``."""
    squared, absolute, nll, mixture, coverage = means.T
    return {
        "rmse": np.sqrt(squared),
        "mae": absolute,
        "nll": nll,
        "mixture_nll": mixture,
        "coverage": coverage,
    }


def _nll(y: Floats, mean: Floats, std: Floats, family: str) -> Floats:
    """Compute the negative log-likelihood of every entry."""
    distance = np.abs(y - mean) / std
    if family == "gaussian":
        result: Floats = 0.5 * math.log(2 * math.pi) + np.log(std) + 0.5 * distance**2
    else:
        result = 0.5 * math.log(2.0) + np.log(std) + math.sqrt(2.0) * distance
    return result


def _checked(y: Values, mean: Values, std: Values) -> tuple[Floats, Floats, Floats]:
    """Return finite arrays of fitting shapes, with positive spread."""
    targets, means, stds = _as_floats(y, "y"), _as_floats(mean, "mean"), _as_floats(std, "std")
    if targets.ndim != 1 or targets.size == 0:
        raise InputError(f"y must have shape (points,) with a point, got shape {targets.shape}.")
    fits = means.shape in (targets.shape, (*means.shape[:1], *targets.shape)) and means.size > 0
    if not fits or stds.shape != means.shape:
        raise InputError(
            f"mean and std must both have shape {targets.shape} like y, or (members, "
            f"{len(targets)}); got {means.shape} and {stds.shape}."
        )
    if (stds <= 0).any():
        raise InputError("std must be positive. Pass standard deviations, not log scales.")
    return targets, means, stds


def _as_floats(values: Values, name: str) -> Floats:
    """Return a finite float64 array."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().double().numpy()
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name} must be real numbers, got dtype {array.dtype}.")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite, got NaN or infinity.")
    return array


def _check_family(family: str) -> None:
    """Refuse a family without a formula."""
    if family not in ("gaussian", "laplace"):
        raise InputError(f"family must be 'gaussian' or 'laplace', got {family!r}.")
