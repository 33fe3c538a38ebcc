"""What errors of data entry do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from farfield.audit.fields.kinds import Share


@dataclass(frozen=True)
class Mistake:
    """One error of data entry in one column; shares are of the rows that it changes.

    They are exact if it was made in all rows of the data, and carry an interval if in some.

    Attributes:
        column: Name of the column.
        error: What was entered instead.
        rows: How many rows it changes.
        flips: Share whose predicted class changes.
        rises: Share of which the model is surer than before.
        certain: Share that ends at the threshold's confidence or more.
        silent: Share whose class changes while none of the model's own scores notices.
        slips: Share of which the range check and the guard, if there is one, notice nothing either.
        noticed: What might notice it (a score, ``range``, ``guard``) to the share that it does, at
            ``alarms`` false alarms.
        spoils: Share that was right before and is wrong after; ``None`` without labels.
        example: The row with the worst change, in words; nothing if no class changes.
    """

    column: str
    error: str
    rows: int
    flips: Share
    rises: Share
    certain: Share
    silent: Share
    slips: Share
    noticed: Mapping[str, Share]
    spoils: Share | None = None
    example: str = ""


@dataclass(frozen=True)
class EntryErrors:
    """What errors of data entry do to the model's answers.

    Attributes:
        sampled: How many rows they were made in.
        columns: How many columns were looked at; those that move the model most, if not all.
        alarms: The share of correct rows that every score, the range check and the guard may take
            for wrong.
        mistakes: All of them, worst first.
        of: How many rows the data has.
        worst: The worst rows in words: the surest wrong answers, unnoticed ones first.
        refused: Columns of categories whose unknown values the model cannot be asked about: it
            answers known ones only.
        swaps: How many pairs of columns were swapped, and how many there are.
    """

    sampled: int
    columns: int
    alarms: float
    mistakes: tuple[Mistake, ...]
    of: int = 0
    worst: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    swaps: tuple[int, int] = (0, 0)

    @property
    def exact(self) -> bool:
        """Whether they were made in all rows."""
        return self.sampled == self.of

    def __str__(self) -> str:
        from farfield.report.text import format_entry_errors

        return format_entry_errors(self)
