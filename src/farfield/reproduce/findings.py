"""What an experiment found: numbers beside the published ones, tables, pictures, sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farfield.errors import InputError
from farfield.report.figure import save_figure

Value = float | int | str | None


@dataclass(frozen=True)
class PaperComparison:
    """One number or statement of ours beside the published one.

    Attributes:
        quantity: What it is.
        published: The published value, or what was claimed; None if the source prints none.
        ours: The value found here.
        source: Where it is published.
        why: A sentence on why the two differ; shown where they do.
        tolerance: How far two numbers may be apart and still count as agreeing.
        agrees: Whether they agree, for statements; decided by the tolerance for two numbers.

    >>> PaperComparison("test error", 0.5, 0.6, "Table 1", "fewer epochs", tolerance=0.2).agreement
    True
    """

    quantity: str
    published: Value
    ours: Value
    source: str
    why: str = ""
    tolerance: float = 0.0
    agrees: bool | None = None

    @classmethod
    def each(
        cls,
        ours: Mapping[str, Value],
        published: Value,
        source: str,
        why: str = "",
        *,
        tolerance: float = 0.0,
    ) -> list[PaperComparison]:
        """Put several quantities of ours, by name, beside one published value."""
        return [
            cls(quantity, published, value, source, why, tolerance)
            for quantity, value in ours.items()
        ]

    @property
    def difference(self) -> float | None:
        """Ours minus published, for two finite numbers."""
        if isinstance(self.published, str) or isinstance(self.ours, str):
            return None
        if self.published is None or self.ours is None:
            return None
        gap = float(self.ours) - float(self.published)
        return gap if math.isfinite(gap) else None

    @property
    def agreement(self) -> bool | None:
        """Whether they agree; None if there is nothing to compare."""
        if self.agrees is not None:
            return self.agrees
        gap = self.difference
        # Published numbers are decimal, so the gap of 0.6 and 0.5 is not quite 0.1.
        return None if gap is None else abs(gap) <= self.tolerance * (1 + 1e-9)


@dataclass(frozen=True)
class ResultTable:
    """Rows of values under named columns.

    Attributes:
        name: File name without its ending.
        caption: What it shows.
        columns: Names of the columns.
        rows: One sequence per row.
    """

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]

    @classmethod
    def of(
        cls,
        name: str,
        caption: str,
        results: Mapping[str, Any],
        columns: Mapping[str, str | Callable[[Any], Value]],
        first: str = "model",
    ) -> ResultTable:
        """Make one row of each result: its name, then a key of it or a function of it per column.

        >>> found = {"a": {"n": 2}}
        >>> table = ResultTable.of("t", "", found, {"n": "n", "more": lambda r: r["n"] + 1})
        >>> table.columns, table.rows
        (['model', 'n', 'more'], [['a', 2, 3]])
        """
        rows = [
            [title, *(each[key] if isinstance(key, str) else key(each) for key in columns.values())]
            for title, each in results.items()
        ]
        return cls(name, caption, [first, *columns], rows)

    def __post_init__(self) -> None:
        wrong = [len(row) for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise InputError(
                f"table {self.name!r} has {len(self.columns)} columns and a row of {wrong[0]} cells"
            )


@dataclass(frozen=True)
class Figure:
    """A figure with its caption.

    Attributes:
        name: File name without its ending.
        caption: What it shows; also what a screen reader says.
        figure: From ``new_figure`` of the reports; or a function that draws and
            writes to a path, whose ending says in which format.
    """

    name: str
    caption: str
    figure: Any

    def write(self, path: Path) -> Path:
        """Write the figure in the format of the path's ending."""
        if callable(self.figure):
            self.figure(path)
            return path
        return save_figure(self.figure, path)


@dataclass(frozen=True)
class Findings:
    """Everything that goes on the page of an experiment.

    Attributes:
        summary: Sentences that say what was found.
        comparisons: Ours beside the published.
        tables: Further numbers.
        pictures: Figures.
        numbers: Whatever else was measured, for ``results.json`` alone.
    """

    summary: Sequence[str] = ()
    comparisons: Sequence[PaperComparison] = ()
    tables: Sequence[ResultTable] = ()
    pictures: Sequence[Figure] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)


def format_value(value: Value, digits: int = 4) -> str:
    """Write a value for people.

    >>> format_value(0.123456), format_value(12), format_value(None), format_value(float("inf"))
    ('0.1235', '12', '-', '∞')
    """
    if value is None:
        return "-"
    if isinstance(value, bool | str | int):
        return str(value)
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.{digits}g}"
