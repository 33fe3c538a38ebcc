"""What if: typical rows, every telling column moved alone, out to infinity, the guard beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from farfield.audit.case import Case
from farfield.audit.fields.what_if import WhatIf, WhatIfColumn, WhatIfCurve, WhatIfRow
from farfield.audit.subject import Floats, Subject
from farfield.data import TableColumn

# Columns that can be moved: numbers that move the model most, and categories; values of one.
NUMBERS, CATEGORIES, OPTIONS = 10, 4, 20
# Classes that have a typical row, and the rows that it is made from at least.
CLASSES, FEWEST = 4, 5
# Places within the range of the data, and beyond it on either side, in standard deviations.
INSIDE = 25
BEYOND = tuple(float(10 ** (k / 2)) for k in range(-1, 9))


def compute(case: Case) -> dict[str, Any]:
    """Curves of a handful of rows along a handful of columns."""
    case.stage("what if")
    subject = case.subject
    discrete = [each for each in subject.moving if each.discrete and len(each.options) <= OPTIONS]
    chosen = [*case.telling[:NUMBERS], *discrete[:CATEGORIES]]
    if not chosen:
        return {}
    titles, rows = _rows(case)
    columns = [_column(subject, each, rows) for each in chosen]
    guard = case.protection[0] if case.has_guard else None
    asked = _Asked(subject, None if guard is None else guard.predict_proba)
    now = asked.of(rows)
    curves = [asked.along(rows, each, told) for each, told in zip(chosen, columns, strict=True)]
    made = [
        WhatIfRow(
            title,
            tuple(_own(row, each) for each in chosen),
            now.label[at],
            now.confidence[at],
            now.guarded[at] if now.guarded else None,
            tuple(along[at] for along in curves),
        )
        for at, (title, row) in enumerate(zip(titles, rows, strict=True))
    ]
    return {"what_if": WhatIf(tuple(columns), tuple(made))}


def _rows(case: Case) -> tuple[list[str], Floats]:
    """The median row, one of every class, and rows of the data if these may be shown."""
    subject = case.subject
    p = subject.model.probabilities(subject.rows).mean(dim=0)
    label, confidence = p.argmax(dim=-1).numpy(), p.amax(dim=-1).numpy()
    titles, rows = ["the median row"], [subject.centre]
    for index, name in enumerate(subject.classes[:CLASSES]):
        own = subject.rows[label == index]
        if len(own) >= FEWEST:
            titles.append(f"typical of {name}")
            rows.append(subject.typical(own))
    if case.settings.show_rows:
        titles.append("the row of the data that the model is least sure of")
        rows.append(subject.rows[int(np.argmin(confidence))])
    return titles, np.stack(rows)


def _own(row: Floats, column: TableColumn) -> float:
    """The value of a row; of a category the index of its option."""
    if column.categorical:
        return float(row[list(column.places)].argmax())
    own = float(row[column.places[0]])
    return float(round(own)) if column.binary else own


def _column(subject: Subject, column: TableColumn, rows: Floats) -> WhatIfColumn:
    """The places that a column is moved to."""
    if column.discrete:
        values = tuple(float(index) for index in range(len(column.options)))
        return WhatIfColumn(column.name, column.unit, values, column.options, 0.0, values[-1])
    place = column.places[0]
    low, high, sd = float(subject.low[place]), float(subject.high[place]), subject.scale[place]
    inside = np.linspace(low, high, INSIDE)
    out = sd * np.array(BEYOND)
    finite = np.concatenate([low - out, inside, high + out, rows[:, place]])
    kept = np.unique(np.clip(finite, column.low, column.high))
    ends = [end for end in (-np.inf, np.inf) if end in (column.low, column.high)]
    values = tuple(float(each) for each in np.unique([*kept, *ends]))
    return WhatIfColumn(column.name, column.unit, values, (), low, high)


class _Asked:
    """What the model, and the guard, say of rows."""

    def __init__(self, subject: Subject, guarded: Any) -> None:
        self.subject, self.guarded = subject, guarded

    def of(self, rows: Floats) -> WhatIfCurve:
        """Classes and confidences, one after the other."""
        p = self.subject.model.probabilities(rows).mean(dim=0)
        safe = () if self.guarded is None else self.guarded(rows).max(axis=1).tolist()
        return _curve(p.argmax(dim=-1).tolist(), p.amax(dim=-1).tolist(), safe)

    def along(self, rows: Floats, column: TableColumn, told: WhatIfColumn) -> list[WhatIfCurve]:
        """The curve of every row along one column."""
        finite = [value for value in told.values if np.isfinite(value)]
        moved = np.concatenate([_moved(rows, column, value)[:, None] for value in finite], axis=1)
        found = self.of(moved.reshape(-1, rows.shape[1]))
        down = self._end(rows, column, -1.0) if np.isneginf(told.values[0]) else None
        up = self._end(rows, column, 1.0) if np.isposinf(told.values[-1]) else None
        return [
            _joined(down, _part(found, at * len(finite), len(finite)), up, at)
            for at in range(len(rows))
        ]

    def _end(self, rows: Floats, column: TableColumn, sign: float) -> WhatIfCurve:
        """Infinitely far out, or as far as was looked; there the guard says that it cannot know."""
        directions = torch.zeros(rows.shape, dtype=torch.float64)
        directions[:, column.places[0]] = sign
        far = self.subject.far(rows, directions)
        known = 1 / len(self.subject.classes)
        safe = () if self.guarded is None else [known] * len(rows)
        return _curve(far.label.tolist(), far.confidence.tolist(), safe)


def _moved(rows: Floats, column: TableColumn, value: float) -> Floats:
    if column.discrete:
        return column.put(rows, int(value))
    moved = rows.copy()
    moved[:, column.places[0]] = value
    return moved


def _curve(label: list[int], confidence: list[float], guarded: Any) -> WhatIfCurve:
    rounded = tuple(round(each, 6) for each in confidence)
    return WhatIfCurve(tuple(label), rounded, tuple(round(float(each), 6) for each in guarded))


def _part(curve: WhatIfCurve, first: int, count: int) -> WhatIfCurve:
    part = slice(first, first + count)
    return WhatIfCurve(curve.label[part], curve.confidence[part], curve.guarded[part])


def _joined(
    down: WhatIfCurve | None, middle: WhatIfCurve, up: WhatIfCurve | None, at: int
) -> WhatIfCurve:
    ends = [None if each is None else _part(each, at, 1) for each in (down, up)]
    parts = [each for each in (ends[0], middle, ends[1]) if each is not None]
    return WhatIfCurve(
        tuple(each for part in parts for each in part.label),
        tuple(each for part in parts for each in part.confidence),
        tuple(each for part in parts for each in part.guarded),
    )
