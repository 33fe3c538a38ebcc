"""Columns of a table on their way to numbers: missing values filled, categories spread out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from farfield.errors import InputError

Impute = Literal["mean", "median", "most_frequent"]
Kind = Literal["number", "category", "other"]
Fill = float | str

_MOST_CATEGORIES = 256


@dataclass(frozen=True, eq=False)
class Column:
    """One column as it was read, or some rows of it.

    Attributes:
        name: From the header.
        kind: ``"number"``, ``"category"`` (text or boolean) or ``"other"`` (dates, lists, ...).
        values: Numbers with NaN where missing; positions in ``words``, -1 where missing; for
            other kinds whether there is a value.
        stored_as: The type in the file, for messages.
        words: The values of a category, in any order; some may not occur.
    """

    name: str
    kind: Kind
    values: NDArray[Any]
    stored_as: str
    words: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice) -> "Column":
        return replace(self, values=self.values[rows])

    def missing(self) -> NDArray[np.bool_]:
        """Tell which rows have no value."""
        if self.kind == "number":
            missing: NDArray[np.bool_] = np.isnan(self.values)
            return missing
        return self.values < 0 if self.kind == "category" else ~self.values.astype(bool)

    def as_category(self) -> "Column":
        """Turn numbers into text: whole numbers without a point, missing stays missing."""
        if self.kind != "number":
            return self
        present = ~self.missing()
        numbers, places = np.unique(self.values[present], return_inverse=True)
        codes = np.full(len(self), -1)
        codes[present] = places
        words = tuple(number_text(number) for number in numbers.tolist())
        return Column(self.name, "category", codes, self.stored_as, words)

    def counts(self) -> NDArray[np.int64]:
        """Count the rows of every word of a category."""
        return np.bincount(self.values[self.values >= 0], minlength=len(self.words))


def text_column(name: str, texts: Sequence[str | None], stored_as: str = "text") -> Column:
    """Make a category from text, None where missing."""
    codes: dict[str | None, int] = {}
    for text in texts:
        if text is not None:
            codes.setdefault(text, len(codes))
    words = tuple(str(word) for word in codes)
    codes[None] = -1
    values = np.array([codes[text] for text in texts], dtype=np.int64)
    return Column(name, "category", values, stored_as, words)


def number_text(value: float) -> str:
    """Write a number the short way: ``1.0`` as ``1``."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def fill_value(column: Column, impute: Impute) -> Fill:
    """Return what missing values of a column become; text takes its most frequent value.

    Ties between most frequent values go to the smallest.
    """
    if column.kind == "category":
        counts = column.counts()
        return min(word for word, n in zip(column.words, counts, strict=True) if n == counts.max())
    present = column.values[~column.missing()]
    if impute == "mean":
        return float(present.mean())
    if impute == "median":
        return float(np.median(present))
    values, counts = np.unique(present, return_counts=True)
    return float(values[counts.argmax()])


def filled(column: Column, fills: Mapping[str, Fill]) -> Column:
    """Put the fill value where values are missing."""
    missing = column.missing()
    if not missing.any():
        return column
    fill, words = fills[column.name], column.words
    if isinstance(fill, str):
        words = words if fill in words else (*words, fill)
        fill = words.index(fill)
    return replace(column, values=np.where(missing, fill, column.values), words=words)


def distinct(column: Column, where: str) -> tuple[str, ...]:
    """Return the categories of a column, numbers in order of size and text in alphabetical."""
    used = [word for word, n in zip(column.words, column.counts(), strict=True) if n]
    return ordered(used, column.name, where)


def ordered(words: Sequence[str], name: str, where: str) -> tuple[str, ...]:
    """Sort categories, numbers by size and text by alphabet; refuse too many of them."""
    if len(words) > _MOST_CATEGORIES:
        raise InputError(
            f"{where}: column {name!r} has {len(words)} different values, more than "
            f"{_MOST_CATEGORIES}: too many to spread out. It looks like an identifier or free "
            f"text; leave it out with drop=[{name!r}]."
        )
    return tuple(sorted(words, key=category_order))


def one_hot(column: Column, categories: Sequence[str], where: str) -> NDArray[np.float64]:
    """Spread a column out: ``(rows, categories)`` of 0 and 1."""
    index = positions(column, categories)
    if (index < 0).any():
        unknown = sorted({column.words[code] for code in np.unique(column.values[index < 0])})
        raise InputError(
            f"{where}: column {column.name!r} holds {some(unknown)}, which the earlier table does "
            f"not have. Known: {some(categories)}. Remove these rows or read both files as one."
        )
    spread: NDArray[np.float64] = (index[:, None] == np.arange(len(categories))).astype(np.float64)
    return spread


def positions(column: Column, categories: Sequence[str]) -> NDArray[np.int64]:
    """Return every row's place in ``categories``, -1 for other words and missing values."""
    places = {category: k for k, category in enumerate(categories)}
    # The last entry is what the code -1 of a missing value finds.
    lookup = np.array([*(places.get(word, -1) for word in column.words), -1])
    index: NDArray[np.int64] = lookup[column.values]
    return index


def first_text(column: Column) -> str:
    """Quote the first value that is no number, with its row; explains why a column is text."""
    texts = [code for code, word in enumerate(column.words) if not is_number(word)]
    rows = np.flatnonzero(np.isin(column.values, texts))
    if len(rows) == 0 or column.stored_as == "boolean":
        return "booleans or numbers in quotes"
    return f"{column.words[column.values[rows[0]]]!r} in data row {rows[0] + 1}"


def is_number(text: str) -> bool:
    """Tell whether text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def category_order(text: str) -> tuple[int, float, str]:
    """Sort numbers by size before words by alphabet."""
    return (0, float(text), text) if is_number(text) else (1, 0.0, text)


def some(words: Sequence[str]) -> str:
    """Quote the first few of many."""
    shown = ", ".join(repr(word) for word in words[:5])
    return shown if len(words) <= 5 else f"{shown} and {len(words) - 5} more"
