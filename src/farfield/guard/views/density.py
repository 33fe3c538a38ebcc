"""Density: outside of the ellipsoids of a Gaussian mixture. Sees correlations that are broken.

``score = min_k sqrt(|(u - m_k) L_k|^2 + c_k)``, where ``L_k L_k'`` is the inverse covariance of
component k and ``c_k`` what its weight and size add to minus twice its log density: a level set of
the mixture's largest component, which grows linearly. No component stands for fewer than
``min_rows`` rows.
"""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from torch import Tensor

from farfield.guard.mixture import Gaussians
from farfield.guard.views.units import Units
from farfield.guard.views.view import Floats, Place, Say, View, plainly

COMPONENTS = 10
# Rows per component, in multiples of the number of units.
ROWS_PER_UNIT = 10
# Added to variances, in whitened units.
LEAST_VARIANCE = 1e-2


@final
class Density(View):
    """``min_k sqrt(|(u - m_k) L_k|^2 + c_k)``.

    Args:
        factors: ``(components, units, units)``, L.
        shifts: ``(components, units)``, ``m_k L_k``.
        offsets: ``(components,)``, c, the smallest of them 0.
    """

    name = "density"
    sees = "columns that are usual one by one, but not together"
    grows = True
    factors: Tensor
    shifts: Tensor
    offsets: Tensor
    inputs: Tensor

    def __init__(self, factors: Tensor, shifts: Tensor, offsets: Tensor) -> None:
        super().__init__()
        self.register_buffer("factors", factors.double())
        self.register_buffer("shifts", shifts.double())
        self.register_buffer("offsets", offsets.double())

    def attach(self, whitened: Units, reduced: Units) -> None:
        """Find the means in standard deviations, to say which column is off."""
        turned = self.factors.transpose(1, 2)
        means: Tensor = torch.linalg.solve(turned, self.shifts)
        self.register_buffer("inputs", reduced.back(means), persistent=False)

    @classmethod
    def fit(cls, reduced: Floats, min_rows: int, seed: int) -> Density:
        """Fit a mixture."""
        columns = reduced.shape[1]
        most = min(COMPONENTS, len(reduced) // max(2 * min_rows, ROWS_PER_UNIT * columns))
        for count in range(max(1, most), 0, -1):
            # Any mixture has level sets, come to rest or not.
            mixture = Gaussians.fit(
                reduced, count, seed % 2**32, least=LEAST_VARIANCE, most=30, still=1e-2
            )
            shares, _ = mixture.shares(reduced)
            # How many rows a weighted mean stands for (Kish 1965).
            if (np.square(shares.sum(axis=0)) >= min_rows * np.square(shares).sum(axis=0)).all():
                break
        factors = torch.from_numpy(mixture.factors)
        means = torch.from_numpy(mixture.means)
        size = torch.diagonal(factors, dim1=1, dim2=2).log().sum(dim=1)
        offsets = -2.0 * (torch.from_numpy(np.log(mixture.weights)) + size)
        shifts = torch.einsum("ki,kij->kj", means, factors)
        return cls(factors, shifts, offsets - offsets.min())

    def score(self, place: Place) -> Tensor:
        """The smallest over components."""
        return self._each(place).amin(dim=1).sqrt()

    def blame(self, place: Place) -> Tensor:
        """How far each column is from the nearest component's mean, in deviations."""
        return (place.standard - self.inputs[self._each(place).argmin(dim=1)]).abs()

    def explain(self, place: Place, say: Say, column: int) -> str:
        """Say how improbable it is."""
        away = plainly(float(self.score(place)[0]))
        return (
            f"its columns do not go together as in the training rows: {away} deviations from the "
            f"nearest component (inside: up to {plainly(float(self.threshold))}), mostly by "
            f"{say(column, float(place.rows[0, column]))}"
        )

    def _each(self, place: Place) -> Tensor:
        count, columns = self.shifts.shape
        flat = self.factors.permute(1, 0, 2).reshape(columns, count * columns)
        turned = (place.reduced @ flat).reshape(-1, count, columns) - self.shifts
        return turned.square().sum(dim=2) + self.offsets
