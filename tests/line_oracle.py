"""A slow referee for whole rays in rational arithmetic; it shares no code with the package.

It stands at one ``t``, evaluates the network in numbers that know their value there and their slope
just behind, asks every decision when it would change next, and jumps to the earliest of these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from torch import nn

from oracles import interpret


@dataclass(frozen=True)
class After:
    """A function just behind a place: its value there, and its slope from there on."""

    value: Fraction
    slope: Fraction

    def __add__(self, other: Any) -> After:
        other = _after(other)
        return After(self.value + other.value, self.slope + other.slope)

    __radd__ = __add__

    def __mul__(self, factor: Fraction) -> After:
        return After(self.value * factor, self.slope * factor)

    __rmul__ = __mul__

    def __gt__(self, other: Any) -> bool:
        other = _after(other)
        return (self.value, self.slope) > (other.value, other.slope)


def _after(number: Any) -> After:
    return number if isinstance(number, After) else After(Fraction(number), Fraction(0))


@dataclass
class Watch:
    """Notes how far away the next change of a decision is."""

    step: Fraction | None = None
    outcomes: list[int] = field(default_factory=list)

    def above(self, value: After, limit: Any) -> bool:
        gap = value + _after(limit) * Fraction(-1)
        if gap.slope != 0:
            step = -gap.value / gap.slope
            if step > 0 and (self.step is None or step < self.step):
                self.step = step
        outcome = value > limit
        self.outcomes.append(int(outcome))
        return outcome


@dataclass(frozen=True)
class ExactLine:
    """Breakpoints, logits there, and the slopes of all pieces."""

    breakpoints: list[Fraction]
    logits: list[list[Fraction]]
    slopes: list[list[Fraction]]


def exact_line(
    module: nn.Module, origin: list[float], direction: list[float], stop: Fraction | None = None
) -> ExactLine:
    """Walk along a ray from decision to decision."""
    t, found = Fraction(0), ExactLine([], [], [])
    while True:
        seen = Watch()
        here = [
            After(Fraction(o) + t * Fraction(d), Fraction(d))
            for o, d in zip(origin, direction, strict=True)
        ]
        out = interpret(module, here, seen)  # type: ignore[arg-type]
        if t > 0:
            found.breakpoints.append(t)
            found.logits.append([number.value for number in out])
        found.slopes.append([number.slope for number in out])
        if seen.step is None or (stop is not None and t + seen.step >= stop):
            return found
        t += seen.step
