"""Balls around prototypes: far inputs. The view that the promise stands on.

``score = min_k (|u - c_k| - rho_k)`` in whitened units, which have no kernel: it grows by one for
every unit that an input moves away, in every direction.
"""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor

from farfield.guard.clusters import Grouping
from farfield.guard.views.units import Units
from farfield.guard.views.view import Place, Say, View, plainly

PROTOTYPES = 64
OWN_QUANTILE = 0.9
ROUNDOFF = 2.0**-53


@final
class Balls(View):
    """``min_k (|u - c_k| - rho_k)``.

    Args:
        centres: ``(balls, units)``.
        radii: ``(balls,)``.
    """

    name = "balls"
    sees = "inputs far from all data"
    grows = True
    centres: Tensor
    radii: Tensor
    inputs: Tensor

    def __init__(self, centres: Tensor, radii: Tensor) -> None:
        super().__init__()
        self.register_buffer("centres", centres.double())
        self.register_buffer("radii", radii.double())

    def attach(self, whitened: Units, reduced: Units) -> None:
        """Find the centres in standard deviations, to say which column is off."""
        self.register_buffer("inputs", whitened.back(self.centres), persistent=False)

    @classmethod
    def fit(cls, whitened: Grouping) -> Balls:
        """Cover whitened rows."""
        found = whitened.into(PROTOTYPES)
        centres = torch.from_numpy(found.centres)
        radii = torch.from_numpy(found.quantiles(OWN_QUANTILE))
        return cls(centres, radii)

    def score(self, place: Place) -> Tensor:
        """Distance to the nearest ball, negative inside."""
        return (lengths(place.whitened, self.centres) - self.radii).amin(dim=1)

    def blame(self, place: Place) -> Tensor:
        """How far each column is from the nearest ball's centre, in deviations."""
        nearest = (lengths(place.whitened, self.centres) - self.radii).argmin(dim=1)
        return (place.standard - self.inputs[nearest]).abs()

    def explain(self, place: Place, say: Say, column: int) -> str:
        """Say how far it is from all data."""
        most = float(lengths(place.whitened, self.centres).amin())
        return (
            f"it is {plainly(most)} whitened units from the nearest group of training rows, mostly "
            f"by {say(column, float(place.rows[0, column]))}"
        )

    @property
    def reach(self) -> float:
        """Radius of a ball around the mean that holds the covered set."""
        furthest = float((self.centres.norm(dim=1) + self.radii).amax())
        return max(0.0, (furthest + float(self.threshold)) * (1 + 1e-12))

    def radius(self, units: Units) -> float:
        """R: ``d >= 1`` in floating point wherever ``|u| >= R``.

        ``|u - c_k| - rho_k`` is at least ``|u| - reach`` in real numbers, less :meth:`_error` as
        computed, so R has to exceed ``reach + width`` by the error at R.
        """
        outer = (self.reach + float(self.width)) * (1 + 1e-9)
        for _ in range(4):
            outer = (self.reach + float(self.width) + self._error(units, outer)) * (1 + 1e-9)
        return outer

    def proves(self, units: Units, radius: float) -> bool:
        """Whether ``d >= 1`` follows for every input with ``|u| >= radius``, rounding included.

        The error grows slower than ``|u|`` itself, so one inequality at the radius is enough.
        """
        error = self._error(units, radius)
        beyond = radius - self.reach - error
        return bool(
            error < 0.25 * radius
            and float(self.width) > 0
            and beyond >= float(self.width)
            and radius < 1e90 * units.shortest()
        )

    def _error(self, units: Units, length: float) -> float:
        """How much too small a computed score can be at ``|u| = length``.

        Standardising and the matrix lose ``condition`` times ``|u|``, and the expansion of
        ``|u - c|^2`` loses a share of ``(|u| + |c|)^2``, of which the root can be all there is.
        """
        columns = self.centres.shape[1]
        share = 16 * (columns + 16) * ROUNDOFF
        away = float(self.centres.norm(dim=1).amax())
        return share * units.condition() * length + math.sqrt(share) * (length + away)


def lengths(units: Tensor, centres: Tensor) -> Tensor:
    """``|u - c_k|``, ``(rows, centres)``, by one product of matrices for any number of rows."""
    return torch.cdist(units, centres, compute_mode="use_mm_for_euclid_dist")
