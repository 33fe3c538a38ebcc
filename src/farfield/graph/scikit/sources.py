"""What a pipeline does with the columns that go into it, found by reading it once.

A column that only encoders read holds categories: it goes in as a code and is moved between its
values. A column that anything else reads holds numbers. Nobody declares which: readers that take
numbers ask a table for its ``value``, encoders and imputers for what it ``held``, and the first
reading of a model notes who asked. The second one writes the program.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from farfield.errors import NotFollowed
from farfield.graph.reading import InputColumn


class _Missing:
    """Stands for a value that is not there."""

    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()


def is_missing(value: Any) -> bool:
    """Whether a value is NaN, or pandas' own way of saying so; ``None`` is a value.

    >>> is_missing(float("nan")), is_missing(None), is_missing("nan")
    (True, False, False)
    """
    if value is MISSING or type(value).__name__ in ("NAType", "NaTType"):
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return False


def plain(value: Any) -> Any:
    """A value of a NumPy array as Python's own; NaN as :data:`MISSING`."""
    value = value.item() if isinstance(value, np.generic) else value
    return MISSING if is_missing(value) else value


def is_number(value: Any) -> bool:
    """Whether a category can be taken for a number."""
    return isinstance(value, (bool, int, float)) and not is_missing(value)


@dataclass
class ColumnUse:
    """Notes on who reads an input column, and as what.

    Attributes:
        name: Of the column, or its place in words.
        numbers: The first reader that takes it for numbers.
        texts: The first reader that takes its values for categories which are no numbers.
        values: Categories that readers know, in the order in which they were met.
        closed: For each reader that refuses other categories those that it takes.
        replaced: Values that imputers take for missing ones.
        gaps: Whether missing values get through.
        used: Whether anything reads it at all.
        low: The least number that readers take.
    """

    name: str
    numbers: str = ""
    texts: str = ""
    values: list[Any] = field(default_factory=list)
    closed: list[list[Any]] = field(default_factory=list)
    replaced: list[Any] = field(default_factory=list)
    gaps: bool = True
    used: bool = False
    low: float = -math.inf

    def offer(self, values: Iterable[Any], reader: str, *, closed: bool, filled: bool) -> None:
        """Note categories that a reader knows, and whether it takes others."""
        known = [plain(value) for value in values]
        present = [value for value in known if value is not MISSING]
        self.used = True
        self.add(present)
        if any(not is_number(value) for value in present):
            self.texts = self.texts or reader
        if closed:
            self.closed.append(present)
            if not filled and len(present) == len(known):
                self.gaps = False

    def add(self, values: Iterable[Any]) -> None:
        """Note categories that may come in."""
        for value in values:
            if value not in self.values:
                self.values.append(value)

    def marks(self, value: Any) -> None:
        """Note a value that an imputer takes for a missing one, and replaces."""
        self.used = True
        self.replaced.append(value)
        self.add([value])
        if not is_number(value):
            self.texts = self.texts or "SimpleImputer"

    @property
    def categories(self) -> tuple[Any, ...] | None:
        """The values of a category, in the order of their codes; ``None`` for numbers."""
        if self.numbers or not self.values:
            return None
        taken = [
            value
            for value in self.values
            if value in self.replaced or all(value in known for known in self.closed)
        ]
        return tuple(taken or self.values)

    def column(self, name: str | None) -> InputColumn:
        """What is known of the column in the end.

        Raises:
            NotFollowed: If one reader takes it for numbers, another for text.
        """
        if self.numbers and self.texts:
            raise NotFollowed(
                f"{self.name} is read as categories by {self.texts} and as numbers by "
                f"{self.numbers}; give each a column of its own."
            )
        categories = self.categories
        return InputColumn(
            name,
            categories,
            missing=self.gaps and self.used,
            unseen=categories is not None and not self.closed,
            used=self.used,
            low=self.low if categories is None else -math.inf,
        )


@dataclass(frozen=True)
class SourceColumn(InputColumn):
    """An input column as it came in, or with its gaps filled.

    Attributes:
        use: The notes on it; what changed its numbers need not know of them.
        meanings: What each code stands for by now.
        absent: What a missing value stands for by now.
    """

    use: ColumnUse = field(default_factory=lambda: ColumnUse(""), compare=False)
    meanings: tuple[Any, ...] = ()
    absent: Any = MISSING


def sources(columns: Sequence[InputColumn], uses: Sequence[ColumnUse]) -> tuple[SourceColumn, ...]:
    """Columns to start reading from."""
    return tuple(
        SourceColumn(
            column.name,
            column.categories,
            missing=True,
            use=use,
            meanings=column.categories or (),
        )
        for column, use in zip(columns, uses, strict=True)
    )


def note_numbers(column: InputColumn, reader: str, *, takes_gaps: bool) -> None:
    """Note that a reader takes a column for numbers, and whether it takes missing ones."""
    if not isinstance(column, SourceColumn):
        return
    if column.categories is not None:
        raise NotFollowed(f"{reader} takes {column.use.name} for numbers, but it holds categories")
    column.use.numbers = column.use.numbers or reader
    column.use.used = True
    if column.missing and not takes_gaps:
        column.use.gaps = False
