"""How sure a model is on average: its mean maximal confidence."""

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from farfield.estimate import Estimate
from farfield.evaluate.bootstrap import (
    RandomState,
    check_bootstrap,
    percentile_estimates,
    resampled_means,
)
from farfield.scores.simplex import mean_over_instances


@overload
def mean_max_confidence(
    p: NDArray[Any] | Tensor,
    *,
    interval: None = None,
    resamples: int = ...,
    random_state: RandomState = ...,
) -> float: ...


@overload
def mean_max_confidence(
    p: NDArray[Any] | Tensor,
    *,
    interval: float,
    resamples: int = ...,
    random_state: RandomState = ...,
) -> Estimate: ...


def mean_max_confidence(
    p: NDArray[Any] | Tensor,
    *,
    interval: float | None = None,
    resamples: int = 1000,
    random_state: RandomState = 0,
) -> float | Estimate:
    """Average ``max_c m[c]`` over points (MMC of Hein et al.), ``m`` the mean over instances.

    Args:
        p: Probabilities, ``(instances, points, classes)`` or ``(points, classes)``.
        interval: Confidence level of a bootstrap interval over points, or None for none.
        resamples: Number of bootstrap resamples.
        random_state: Seed or generator of the bootstrap.

    Returns:
        The mean, as a ``float``; with ``interval``, as an `Estimate`.

    >>> mean_max_confidence(np.array([[0.75, 0.25], [0.0, 1.0]]))
    0.875
    """
    confidence: NDArray[np.float64] = mean_over_instances(p).max(axis=1)
    if interval is None:
        return float(confidence.mean())
    check_bootstrap(interval, resamples)
    means = resampled_means(confidence[:, None], resamples, random_state)[:, 0]
    mean = {"mean": float(confidence.mean())}
    return percentile_estimates(mean, {"mean": means}, interval)["mean"]
