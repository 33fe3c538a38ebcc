"""Where a model's own arithmetic gives out."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Lapse:
    """One ray on which the model's own arithmetic gives out.

    Attributes:
        ray: What ray it is.
        column: The feature that moves alone, if it is one.
        answer: Whether there is an answer at all; if not, it is NaN, infinite or no distribution.
        deviations: From how many standard deviations on, a power of ten.
        value: What the feature is there; NaN if more than one moves.
        got: The probability that the model gives to the class of the exact limit there; NaN if
            there is no answer, or no exact limit.
        limit: The exact limit of that probability.
    """

    ray: str
    column: str
    answer: bool
    deviations: float
    value: float
    got: float = math.nan
    limit: float = math.nan


@dataclass(frozen=True)
class Arithmetic:
    """The model itself, asked at powers of ten along rays, in the precision that it runs in.

    Attributes:
        precision: Of its inputs, such as ``float32``; empty if it is not known.
        rays: How many rays.
        outmost: The largest number of standard deviations at which it answered or failed.
        refused: From how many standard deviations on it raises an error; ``None`` if it never does.
        lapses: The rays on which it gives out, the soonest first.
    """

    precision: str
    rays: int
    outmost: float
    refused: float | None
    lapses: tuple[Lapse, ...] = ()
