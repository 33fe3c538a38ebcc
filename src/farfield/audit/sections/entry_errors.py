"""What errors of data entry do: every error in every column, on rows of the data.

Each row is changed in one field (or in two, if they are swapped) and the model is asked again. An
error is *silent* in a row if the predicted class changes and no score of the model is above what 1%
of the correct rows reach. It *slips* through if besides no value is outside of its column's range,
and the guard, if there is one, takes the row for one like its data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.audit.case import Case
from farfield.audit.entry_errors import EntryError, errors_of, neighbours
from farfield.audit.fields import EntryErrors, Mistake
from farfield.audit.subject import Floats
from farfield.data import TableColumn
from farfield.estimate import clopper_pearson
from farfield.graph.spread import is_behind_codes
from farfield.scores import all_scores

Flags = NDArray[np.bool_]
# Rows that errors are made in, and columns: those that move the model most.
ROWS, COLUMNS = 200, 40
# Rows that thresholds are taken from, and the share of them that may give an alarm.
REFERENCE, ALARMS = 2000, 0.01
# Scores that are all the same for a single network.
SINGLE = ("one_minus_max_probability", "predictive_entropy")


def compute(case: Case) -> dict[str, Any]:
    """Make every error in every column that matters, and count what happens."""
    advance, subject = case.stage("entry errors"), case.subject
    columns = _columns(case)
    if not columns:
        return {}
    maker = _Maker.of(case)
    following = neighbours(subject.moving)
    found: list[Mistake] = []
    for index, column in enumerate(columns):
        found.extend(maker.mistakes(column, following.get(column.name)))
        advance((index + 1) / len(columns))
    found.sort(key=lambda each: (-each.silent.low, -each.silent.value, -each.flips.value))
    made = EntryErrors(len(maker.rows), len(columns), ALARMS, tuple(found))
    return {"entry_errors": made}


def _columns(case: Case) -> list[TableColumn]:
    """Those that move the model most, and the categories that the model takes as one-hot codes.

    A model of raw columns is asked through codes that cannot say that a category is unknown.
    """
    subject = case.subject
    coded = subject.exact and not is_behind_codes(subject.network)
    categories = [each for each in subject.moving if each.categorical and coded]
    return (case.telling + categories)[:COLUMNS]


@dataclass(frozen=True, eq=False)
class _Answers:
    """What the model says of some rows.

    Attributes:
        label: ``(rows,)``; -1 where it gives no number.
        confidence: ``(rows,)``.
        scores: Name of a score to ``(rows,)``.
    """

    label: NDArray[np.int64]
    confidence: Floats
    scores: dict[str, Floats]


@dataclass(frozen=True, eq=False)
class _Maker:
    """Makes errors in rows of a case.

    Attributes:
        case: The case.
        rows: ``(rows, inputs)`` correct rows.
        before: What the model says of these.
        limits: Name of a score to what at most :data:`ALARMS` of the correct rows exceed.
    """

    case: Case
    rows: Floats
    before: _Answers
    limits: dict[str, float]

    @classmethod
    def of(cls, case: Case) -> _Maker:
        """Take correct rows, and thresholds of scores from more of them."""
        reference = _ask(case, case.subject.spread(REFERENCE)).scores
        limits = {
            name: float(np.quantile(values, 1 - ALARMS, method="higher"))
            for name, values in reference.items()
        }
        rows = case.subject.spread(ROWS)
        return cls(case, rows, _ask(case, rows), limits)

    def mistakes(self, column: TableColumn, neighbour: TableColumn | None) -> Iterator[Mistake]:
        """All errors of one column, asked together."""
        made: list[tuple[EntryError, Floats, Flags]] = []
        for error in errors_of(column, self.rows[:, list(column.places)], neighbour):
            wrong = self._wrong(error)
            changed = (wrong != self.rows).any(axis=1)
            if changed.any():
                made.append((error, wrong[changed], changed))
        if not made:
            return
        rows = np.concatenate([wrong for _, wrong, _ in made])
        after, alarms = _ask(self.case, rows), self._alarms(rows)
        start = 0
        for error, wrong, changed in made:
            part = slice(start, start + len(wrong))
            start += len(wrong)
            yield self._mistake(column, error, changed, after, alarms, part)

    def _wrong(self, error: EntryError) -> Floats:
        places = list(error.places)
        wrong = self.rows.copy()
        with np.errstate(over="ignore"):
            wrong[:, places] = error.wrong(self.rows[:, places])
        return wrong

    def _alarms(self, rows: Floats) -> dict[str, Flags]:
        """What notices that rows are strange without asking the model."""
        subject = self.case.subject
        outside = (rows < subject.low) | (rows > subject.high)
        # The inputs of a category: a code that no value has.
        for column in subject.moving:
            if column.categorical:
                block = list(column.places)
                outside[:, block[0]] |= rows[:, block].sum(axis=1) != 1
        found: dict[str, Flags] = {"range": np.asarray(outside.any(axis=1))}
        if self.case.wants_guard or self.case.given_guard is not None:
            found["guard"] = ~np.asarray(self.case.protection[0].is_inside(rows), dtype=bool)
        return found

    def _mistake(
        self,
        column: TableColumn,
        error: EntryError,
        changed: Flags,
        after: _Answers,
        alarms: dict[str, Flags],
        part: slice,
    ) -> Mistake:
        label, confidence = after.label[part], after.confidence[part]
        flips = (label != self.before.label[changed]) & (label >= 0)
        scored = {
            name: (values[part] > self.limits[name]) | (label < 0)
            for name, values in after.scores.items()
        }
        noticed = scored | {name: flags[part] for name, flags in alarms.items()}
        silent = flips & ~np.any(list(scored.values()), axis=0)
        slips = flips & ~np.any(list(noticed.values()), axis=0)

        def share(flags: Flags) -> Any:
            return clopper_pearson(int(flags.sum()), len(flags))

        return Mistake(
            column=column.name,
            error=error.name,
            rows=len(label),
            flips=share(flips),
            rises=share(confidence > self.before.confidence[changed]),
            certain=share(confidence >= self.case.settings.threshold),
            silent=share(silent),
            slips=share(slips),
            noticed={name: share(flags) for name, flags in noticed.items()},
            example=self._example(
                column, error, changed, label, confidence, slips if slips.any() else flips
            ),
        )

    def _example(
        self,
        column: TableColumn,
        error: EntryError,
        changed: Flags,
        label: NDArray[np.int64],
        confidence: Floats,
        chosen: Flags,
    ) -> str:
        """The surest wrong answer, unnoticed if there is such a one."""
        if not chosen.any():
            return ""
        worst = int(np.argmax(np.where(chosen, confidence, -1.0)))
        row = int(np.flatnonzero(changed)[worst])
        classes, place = self.case.subject.classes, column.places[0]
        was = f"{classes[self.before.label[row]]} ({self.before.confidence[row]:.1%})"
        now = f"{classes[label[worst]]} ({confidence[worst]:.1%})"
        if column.categorical:
            return f"{column.name} unknown: {was} becomes {now}"
        wrong = float(self._wrong(error)[row, place])
        return (
            f"{column.name} {self.rows[row, place]:.6g} entered as {wrong:.6g}: {was} becomes {now}"
        )


def _ask(case: Case, rows: Floats) -> _Answers:
    """What the model says, some rows at a time."""
    labels, sure, scores = [], [], []
    for first in range(0, len(rows), REFERENCE):
        p = case.subject.model.probabilities(rows[first : first + REFERENCE])
        known = torch.isfinite(p).all(dim=-1).all(dim=0)
        p = torch.where(known[None, :, None], p, 1 / p.shape[-1]).double()
        mean = p.mean(dim=0)
        labels.append(torch.where(known, mean.argmax(dim=-1), -1).numpy())
        sure.append(torch.where(known, mean.amax(dim=-1), 0.0).numpy())
        every = all_scores(p.numpy())
        names = SINGLE if len(p) == 1 else tuple(every)
        scores.append({name: np.asarray(every[name]) for name in names})
    return _Answers(
        np.concatenate(labels),
        np.concatenate(sure),
        {name: np.concatenate([part[name] for part in scores]) for name in scores[0]},
    )
