"""From a promise to the guard's unit h, and back.

Differences of guarded logits at distance ``delta`` from the covered set are at most
``(offset + slope delta) / (1 + (delta / h)^2)``. If ``h <= delta`` that only falls with delta: its
derivative has the sign of ``slope (h^2 - delta^2) - 2 offset delta``. So a promise about everything
beyond a distance is an inequality at that distance alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from farfield.errors import InputError
from farfield.exact.bounded import SLACK
from farfield.guard.growth.bound import Growth

# The guard's own arithmetic is float64: relative errors of T beyond that of the distance.
TEMPERATURE_SLACK = 1e-12


def tolerance(classes: int, epsilon: float) -> float:
    """How far apart logits may be if no class is to exceed ``1 / K + epsilon``.

    The largest class has ``1 / (1 + sum_j exp(z_j - z_i)) <= 1 / (1 + (K - 1) exp(-tau))``.

    >>> round(tolerance(2, 0.01), 6), round(tolerance(10, 0.01), 6)
    (0.040005, 0.106483)
    """
    if not (isinstance(epsilon, float | int) and 0 < epsilon < 1 - 1 / classes):
        raise InputError(
            f"epsilon must lie between 0 and {1 - 1 / classes:.4g} for {classes} classes (no class "
            f"is to exceed 1/{classes} + epsilon), got {epsilon!r}"
        )
    most = 1 / classes + epsilon
    return math.log((classes - 1) * most / (1 - most))


def largest_probability(classes: int, apart: float) -> float:
    """The largest probability that logits at most ``apart`` apart can give."""
    return 1.0 / (1.0 + (classes - 1) * math.exp(-apart))


@dataclass(frozen=True)
class Line:
    """Differences of logits at distance ``delta`` from the covered set: ``offset + slope delta``.

    Attributes:
        offset: On the covered set.
        slope: For each whitened unit beyond it.
    """

    offset: float
    slope: float

    def at(self, distance: float) -> float:
        """The bound at a distance."""
        return self.offset + self.slope * distance

    def guarded(self, distance: float, unit: float) -> float:
        """The bound after division by the temperature."""
        temperature = 1 + (distance / unit) ** 2
        return self.at(distance) / temperature * (1 + TEMPERATURE_SLACK)

    def unit(self, distance: float, apart: float) -> float:
        """The largest h up to ``distance`` that keeps ``guarded`` below ``apart`` from there on.

        >>> line = Line(1.0, 2.0)
        >>> h = line.unit(10.0, 0.04)
        >>> line.guarded(10.0, h) <= 0.04 < line.guarded(10.0, 1.001 * h)
        True
        """
        needed = self.at(distance) / apart * (1 + 1e-9)
        return distance / math.sqrt(max(needed - 1, 1.0)) * (1 - 1e-9)


def with_rounding(line: Line, growth: Growth, reach: float, roundoff: float) -> Line:
    """Add what floating point can add: in the model, and in the guard's division.

    Args:
        line: The bound in real arithmetic.
        growth: Errors of evaluation.
        reach: Radius of the covered set: ``|u| <= reach + delta``.
        roundoff: Unit roundoff of the type in which logits are returned.
    """
    # The guard subtracts, rounds T and divides: three roundings, each relative to the difference.
    room = (1 + 8 * roundoff) * SLACK
    offset = line.offset + growth.error_offset + growth.error_slope * reach
    return Line(offset * room, (line.slope + growth.error_slope) * room)


def distance_slack(columns: int, condition: float, reach: float, distance: float) -> float:
    """By which share a computed distance of at least ``distance`` can be too small.

    ``W (x - mean)`` loses at most the condition number of W, and so does the difference from a
    prototype, relative to the lengths of both.
    """
    n = columns + 16
    gamma = n * 2.0**-53
    widest = (2 * reach + distance) / distance
    return 8 * gamma * math.sqrt(columns) * condition * widest
