"""The smallest changes of columns in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from farfield.estimate import value_of
from farfield.report.content.words import NEVER, UNKNOWN, number, share, shorten, visible

if TYPE_CHECKING:
    from farfield.audit.fields.flips import Flip, Middle
    from farfield.audit.record import Audit


@dataclass(frozen=True)
class FlipRow:
    """One column of the table.

    Attributes:
        name: Its name.
        unit: Its unit.
        sentence: How little changes the class of half of the rows.
        half: The same as a number, with its interval.
        within: Share that one standard deviation suffices for.
        ever: Share that anything suffices for.
        sure: What makes half of the rows sure.
        keys: Numbers to sort by: ``half``, ``within``, ``ever``, ``sure``.
    """

    name: str
    unit: str
    sentence: str
    half: str
    within: str
    ever: str
    sure: str
    keys: dict[str, float]


def flip_rows(audit: Audit, most: int) -> list[FlipRow]:
    """The columns that need least, first."""
    return [_row(flip) for flip in audit.flips[:most]]


def _row(flip: Flip) -> FlipRow:
    named = {
        "half": flip.half.value,
        "within": value_of(flip.within),
        "ever": value_of(flip.ever),
        "sure": flip.sure.value,
    }
    return FlipRow(
        name=flip.column,
        unit=flip.unit,
        sentence=sentence(flip),
        half=_size(flip.half, flip),
        within=share(flip.within),
        ever=share(flip.ever),
        sure=_size(flip.sure, flip),
        keys={name: value for name, value in named.items() if not math.isnan(value)},
    )


def sentence(flip: Flip) -> str:
    """Such as *half of the rows change class if lactate moves by 0.4 mmol/l*."""
    name = shorten(visible(flip.column), 60)
    if flip.kind == "categorical":
        return f"{share(flip.ever)} of the rows change class with another value of {name}"
    half = flip.half.value
    if math.isinf(half):
        return f"most rows keep their class wherever {name} goes"
    unit = f" {shorten(visible(flip.unit), 24)}" if flip.unit else ""
    least = "" if flip.exact else " or less"
    return f"half of the rows change class if {name} moves by {number(half)}{unit}{least}"


def _size(found: Middle, flip: Flip) -> str:
    """A change with its interval; one that was only seen is at most that."""
    if math.isnan(found.value):
        return "\N{EN DASH}" if flip.kind == "categorical" else UNKNOWN
    if math.isinf(found.value):
        return NEVER
    text = f"{'' if flip.exact else 'at most '}{number(found.value)}"
    if found.low < found.high:
        return f"{text} ({number(found.low)} to {number(found.high)})"
    return text
