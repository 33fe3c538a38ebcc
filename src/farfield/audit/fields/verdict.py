"""The answer in one number and one sentence."""

from __future__ import annotations

from dataclasses import dataclass

# The family of a verdict that a guard's proof gives.
BY_GUARD = "all, by the guard"


@dataclass(frozen=True)
class Verdict:
    """The answer in one number and one sentence.

    Attributes:
        passed: Whether every blind share is at most ``max_blind``; ``None`` if none was asked for.
        blind: The largest blind share over the families of directions.
        family: The family that has it.
        threshold: The confidence at infinity from which on a direction counts as blind.
        max_blind: The share that the user allows, if one was given.
        sentence: The verdict in words.
        seen_to: How far out the model was looked at, in standard deviations, if it could only be
            evaluated: then every number is what was *seen*. ``None`` if limits are exact.
    """

    passed: bool | None
    blind: float
    family: str
    threshold: float
    max_blind: float | None
    sentence: str
    seen_to: float | None = None
