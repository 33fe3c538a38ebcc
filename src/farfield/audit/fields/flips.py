"""How little of one column changes the class."""

from __future__ import annotations

from dataclasses import dataclass

from farfield.audit.fields.kinds import Kind, Share


@dataclass(frozen=True)
class Middle:
    """What half of the rows do not exceed; infinite if most of them have no such number.

    Attributes:
        value: The median of the rows that were looked at.
        low: Lower end of its interval, which is the value itself if all rows were looked at.
        high: Upper end.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Flip:
    """How little of one column changes the class, over rows of the data.

    Attributes:
        column: Its name.
        unit: Its unit, or nothing.
        kind: What it is.
        rows: How many rows were looked at.
        ever: Share of the rows whose class changes with this column alone, whatever it is set to.
        within: Share whose class changes if it moves by one standard deviation or less; of a
            category the same as ``ever``.
        half: So much suffices for half of the rows, infinite if nothing does; of a category NaN.
        quantiles: The same for 5, 25, 50 and 75% of the rows looked at; empty for a category.
        sure: So much suffices for half of the rows to be 99.9% sure of a class.
        exact: Whether no smaller change does it in any of these rows; if not, the model was looked
            at in places.
    """

    column: str
    unit: str
    kind: Kind
    rows: int
    ever: Share
    within: Share
    half: Middle
    quantiles: tuple[float, ...]
    sure: Middle
    exact: bool
