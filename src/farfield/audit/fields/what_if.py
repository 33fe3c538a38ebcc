"""Rows of which one column at a time is moved."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WhatIfColumn:
    """A column that can be moved.

    Attributes:
        name: Its name.
        unit: Its unit, or nothing.
        values: Places along it, growing; infinite at an end without a bound. Of a category the
            indices of its options.
        options: The values of a category; nothing for a number.
        low: Smallest value in the data.
        high: Largest value.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    options: tuple[str, ...]
    low: float
    high: float


@dataclass(frozen=True)
class WhatIfCurve:
    """What is said at every place along a column.

    Attributes:
        label: The class, by its index.
        confidence: How sure the model is of it.
        guarded: How sure it is with the guard, which keeps the class; nothing without one.
    """

    label: tuple[int, ...]
    confidence: tuple[float, ...]
    guarded: tuple[float, ...] = ()


@dataclass(frozen=True)
class WhatIfRow:
    """A row of which one column at a time is moved.

    Attributes:
        title: What it is.
        values: Its own value of every column; the index of an option of a category.
        label: The class of the row as it is.
        confidence: How sure the model is of it.
        guarded: The same with the guard; ``None`` without one.
        curves: One for every column.
    """

    title: str
    values: tuple[float, ...]
    label: int
    confidence: float
    guarded: float | None
    curves: tuple[WhatIfCurve, ...]


@dataclass(frozen=True)
class WhatIf:
    """A handful of rows, and what becomes of them when one column is moved.

    Attributes:
        columns: The columns.
        rows: The rows; typical ones, no rows of the data unless these may be shown.
    """

    columns: tuple[WhatIfColumn, ...]
    rows: tuple[WhatIfRow, ...]
