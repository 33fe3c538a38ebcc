"""What errors of data entry do to a classifier's answers, counted over any number of rows.

Every row is changed in one field (or in two, if they are swapped) and the model is asked again. An
error is *silent* in a row if the predicted class changes and no score of the model gives an alarm.
It *slips* through if besides neither a range check nor the guard, if there is one, gives one. All
of them give an alarm in the same share of correct rows. Nothing here grows with the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from farfield.evaluate.alarms import Alarms, Answering, Answers, Flags, Floats, answers, ask_parts
from farfield.evaluate.entry_kinds import EntryError, errors_of
from farfield.evaluate.swaps import Swaps

if TYPE_CHECKING:
    from farfield.data import TableColumn

# How many numbers the rows of one question may hold.
QUESTION = 4_000_000
# About as many errors fit a column.
ERRORS = 20


@dataclass(frozen=True, eq=False)
class Worst:
    """The surest wrong answer that an error leads to.

    Attributes:
        slips: Whether nothing notices it.
        row: Which row it is.
        entered: The value that should be there, and the one that is; empty for categories.
        label: The class before and after.
        confidence: The same.
    """

    slips: bool
    row: int
    entered: tuple[float, ...]
    label: tuple[int, int]
    confidence: tuple[float, float]

    @property
    def rank(self) -> tuple[bool, float]:
        """How bad it is."""
        return self.slips, self.confidence[1]


@dataclass(eq=False)
class ErrorCount:
    """How often one error of one column did what.

    Attributes:
        column: Name of the column.
        error: Name of the error.
        rows: Rows that it changes; all others are counts of these.
        flips: Class changes.
        spoils: Right before, and wrong after; ``None`` without labels.
        rises: Surer than before.
        certain: At the threshold or above.
        silent: Class changes without an alarm of any score.
        slips: Class changes without any alarm.
        noticed: Alarms by what gives them.
        worst: The surest wrong answer.
    """

    column: str
    error: str
    rows: int = 0
    flips: int = 0
    spoils: int | None = None
    rises: int = 0
    certain: int = 0
    silent: int = 0
    slips: int = 0
    noticed: dict[str, int] = field(default_factory=dict)
    worst: Worst | None = None

    def add(self, other: ErrorCount) -> None:
        """Take in what was counted in further rows."""
        for name in ("rows", "flips", "rises", "certain", "silent", "slips"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.spoils is not None:
            self.spoils = (self.spoils or 0) + other.spoils
        for name, count in other.noticed.items():
            self.noticed[name] = self.noticed.get(name, 0) + count
        found = [each for each in (self.worst, other.worst) if each is not None]
        self.worst = max(found, key=lambda each: each.rank, default=None)


@dataclass(frozen=True, eq=False)
class ErrorMaker:
    """Makes every error in rows, and counts what happens.

    Attributes:
        model: The model.
        plan: Columns with the errors that fit them.
        fills: ``(inputs,)`` what stands where nothing was entered, where errors change nothing;
            NaN where something always was.
        watch: What might notice them.
        threshold: The confidence that counts as certain.
    """

    model: Answering
    plan: tuple[tuple[TableColumn, tuple[EntryError, ...]], ...]
    fills: Floats
    watch: Alarms
    threshold: float

    @property
    def changes(self) -> int:
        """How many questions are asked about every row."""
        return sum(len(errors) for _, errors in self.plan)

    def count(self, rows: Floats, labels: Any = None, first: int = 0) -> list[ErrorCount]:
        """Count over rows, of which the first is number ``first``."""
        made = _Rows.of(self, rows, labels, first)
        return [each for column, errors in self.plan for each in made.counted(column, errors)]


def fills_of(columns: Iterable[TableColumn], width: int) -> Floats:
    """What missing numbers became, ``(width,)``; NaN where none are missing."""
    fills = np.full(width, np.nan)
    for each in columns:
        if each.missing and isinstance(each.fill, int | float) and not each.categorical:
            fills[each.places[0]] = each.fill
    return fills


def _filled(own: Floats, fills: Floats) -> Flags:
    """Which values stand where nothing was entered; they may have been rounded since."""
    with np.errstate(over="ignore"):
        rounded = fills.astype(np.float32)
    return np.asarray((own == fills) | (own == rounded))


def plan_errors(
    columns: Iterable[TableColumn], rows: Floats, fills: Floats, swapped: Swaps
) -> tuple[tuple[TableColumn, tuple[EntryError, ...]], ...]:
    """Find the errors that fit columns, by what some rows hold.

    Args:
        columns: To make errors in.
        rows: Correct rows.
        fills: As of an :class:`ErrorMaker`.
        swapped: Which of them are swapped with which.
    """
    partners = swapped.partners

    def entered(column: TableColumn) -> Floats:
        own = rows[:, list(column.places)]
        some = own[~_filled(own, fills[list(column.places)]).any(axis=1)]
        return some if len(some) else own

    return tuple(
        (each, tuple(errors_of(each, entered(each), partners.get(each.name, ()))))
        for each in columns
    )


def rows_together(width: int) -> int:
    """How many rows of so many inputs are changed at a time."""
    return int(np.clip(QUESTION // (ERRORS * max(1, width)), 16, 16_384))


def count_chunk(maker: ErrorMaker, chunk: tuple[int, Floats, Any]) -> list[ErrorCount]:
    """Count over one chunk: the number of its first row, its rows and labels."""
    first, rows, labels = chunk
    return maker.count(np.asarray(rows, dtype=np.float64), labels, first)


def total(parts: Iterable[list[ErrorCount]]) -> list[ErrorCount]:
    """Add up the counts of chunks; errors that change no row are left out."""
    found: dict[tuple[str, str], ErrorCount] = {}
    for part in parts:
        for each in part:
            found.setdefault((each.column, each.error), ErrorCount(each.column, each.error)).add(
                each
            )
    return [each for each in found.values() if each.rows]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Correct rows with everything that stays the same whatever error is made in them."""

    maker: ErrorMaker
    rows: Floats
    labels: Any
    first: int
    before: Answers
    outside: Flags

    @classmethod
    def of(cls, maker: ErrorMaker, rows: Floats, labels: Any, first: int) -> _Rows:
        before = answers(maker.model, rows)
        return cls(maker, rows, labels, first, before, maker.watch.outside(rows))

    def counted(self, column: TableColumn, errors: Sequence[EntryError]) -> Iterator[ErrorCount]:
        """All errors of one column, asked together."""
        made = [(error, *self._made(error)) for error in errors]
        made = [each for each in made if each[2].any()]
        if not made:
            return
        wrong = np.concatenate([rows for _, rows, _ in made])
        parts, start = [], 0
        for _, rows, _ in made:
            parts.append(slice(start, start + len(rows)))
            start += len(rows)
        after = ask_parts(self.maker.model, wrong, parts)
        guard = self.maker.watch.guard
        far = None if guard is None else guard(wrong) > self.maker.watch.far
        for (error, rows, changed), part in zip(made, parts, strict=True):
            alarms = {"range": self._outside(error, rows, changed)}
            if far is not None:
                alarms["guard"] = far[part]
            yield self._count(column, error, changed, rows, after.part(part), alarms)

    def _made(self, error: EntryError) -> tuple[Floats, Flags]:
        """The rows that an error changes, with it; and which they are."""
        places = list(error.places)
        own = self.rows[:, places]
        with np.errstate(over="ignore"):
            wrong = error.wrong(own)
        changed = np.asarray((wrong != own).any(axis=1))
        changed &= ~_filled(own, self.maker.fills[places]).any(axis=1)
        rows = self.rows[changed]
        rows[:, places] = wrong[changed]
        return rows, changed

    def _outside(self, error: EntryError, rows: Floats, changed: Flags) -> Flags:
        """Whether the range check notices: only the changed fields are looked at again."""
        watch, places = self.maker.watch, list(error.places)
        elsewhere = self.outside[changed].copy()
        elsewhere[:, places] = False
        own = rows[:, places]
        beyond = (own < watch.low[places]) | (own > watch.high[places])
        if error.places in watch.blocks:
            beyond[:, 0] = own.sum(axis=1) != 1
        return np.asarray(elsewhere.any(axis=1) | beyond.any(axis=1))

    def _count(
        self,
        column: TableColumn,
        error: EntryError,
        changed: Flags,
        rows: Floats,
        after: Answers,
        alarms: dict[str, Flags],
    ) -> ErrorCount:
        answered = after.label >= 0
        was = self.before.label[changed]
        flips = (after.label != was) & answered
        limits = self.maker.watch.scores
        scored = {name: (s > limits[name]) | ~answered for name, s in after.scores.items()}
        noticed = scored | alarms
        silent = flips & ~np.any(list(scored.values()), axis=0)
        slips = silent & ~np.any(list(alarms.values()), axis=0)
        spoils = None
        if self.labels is not None:
            right = np.asarray(self.labels)[changed]
            spoils = int(((was == right) & (after.label != right) & answered).sum())
        return ErrorCount(
            column=column.name,
            error=error.name,
            rows=len(rows),
            flips=int(flips.sum()),
            spoils=spoils,
            rises=int((after.confidence > self.before.confidence[changed]).sum()),
            certain=int((after.confidence >= self.maker.threshold).sum()),
            silent=int(silent.sum()),
            slips=int(slips.sum()),
            noticed={name: int(flags.sum()) for name, flags in noticed.items()},
            worst=self._worst(column, changed, rows, after, flips, slips),
        )

    def _worst(
        self,
        column: TableColumn,
        changed: Flags,
        rows: Floats,
        after: Answers,
        flips: Flags,
        slips: Flags,
    ) -> Worst | None:
        """The surest wrong answer, unnoticed if there is such a one."""
        if not flips.any():
            return None
        chosen = slips if slips.any() else flips
        at = int(np.argmax(np.where(chosen, after.confidence, -1.0)))
        row, place = int(np.flatnonzero(changed)[at]), column.places[0]
        entered = (float(self.rows[row, place]), float(rows[at, place]))
        return Worst(
            slips=bool(slips.any()),
            row=self.first + row,
            entered=() if column.categorical else entered,
            label=(int(self.before.label[row]), int(after.label[at])),
            confidence=(float(self.before.confidence[row]), float(after.confidence[at])),
        )
