"""Mixtures of Gaussians by expectation and maximisation (Dempster, Laird, Rubin 1977).

The steps are those of scikit-learn's ``GaussianMixture``, which finds the same mixture.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.guard.kmeans import BLOCK, kmeans

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Gaussians:
    """A mixture.

    Attributes:
        weights: ``(components,)``.
        means: ``(components, columns)``.
        factors: ``(components, columns, columns)``, upper triangles: ``L L'`` is the inverse of a
            covariance.
        arrived: Whether the likelihood had come to rest.
    """

    weights: Floats
    means: Floats
    factors: Floats
    arrived: bool = False

    @classmethod
    def fit(
        cls,
        rows: Floats,
        count: int,
        seed: int,
        *,
        least: float = 1e-6,
        most: int = 100,
        still: float = 1e-3,
    ) -> Gaussians:
        """Fit a mixture, from groups of k-means on.

        Args:
            rows: ``(rows, columns)``.
            count: Components.
            seed: Of k-means.
            least: Added to variances.
            most: Rounds.
            still: A mean log likelihood that changes by less has arrived.
        """
        labels = kmeans(rows, count, np.random.RandomState(seed))
        shares = np.eye(count)[labels]
        found, before = cls._of(rows, shares, least), -math.inf
        for _ in range(most):
            shares, likelihood = found.shares(rows)
            arrived = abs(likelihood - before) < still
            found, before = cls._of(rows, shares, least, arrived), likelihood
            if arrived:
                break
        return found

    @classmethod
    def _of(cls, rows: Floats, shares: Floats, least: float, arrived: bool = False) -> Gaussians:
        """The most likely components if so much of each row belongs to each."""
        sizes = shares.sum(axis=0) + 10 * np.finfo(np.float64).eps
        means = (shares.T @ rows) / sizes[:, None]
        spreads = np.empty((len(sizes), rows.shape[1], rows.shape[1]))
        halves = np.sqrt(shares.T)[:, :, None]
        for some in _together(rows, len(sizes)):
            apart = rows - means[some, None]
            apart *= halves[some]
            np.matmul(apart.transpose(0, 2, 1), apart, out=spreads[some])
        spreads /= sizes[:, None, None]
        spreads += least * np.eye(rows.shape[1])
        roots = torch.linalg.cholesky(torch.from_numpy(spreads))
        eye = torch.eye(rows.shape[1], dtype=roots.dtype).expand_as(roots)
        factors = torch.linalg.solve_triangular(roots, eye, upper=False).transpose(1, 2)
        return cls(sizes / sizes.sum(), means, factors.contiguous().numpy(), arrived)

    def shares(self, rows: Floats) -> tuple[Floats, float]:
        """How much of each row belongs to each component, and the mean log likelihood."""
        logs = np.empty((len(rows), len(self.weights)))
        shifts = self.means[:, None] @ self.factors
        for some in _together(rows, len(self.weights)):
            turned = rows @ self.factors[some]
            turned -= shifts[some]
            np.square(turned, out=turned)
            logs[:, some] = turned.sum(axis=2).T
        size = np.log(np.diagonal(self.factors, axis1=1, axis2=2)).sum(axis=1)
        logs = np.log(self.weights) + size - 0.5 * (logs + rows.shape[1] * math.log(2 * math.pi))
        most = logs.max(axis=1, keepdims=True)
        shares = np.exp(logs - most)
        total = shares.sum(axis=1, keepdims=True)
        return shares / total, float((most + np.log(total)).mean())


def _together(rows: Floats, count: int) -> Iterator[slice]:
    """Components that are computed at a time: all of them where rows are few."""
    step = max(1, BLOCK // max(1, rows.size))
    return (slice(start, start + step) for start in range(0, count, step))
