"""How much of a model has a part in its limits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FarDepth:
    """Weights whose change leaves the limits of a model as they are.

    Attributes:
        rays: How many rays were followed, from rows of the data.
        weights: How many numbers the model has.
        idle: How many of them have no part in what it says at the ends of these rays.
    """

    rays: int
    weights: int
    idle: int
