"""Results as text for a terminal."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

COMPASS = ("right", "up right", "up", "up left", "left", "down left", "down", "down right")


class Compass(Protocol):
    """A far field in directions all around a point of the plane."""

    @property
    def limit(self) -> NDArray[np.float64]:
        """Confidence at infinity."""

    @property
    def label(self) -> NDArray[np.int64]:
        """Class at infinity."""

    @property
    def reach(self) -> NDArray[np.float64]:
        """Where the last unit settles."""

    @property
    def settled(self) -> NDArray[np.float64]:
        """From where on no instance's winner falls below 99.9%."""


def compass_table(result: Compass) -> str:
    """Write eight directions of a far field as a table."""
    rows = [("direction", "class", "confidence", "last unit settles", "99.9% sure from")]
    step = len(result.limit) // len(COMPASS)
    for index, name in enumerate(COMPASS):
        at = index * step
        rows.append(
            (
                name,
                str(result.label[at]),
                f"{result.limit[at]:.4f}",
                _distance(result.reach[at]),
                _distance(result.settled[at]),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )


def _distance(value: float) -> str:
    return "never" if math.isinf(value) else f"{value:.1f}"
