"""Mixtures of normal or Laplace distributions, one component per instance."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from farfield.errors import InputError
from farfield.evaluate.regression import Family, mixture_nll

BISECTIONS = 100


@dataclass(frozen=True, slots=True)
class Mixture:
    """Equal mixtures, one per point.

    Attributes:
        family: ``"gaussian"`` or ``"laplace"``.
        means: ``(instances, points)``.
        scales: ``(instances, points)``; standard deviations, or Laplace scales ``b``.

    Example:
        >>> mixture = Mixture("gaussian", np.array([[-1.0], [1.0]]), np.array([[2.0], [2.0]]))
        >>> mixture.mean.tolist(), mixture.variance.tolist()
        ([0.0], [5.0])
    """

    family: Family
    means: NDArray[Any]
    scales: NDArray[Any]

    @property
    def mean(self) -> NDArray[Any]:
        """Mean of the members' means."""
        return np.asarray(self.means.mean(axis=0))

    @property
    def member_std(self) -> NDArray[Any]:
        """Standard deviation of every member: the scale, or ``sqrt(2)`` times it for Laplace."""
        return np.asarray(self.scales * (math.sqrt(2.0) if self.family == "laplace" else 1.0))

    @property
    def data_variance(self) -> NDArray[Any]:
        """Mean of the members' variances: ``scale^2``, or ``2 scale^2`` for Laplace."""
        return np.asarray(np.square(self.member_std).mean(axis=0))

    @property
    def knowledge_variance(self) -> NDArray[Any]:
        """Variance of the members' means: what they disagree about."""
        return np.asarray(self.means.var(axis=0))

    @property
    def variance(self) -> NDArray[Any]:
        """``mean_m(variance_m + mean_m^2) - mean^2``, computed without cancellation."""
        return np.asarray(self.data_variance + self.knowledge_variance)

    @property
    def std(self) -> NDArray[Any]:
        """Standard deviation."""
        return np.asarray(np.sqrt(self.variance))

    def log_density(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the mixture's log density at one value per point."""
        return -mixture_nll(values, self.means, self.member_std, self.family)

    def collapsed_nll(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the negative log density of one distribution of equal mean and variance."""
        return mixture_nll(values, self.mean, self.std, self.family)

    def cdf(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the probability of at most ``values``, one per point."""
        standard = (values - self.means) / self.scales
        if self.family == "gaussian":
            return np.asarray(ndtr(standard).mean(axis=0))
        tail = 0.5 * np.exp(-np.abs(standard))
        return np.asarray(np.where(standard < 0, tail, 1 - tail).mean(axis=0))

    def quantile(self, share: float) -> NDArray[Any]:
        """Return where the mixture's cdf reaches ``share``, by bisection."""
        # A component's quantile lies this many scales from its mean; the mixture's between them.
        reach = _standard_quantile(self.family, share)
        low = (self.means + reach * self.scales).min(axis=0)
        high = (self.means + reach * self.scales).max(axis=0)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < share
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(0.5 * (low + high))

    def interval(self, level: float) -> NDArray[Any]:
        """Return the central interval of that probability, ``(points, 2)``."""
        if not 0 < level < 1:
            raise InputError(f"level must be in (0, 1), got {level!r}")
        tail = (1 - level) / 2
        return np.stack([self.quantile(tail), self.quantile(1 - tail)], axis=1)


def _standard_quantile(family: Family, share: float) -> float:
    """Quantile of the standard distribution."""
    if family == "gaussian":
        return float(ndtri(share))
    return math.log(2 * share) if share < 0.5 else -math.log(2 * (1 - share))
