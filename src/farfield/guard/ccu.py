"""Certified certain uncertainty, post hoc: a mixture with the uniform answer, weighed by densities.

Meinke and Hein 2020 ("Towards neural networks that provably know when they don't know"):

    p(y | x) = (p_model(y | x) p_in(x) + lambda p_out(x) / K) / (p_in(x) + lambda p_out(x)),

so that with ``r = p_in / (lambda p_out)`` no class exceeds ``(1 + K r) / (K (1 + r))``. Here both
densities are mixtures of spherical Gaussians in whitened units: ``p_in`` is fitted to the data,
``p_out`` is one wide Gaussian. The paper trains jointly; this form needs no training.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch import Tensor

from farfield.errors import InputError
from farfield.graph.export import as_example
from farfield.guard.members import Held, hold, own_array, own_probabilities
from farfield.guard.views.units import MetricKind, Units, fit_units

Floats = NDArray[np.float64]
# p_out's variance in units of the data's, which whitening makes about one.
WIDE = 4.0
# lambda makes the data-to-noise ratio of this quantile of the rows equal to so much.
QUANTILE, LEAST_RATIO = 0.01, 100.0
# The mixture is fitted to a sample of at most so many rows.
FITTED_ROWS = 20_000
BATCH = 8192


@dataclass(frozen=True, eq=False)
class CCU:
    """A model mixed with the uniform answer.

    Attributes:
        held: The model.
        metric: Whitened units.
        weights: ``(components,)`` logarithms of p_in's weights.
        means: ``(components, columns)``.
        variances: ``(components,)``.
        wide: Variance of p_out, which is centred at the mean.
        log_lambda: Logarithm of the noise's weight.
    """

    held: Held
    metric: Units
    weights: Floats
    means: Floats
    variances: Floats
    wide: float
    log_lambda: float

    def log_ratio(self, rows: Tensor) -> Floats:
        """``log r``, ``(rows,)``."""
        units = self.metric(rows.double().flatten(1)).numpy()
        inside = log_density(units, self.weights, self.means, self.variances)
        columns = units.shape[1]
        zero = np.zeros((1, columns))
        outside = log_density(units, np.zeros(1), zero, np.array([self.wide]))
        ratio: Floats = inside - outside - self.log_lambda
        return ratio

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities, ``(rows, classes)``."""
        rows = torch.as_tensor(own_array(X)).reshape(-1, *self.held.input_shape).double()
        own = own_probabilities(self.held, rows.flatten(1).numpy())
        ratio = np.concatenate([self.log_ratio(part) for part in rows.split(BATCH)])[:, None]
        share = np.exp(-np.logaddexp(0.0, -ratio))
        mixed: Floats = share * own + (1 - share) / self.held.classes
        return mixed

    def bound(self, rows: Tensor) -> Floats:
        """``(1 + K r) / (K (1 + r))``, ``(rows,)``: what no class exceeds at each row."""
        share = np.exp(-np.logaddexp(0.0, -self.log_ratio(rows)))
        limit: Floats = share + (1 - share) / self.held.classes
        return limit

    def certificate_radius(self, epsilon: float) -> float:
        """Distance from the mean, in whitened units, beyond which no class exceeds 1/K + epsilon.

        At length t a component at distance b from the mean has a density ratio of at most
        ``exp(c - (t - b)^2 / 2 v + t^2 / 2 w)``, which falls beyond ``b w / (w - v)``.
        """
        classes = self.held.classes
        if not 0 < epsilon < 1 - 1 / classes:
            raise InputError(f"epsilon must lie between 0 and {1 - 1 / classes:.4g}, got {epsilon}")
        goal = math.log(classes * epsilon / (classes - 1 - classes * epsilon))
        if self.wide <= self.variances.max():
            return math.inf
        away = np.linalg.norm(self.means, axis=1)
        columns = self.means.shape[1]
        start = self.weights + 0.5 * columns * np.log(self.wide / self.variances)

        def ratio(t: float) -> float:
            each = start - (t - away) ** 2 / (2 * self.variances) + t**2 / (2 * self.wide)
            return float(logsumexp(each)) - self.log_lambda

        low = float((away * self.wide / (self.wide - self.variances)).max())
        if ratio(low) <= goal:
            return low
        high = 2 * low + 1
        while ratio(high) > goal:
            high *= 2
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if ratio(middle) > goal else (low, middle)
        return high


def ccu(
    model: Any,
    X: Any,
    *,
    components: int = 32,
    metric: MetricKind | None = None,
    random_state: int = 0,
) -> CCU:
    """Mix a model with the uniform answer away from its data.

    Args:
        model: Anything that :func:`farfield.capture` reads.
        X: ``(rows, *input)`` training rows.
        components: Gaussians in p_in; fewer where rows are fewer.
        metric: As for :func:`farfield.guard`.
        random_state: Seed of the mixture and of the sample.
    """
    rows = as_example(own_array(X))
    held = hold(model, rows)
    flat = rows.double().flatten(1)
    if metric is None and len(held.input_shape) > 1:
        metric = "isotropic"
    whitening = fit_units(flat.numpy(), metric)
    # Loading this takes longer than making a guard, which loads this module.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    units = whitening(flat).numpy()
    order = np.random.default_rng(random_state).permutation(len(units))[:FITTED_ROWS]
    mixture = GaussianMixture(
        min(components, len(units)),
        covariance_type="spherical",
        reg_covar=1e-3,
        max_iter=50,
        random_state=random_state,
        init_params="k-means++",
        tol=1e-2,
    )
    with warnings.catch_warnings():
        # Any mixture is a density, and the bound holds for it, converged or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(units[order])
    weights, variances = np.log(mixture.weights_), np.asarray(mixture.covariances_)
    wide = WIDE * max(1.0, float(variances.max()))
    inside = log_density(units, weights, mixture.means_, variances)
    outside = log_density(units, np.zeros(1), np.zeros((1, units.shape[1])), np.array([wide]))
    least = float(np.quantile(inside - outside, QUANTILE))
    return CCU(
        held,
        whitening,
        weights,
        np.asarray(mixture.means_),
        variances,
        wide,
        least - math.log(LEAST_RATIO),
    )


def log_density(units: Floats, weights: Floats, means: Floats, variances: Floats) -> Floats:
    """Logarithm of a mixture of spherical Gaussians, ``(rows,)``.

    >>> zero = np.zeros((1, 2))
    >>> density = log_density(zero, np.zeros(1), zero, np.ones(1))
    >>> bool(np.isclose(density[0], -math.log(2 * math.pi)))
    True
    """
    columns = units.shape[1]
    squares = np.square(units).sum(axis=1)[:, None] + np.square(means).sum(axis=1)
    apart = np.maximum(squares - 2 * units @ means.T, 0.0)
    each = weights - 0.5 * (apart / variances + columns * np.log(2 * np.pi * variances))
    return np.asarray(logsumexp(each, axis=1))
