"""Ranges: a column at a value that no training row had, in standard deviations.

``score = |e|`` with ``e_j`` how far column j is beyond its smallest or largest training value, in
its unit. Every direction moves a column, so it grows in all of them; and it names the column.
"""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from torch import Tensor

from farfield.guard.views.units import column_units
from farfield.guard.views.view import Floats, Place, Say, View, plainly


@final
class Ranges(View):
    """How far columns are beyond their training values.

    Args:
        low: ``(columns,)`` smallest training values.
        high: ``(columns,)`` largest ones.
        unit: ``(columns,)``.
    """

    name = "ranges"
    sees = "columns at values that no training row had"
    grows = True
    floor = 0.1
    plain = 1
    low: Tensor
    high: Tensor
    unit: Tensor

    def __init__(self, low: Tensor, high: Tensor, unit: Tensor) -> None:
        super().__init__()
        for name, value in {"low": low, "high": high, "unit": unit}.items():
            self.register_buffer(name, value.double())

    @classmethod
    def fit(cls, rows: Floats, *, common: bool) -> Ranges:
        """Find the ranges of columns.

        Args:
            rows: ``(rows, columns)``.
            common: Whether all columns share one unit, as pixels do.
        """
        _, unit = column_units(rows)
        if common:
            spread = float(np.sqrt(np.square(rows.std(axis=0)).mean()))
            unit = np.full_like(unit, spread if spread > 0 else float(unit.mean()))
        low, high = rows.min(axis=0), rows.max(axis=0)
        return cls(*(torch.from_numpy(each) for each in (low, high, unit)))

    def widen(self, rows: Floats) -> None:
        """Take in further rows, so that "every training value" is every one of them."""
        low, high = np.nanmin(rows, axis=0), np.nanmax(rows, axis=0)
        self.low.copy_(torch.minimum(self.low, torch.from_numpy(low)))
        self.high.copy_(torch.maximum(self.high, torch.from_numpy(high)))

    def score(self, place: Place) -> Tensor:
        """Length of what is beyond."""
        length: Tensor = torch.linalg.vector_norm(self._beyond(place), dim=1)
        return length

    def blame(self, place: Place) -> Tensor:
        """How far each column is beyond its range, in its unit."""
        return self._beyond(place).abs()

    def _beyond(self, place: Place) -> Tensor:
        return (place.rows - torch.clamp(place.rows, self.low, self.high)) / self.unit

    def explain(self, place: Place, say: Say, column: int) -> str:
        """Say which column, and what the training values were."""
        value, low, high = (
            float(each) for each in (place.rows[0, column], self.low[column], self.high[column])
        )
        away = plainly(float(self.blame(place)[0, column]))
        said = say(column, value)
        if low == high:
            return f"{said}, where every training value is {plainly(low)}"
        side = "below" if value < low else "above"
        return (
            f"{said} is {side} every training value ({plainly(low)} to {plainly(high)}); "
            f"{away} deviations outside"
        )

    def proves(self, places: Tensor, centre: Tensor, radius: float) -> bool:
        """Whether ``d >= 1`` wherever columns are ``radius`` or more from a centre, in raw units.

        If no column were beyond its range by ``threshold + width`` units, the distance from the
        centre would be less than :meth:`radius`.
        """
        return float(self.width) > 0 and radius >= self.radius(places, centre) * (1 - 1e-12)

    def radius(self, places: Tensor, centre: Tensor) -> float:
        """Distance from a centre beyond which some column is outside by the width."""
        widest = torch.maximum(self.high[places] - centre, centre - self.low[places])
        outer = widest + float(self.threshold + self.width) * self.unit[places]
        return float(outer.norm()) * (1 + 1e-9)
