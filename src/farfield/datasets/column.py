"""Columns of a table on their way to numbers: missing values filled, categories spread out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    """One column as it was read.

    Attributes:
        name: From the header.
        kind: ``"number"``, ``"category"`` (text or boolean) or ``"other"`` (dates, lists, ...).
        values: float64 with NaN where missing; strings with None where missing; for other
            kinds anything, one entry per row.
        stored_as: The type in the file, for messages.
    """

    name: str
    kind: Kind
    values: NDArray[Any]
    stored_as: str

    def missing(self) -> NDArray[np.bool_]:
        """Tell which rows have no value."""
        if self.kind == "number":
            missing: NDArray[np.bool_] = np.isnan(self.values)
            return missing
        return np.array([value is None for value in self.values.tolist()], dtype=bool)

    def as_category(self) -> "Column":
        """Turn numbers into text: whole numbers without a point, missing into None."""
        if self.kind != "number":
            return self
        words = [None if np.isnan(v) else number_text(v) for v in self.values.tolist()]
        return Column(self.name, "category", np.array(words, dtype=object), self.stored_as)


def number_text(value: float) -> str:
    """Write a number the short way: ``1.0`` as ``1``."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def fill_value(column: Column, impute: Impute) -> Fill:
    """Return what missing values of a column become; text takes its most frequent value.

    Ties between most frequent values go to the smallest.
    """
    present = column.values[~column.missing()]
    if column.kind == "number" and impute == "mean":
        return float(present.mean())
    if column.kind == "number" and impute == "median":
        return float(np.median(present))
    values, counts = np.unique(present, return_counts=True)
    winner: Fill = values.tolist()[counts.argmax()]
    return winner


def filled(column: Column, fills: Mapping[str, Fill]) -> Column:
    """Put the fill value where values are missing."""
    missing = column.missing()
    if not missing.any():
        return column
    values = column.values.copy()
    values[missing] = fills[column.name]
    return Column(column.name, column.kind, values, column.stored_as)


def distinct(column: Column, where: str) -> tuple[str, ...]:
    """Return the categories of a column, numbers in order of size and text in alphabetical."""
    words = sorted(set(column.values.tolist()), key=_category_order)
    if len(words) > _MOST_CATEGORIES:
        raise InputError(
            f"{where}: column {column.name!r} has {len(words)} different values, more than "
            f"{_MOST_CATEGORIES}: too many to spread out. It looks like an identifier or free "
            f"text; leave it out with drop=[{column.name!r}]."
        )
    return tuple(words)


def one_hot(column: Column, categories: Sequence[str], where: str) -> NDArray[np.float64]:
    """Spread a column out: ``(rows, categories)`` of 0 and 1."""
    places = {category: k for k, category in enumerate(categories)}
    unknown = sorted(set(column.values.tolist()) - set(places))
    if unknown:
        raise InputError(
            f"{where}: column {column.name!r} holds {_some(unknown)}, which the earlier table does "
            f"not have. Known: {_some(categories)}. Remove these rows or read both files as one."
        )
    index = np.array([places[value] for value in column.values.tolist()])
    spread: NDArray[np.float64] = (index[:, None] == np.arange(len(places))).astype(np.float64)
    return spread


def first_text(column: Column) -> str:
    """Quote the first value that is no number, with its row; explains why a column is text."""
    for row, value in enumerate(column.values.tolist(), start=1):
        if value is not None and not is_number(value):
            return f"{value!r} in data row {row}"
    return "booleans or numbers in quotes"


def is_number(text: str) -> bool:
    """Tell whether text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _category_order(text: str) -> tuple[int, float, str]:
    """Sort numbers by size before words by alphabet."""
    return (0, float(text), text) if is_number(text) else (1, 0.0, text)


def _some(words: Sequence[str]) -> str:
    """Quote the first few of many."""
    shown = ", ".join(repr(word) for word in words[:5])
    return shown if len(words) <= 5 else f"{shown} and {len(words) - 5} more"
