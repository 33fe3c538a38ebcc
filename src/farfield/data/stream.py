"""Tables of any size, gone through piece by piece: columns as they are read, as often as asked."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from farfield.errors import InputError

Kind = Literal["number", "category", "other"]
Fill = float | str
"""What a missing value becomes."""


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
        written: Words that stand in the data with spaces around them, and every way in which they
            do; words that do not are not here.
    """

    name: str
    kind: Kind
    values: NDArray[Any]
    stored_as: str
    words: tuple[str, ...] = ()
    written: tuple[tuple[str, str], ...] = ()

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

    def filled(self, fill: Fill) -> "Column":
        """Put a value where values are missing."""
        missing, words = self.missing(), self.words
        if not missing.any():
            return self
        if isinstance(fill, str):
            words = words if fill in words else (*words, fill)
            fill = words.index(fill)
        return replace(self, values=np.where(missing, fill, self.values), words=words)

    def counts(self) -> NDArray[np.int64]:
        """Count the rows of every word of a category."""
        return np.bincount(self.values[self.values >= 0], minlength=len(self.words))


class Stream(ABC):
    """The columns of a table, read as often as needed and never all at once.

    Attributes:
        where: Name of the file, for messages.
        names: Of the columns.
        default_label: Column that holds the labels when the format says so, as .npz does.
        named: Whether somebody named the columns; if not, they are called x0, x1, ...
        notes: Sentences about how the file was read.
    """

    where: str
    names: tuple[str, ...]
    default_label: str | None = None
    named: bool = True
    notes: tuple[str, ...] = ()

    @abstractmethod
    def batches(self, rows: int, names: Sequence[str] | None = None) -> Iterator[list[Column]]:
        """Yield columns (those named, in this order), at most ``rows`` rows at a time."""


@final
class MemoryStream(Stream):
    """Columns that are in memory already."""

    def __init__(
        self, columns: Sequence[Column], where: str, label: str | None = None, *, named: bool = True
    ) -> None:
        self.where, self.default_label, self.named = where, label, named
        self.names = tuple(column.name for column in columns)
        check_names(self.names, where)
        self._columns = dict(zip(self.names, columns, strict=True))

    def batches(self, rows: int, names: Sequence[str] | None = None) -> Iterator[list[Column]]:
        """Yield slices."""
        columns = [self._columns[name] for name in (self.names if names is None else names)]
        count = max((len(column) for column in columns), default=0)
        for start in range(0, count, rows):
            yield [column[start : start + rows] for column in columns]


@final
class WithoutCodes(Stream):
    """A table in which some values stand for missing, and are."""

    def __init__(self, stream: Stream, codes: Mapping[str, Sequence[str]]) -> None:
        self._stream, self._codes = stream, codes
        self.where, self.names, self.named = stream.where, stream.names, stream.named
        self.default_label, self.notes = stream.default_label, stream.notes

    def batches(self, rows: int, names: Sequence[str] | None = None) -> Iterator[list[Column]]:
        """Yield columns, with these values missing."""
        for columns in self._stream.batches(rows, names):
            yield [_without(each, self._codes.get(each.name, ())) for each in columns]


def without_codes(stream: Stream, codes: Mapping[str, Sequence[str]]) -> Stream:
    """Take some values of columns for missing.

    >>> column = Column("age", "number", np.array([30.0, 999.0]), "double")
    >>> ((read,),) = without_codes(MemoryStream([column], "x"), {"age": ["999"]}).batches(2)
    >>> read.values.tolist()
    [30.0, nan]
    """
    return WithoutCodes(stream, codes) if codes else stream


def _without(column: Column, codes: Sequence[str]) -> Column:
    if column.kind == "other" or not codes:
        return column
    if column.kind == "number":
        numbers = [float(code) for code in codes if is_number(code)]
        return replace(
            column, values=np.where(np.isin(column.values, numbers), np.nan, column.values)
        )
    return replace(column, values=np.where(positions(column, codes) >= 0, -1, column.values))


def check_names(names: Sequence[str], where: str) -> None:
    """Refuse names that occur twice."""
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    if twice:
        raise InputError(f"{where}: column names occur twice: [{some(twice)}]. Rename them.")


def positions(column: Column, categories: Sequence[str]) -> NDArray[np.int64]:
    """Return every row's place in ``categories``, -1 for other words and missing values."""
    places = {category: k for k, category in enumerate(categories)}
    # The last entry is what the code -1 of a missing value finds.
    lookup = np.array([*(places.get(word, -1) for word in column.words), -1])
    index: NDArray[np.int64] = lookup[column.values]
    return index


def as_array(values: Any, where: str) -> NDArray[Any]:
    """Take an array from whatever holds one."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"{where} cannot be read as an array: {error}.") from error


def number_text(value: float) -> str:
    """Write a number the short way: ``1.0`` as ``1``."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def value_text(value: Any) -> str:
    """Write a value as the readers do: numbers the short way, bytes as text.

    >>> value_text(np.float32(2)), value_text(True), value_text(b"icu")
    ('2', 'True', 'icu')
    """
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and math.isfinite(plain):
        return number_text(plain)
    return plain.decode() if isinstance(plain, bytes) else str(plain)


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
