"""Errors of data entry: every one that fits a column, made in rows of the data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.audit.case import Case, Progress
from farfield.audit.fields.entry import EntryErrors, Mistake
from farfield.audit.fields.kinds import Share
from farfield.audit.opened import opened
from farfield.audit.rows import in_order
from farfield.audit.settings import EngineName, EntryRows, Settings
from farfield.audit.subject import Floats, Subject
from farfield.data import TableColumn
from farfield.errors import InputError
from farfield.estimate import Estimate, clopper_pearson, value_of
from farfield.evaluate.alarms import ALARMS, Alarms
from farfield.evaluate.entry_errors import (
    ErrorCount,
    ErrorMaker,
    Worst,
    count_chunk,
    fills_of,
    plan_errors,
    rows_together,
    total,
)
from farfield.evaluate.entry_kinds import SWAP
from farfield.evaluate.swaps import swaps

Chunk = tuple[int, Floats, Any]
# Correct rows that alarms are set by.
REFERENCE = 20_000
# What errors may cost by default: products of numbers that take about a second, and what a row
# costs besides; of models that can only be asked, seconds.
WORK, PER_ROW, SECONDS = 2e9, 4000.0, 5.0
# The rows that gives at least and at most, and for models that can only be asked.
FEWEST, MOST, ASKED = 50, 2000, 200
# How many rows are told in words, and of one column.
TOLD, TOLD_OF_ONE = 10, 2
# Rows of an unknown number.
UNKNOWN = -1


def entry_errors(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    rows: EntryRows = "all",
    guard: bool = False,
    threshold: float = Settings.threshold,
    engine: EngineName = Settings.engine,
    random_state: int = Settings.seed,
    progress: Progress | None = None,
    **reading: Any,
) -> EntryErrors:
    """Make every error of data entry that fits a column in rows of the data.

    Digits too many or too few, a lost sign or decimal point, another unit, codes for *missing*, two
    fields swapped, an unknown category. Rows come in chunks: memory does not grow with them.

    Args:
        model: Whatever :func:`farfield.audit` takes; it is only asked, never followed.
        X: The data that the model was trained on: an array, a DataFrame, or a path.
        y: Labels, if ``X`` does not hold them; or the name of the column of ``X`` that does.
        rows: Rows to make errors in: ``"all"``, a number, or ``None`` for as many as take about a
            second. Shares of all rows are exact, those of some carry an interval.
        guard: Whether to fit a guard, and count what it would have noticed.
        threshold: The confidence that counts as certain.
        engine: ``"local"``, or ``"ray"`` to spread chunks of rows over a Ray cluster.
        random_state: Seed of the samples.
        progress: Called with the name of a stage and the share of it that is done.
        **reading: How model and data are read, as for :func:`farfield.audit`.

    Returns:
        All errors, worst first, and the worst rows in words.

    Raises:
        InputError: For regressors and images.

    >>> import numpy as np
    >>> import farfield as ff
    >>> def tall(rows):
    ...     return np.where(np.asarray(rows)[:, :1] > 300, [[0.01, 0.99]], [[0.99, 0.01]])
    >>> X = np.linspace(150.0, 199.5, 100)[:, None]
    >>> found = ff.entry_errors(tall, X, features=["height_cm"])
    >>> worst = found.mistakes[0]
    >>> worst.column, worst.error, worst.flips, worst.noticed["range"]
    ('height_cm', 'times 10', 1.0, 1.0)
    >>> found.worst[0]
    'height_cm 150 entered as 1500 in row 1: 0 (99.0%) becomes 1 (99.0%)'
    """
    settings = Settings(
        threshold,
        samples=REFERENCE,
        engine=engine,
        seed=int(random_state),
        entry_rows=rows,
    )
    with opened(model, X, y, settings, guard=guard, progress=progress, **reading) as case:
        if not (case.classifies and case.is_table):
            raise InputError(
                "errors of data entry are made in tables, and counted by the classes that change; "
                f"got {'a regressor' if case.is_table else 'images'}"
            )
        return make_errors(case, case.subject.moving, numbered=True)


def make_errors(case: Case, columns: Sequence[TableColumn], *, numbered: bool) -> EntryErrors:
    """Make every error in some columns of a case, in as many rows as its settings say.

    Args:
        case: The case.
        columns: To make errors in.
        numbered: Whether the worst rows are told by their numbers, if all rows are looked at.
    """
    advance, subject, source = case.stage("entry errors"), case.subject, case.source
    refused = [each.name for each in columns if each.name in case.loaded.refusing]
    asked = [each for each in columns if each.name not in case.loaded.refusing]
    swapped = swaps(asked, subject.rows, subject.moving)
    fills = fills_of(subject.moving, subject.rows.shape[1])
    plan = plan_errors(asked, subject.rows, fills, swapped)
    maker = ErrorMaker(subject.model, plan, fills, _watch(case), case.settings.threshold)
    count = _rows_wanted(case, maker.changes)
    chunks = _chunks(case, count, numbered)
    parts = in_order(case.settings.engine, count_chunk, maker, chunks)
    found = total(_told(parts, advance, count, subject))
    exact = count == source.n_rows
    mistakes = [_mistake(each, subject, exact) for each in found]
    mistakes.sort(key=_worst_first)
    return EntryErrors(
        count,
        len(columns),
        ALARMS,
        tuple(mistakes),
        source.n_rows,
        _worst_rows(found, subject),
        tuple(refused),
        (swapped.tried, swapped.possible),
    )


def _watch(case: Case) -> Alarms:
    """Set every alarm by correct rows; that of the guard by those it was not made from."""
    subject = case.subject
    if not case.has_guard:
        return Alarms.over(subject.model, subject.rows, subject.moving)
    guard, apart = case.protection
    return Alarms.over(
        subject.model, subject.rows, subject.moving, guard.distance, subject.rows[apart]
    )


def _rows_wanted(case: Case, changes: int) -> int:
    """How many rows to make errors in."""
    wanted, every = case.settings.entry_rows, case.source.n_rows
    if wanted == "all":
        return every
    return min(every, _affordable(case.subject, changes) if wanted is None else wanted)


def _affordable(subject: Subject, changes: int) -> int:
    """How many rows of the sample can be changed in so many ways without a long wait."""
    most = min(MOST, len(subject.rows))
    if subject.exact:
        rows = WORK / (max(1, changes) * (subject.work + PER_ROW))
        return min(most, max(FEWEST, int(rows)))
    return min(most, ASKED, max(FEWEST, int(SECONDS / (max(1, changes) * _seconds(subject)))))


def _seconds(subject: Subject) -> float:
    """How long a model takes for one row of many."""
    rows = subject.spread(ASKED)
    started = time.perf_counter()
    subject.model.probabilities(rows)
    return (time.perf_counter() - started) / len(rows) + 1e-9


def _chunks(case: Case, count: int, numbered: bool) -> Iterator[Chunk]:
    """Rows to make errors in: number of the first, rows, labels; negative numbers are unknown."""
    subject, source = case.subject, case.source
    size = rows_together(subject.centre.size)
    if count == source.n_rows:
        first = 0 if numbered else UNKNOWN * count
        for rows, labels in source.chunks(size, dtype=np.float64):
            yield first, rows, labels
            first += len(rows)
        return
    rows, labels = _some(case, count)
    for first in range(0, count, size):
        part = slice(first, min(count, first + size))
        yield UNKNOWN * count, rows[part], None if labels is None else labels[part]


def _some(case: Case, count: int) -> tuple[Floats, NDArray[Any] | None]:
    """A sample: rows that are in memory, if they are enough."""
    subject = case.subject
    if count <= len(subject.rows):
        labels = subject.labels
        return subject.rows[:count], None if labels is None else labels[:count]
    found = case.source.sample(count, random_state=case.settings.seed)
    return np.asarray(found.X, dtype=np.float64), found.y


def _told(
    parts: Iterator[list[ErrorCount]],
    advance: Callable[[float], None],
    count: int,
    subject: Subject,
) -> Iterator[list[ErrorCount]]:
    size = rows_together(subject.centre.size)
    for index, part in enumerate(parts):
        yield part
        advance(min(1.0, (index + 1) * size / count))


def _mistake(found: ErrorCount, subject: Subject, exact: bool) -> Mistake:
    """Counts as shares, exact or with intervals."""

    def share(count: int) -> Share:
        return count / found.rows if exact else clopper_pearson(count, found.rows)

    return Mistake(
        column=found.column,
        error=found.error,
        rows=found.rows,
        flips=share(found.flips),
        rises=share(found.rises),
        certain=share(found.certain),
        silent=share(found.silent),
        slips=share(found.slips),
        noticed={name: share(count) for name, count in found.noticed.items()},
        spoils=None if found.spoils is None else share(found.spoils),
        example=_in_words(found, found.worst, subject),
    )


def _worst_first(mistake: Mistake) -> tuple[float, ...]:
    silent = mistake.silent
    surely = silent.low if isinstance(silent, Estimate) else silent
    return -surely, -value_of(silent), -value_of(mistake.flips)


def _worst_rows(found: Sequence[ErrorCount], subject: Subject) -> tuple[str, ...]:
    """The surest wrong answers, unnoticed ones first, few of any one column and one of a row."""
    some = [(each, each.worst) for each in found if each.worst is not None]
    some.sort(key=lambda pair: pair[1].rank, reverse=True)
    told: list[str] = []
    columns: dict[str, int] = {}
    rows: set[tuple[float, ...]] = set()
    for each, worst in some:
        key = (worst.row, *worst.entered[:1], *worst.confidence[:1])
        if columns.get(each.column, 0) < TOLD_OF_ONE and key not in rows and len(told) < TOLD:
            columns[each.column] = columns.get(each.column, 0) + 1
            rows.add(key)
            told.append(_in_words(each, worst, subject))
    return tuple(told)


def _in_words(found: ErrorCount, worst: Worst | None, subject: Subject) -> str:
    """One row, such as *lactate 1.2 entered as 12: survived (98.0%) becomes died (99.9%)*."""
    if worst is None:
        return ""
    was, now = (
        f"{subject.classes[label]} ({sure:.1%})"
        for label, sure in zip(worst.label, worst.confidence, strict=True)
    )
    where = f" in row {worst.row + 1:,}" if worst.row >= 0 else ""
    if not worst.entered:
        return f"{found.column} unknown{where}: {was} becomes {now}"
    right, wrong = worst.entered
    if found.error.startswith(SWAP):
        return f"{found.column} {right:.6g} {found.error} {wrong:.6g}{where}: {was} becomes {now}"
    return f"{found.column} {right:.6g} entered as {wrong:.6g}{where}: {was} becomes {now}"
