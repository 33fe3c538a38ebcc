"""Ranges: a column at a value that no training row had.

``score = |e|`` with ``e_j`` how far column j is beyond its smallest or largest training value, in
the unit of that end: how far values in its tail are beyond where the tail begins, on average. New
values of a column with heavy tails go far beyond all others, those of one that ends sharply do not.
Every direction moves a column, so the score grows in all of them; and it names the column.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np
import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.guard.views.units import column_units
from farfield.guard.views.view import Floats, Place, Say, View, plainly

# Tails begin at this share of the rows.
TAIL = 0.95
# No end has a smaller unit than this share of a standard deviation; of n rows, 3 / sqrt(n).
LEAST_UNIT, FEW = 0.1, 3.0


@final
class Ranges(View):
    """How far columns are beyond their training values.

    Args:
        low: ``(columns,)`` smallest training values.
        high: ``(columns,)`` largest ones.
        unit: ``(2, columns)`` of the low and of the high end.
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
        if unit.shape != (2, len(low)):
            raise InputError(
                f"ranges have a unit for both ends of {len(low)} columns, got {tuple(unit.shape)}; "
                "guards of earlier versions have to be made again"
            )
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
        low, high = rows.min(axis=0), rows.max(axis=0)
        if common:
            spread = float(np.sqrt(np.square(rows.std(axis=0)).mean()))
            unit = np.full((2, len(unit)), spread if spread > 0 else float(unit.mean()))
        else:
            least = max(LEAST_UNIT, FEW / math.sqrt(len(rows))) * unit
            unit = np.maximum([_excess(-rows), _excess(rows)], least)
        return cls(*(torch.from_numpy(each) for each in (low, high, unit)))

    def widen(self, low: Floats, high: Floats) -> None:
        """Take in the ends of further rows, so that "every training value" is every one."""
        self.low.copy_(torch.minimum(self.low, torch.from_numpy(low)))
        self.high.copy_(torch.maximum(self.high, torch.from_numpy(high)))

    def score(self, place: Place) -> Tensor:
        """Length of what is beyond."""
        length: Tensor = torch.linalg.vector_norm(self._beyond(place), dim=1)
        return length

    def blame(self, place: Place) -> Tensor:
        """How far each column is beyond its range, in its unit."""
        return self._beyond(place)

    def _beyond(self, place: Place) -> Tensor:
        below = (self.low - place.rows) / self.unit[0]
        above = (place.rows - self.high) / self.unit[1]
        return torch.maximum(below, above).clamp(min=0.0)

    def explain(self, place: Place, say: Say, column: int) -> str:
        """Say which column, and what the training values were."""
        value, low, high = (
            float(each) for each in (place.rows[0, column], self.low[column], self.high[column])
        )
        said = say(column, value)
        if low == high:
            return f"{said}, where every training value is {plainly(low)}"
        side = "below" if value < low else "above"
        beyond = plainly(max(low - value, value - high))
        return (
            f"{said} is {side} every training value ({plainly(low)} to {plainly(high)}), "
            f"by {beyond}"
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
        outer = widest + float(self.threshold + self.width) * self.unit[:, places].amax(dim=0)
        return float(outer.norm()) * (1 + 1e-9)


def _excess(rows: Floats) -> Floats:
    """How far values in the upper tail are beyond its beginning, on average, ``(columns,)``."""
    begin = np.quantile(rows, TAIL, axis=0)
    beyond = np.maximum(rows - begin, 0.0)
    found: Floats = beyond.sum(axis=0) / np.maximum((beyond > 0).sum(axis=0), 1)
    return found
