"""The first pass over a table: what its columns hold, and what stands in the way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from farfield.data.encoding import ColumnKind, not_one_hot, prepared
from farfield.data.stream import Column, Stream
from farfield.data.summary import Moments
from farfield.errors import InputError

# Columns with more values than this are nobody's categories; counting stops.
_MOST_WORDS = 10_000
# Numbers in memory at a time: 32 MB.
_BLOCK = 4_000_000


@dataclass
class Words:
    """The values of a column of categories.

    Attributes:
        counts: Value to the rows that hold it, in the order in which they were met.
        first: Value to the first row that holds it, from 1.
        overflow: Whether there were too many to count.
        written: Value to the ways in which it is written: with spaces around it, and without.
    """

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    overflow: bool = False
    written: dict[str, set[str]] = field(default_factory=dict)

    @property
    def spaced(self) -> tuple[tuple[str, str], ...]:
        """Values that are always written with the same spaces around them."""
        one = {word: next(iter(ways)) for word, ways in self.written.items() if len(ways) == 1}
        return tuple((word, way) for word, way in one.items() if way != word)

    def add(self, column: Column, row: int) -> None:
        """Count the values of some rows, the first of which is ``row``."""
        if self.overflow:
            return
        places, starts = np.unique(column.values, return_index=True)
        counts = column.counts()
        ways: dict[str, set[str]] = {}
        for word, way in column.written:
            ways.setdefault(word, set()).add(way)
        for place, start in zip(places.tolist(), starts.tolist(), strict=True):
            if place >= 0:
                word = column.words[place]
                self.counts[word] = self.counts.get(word, 0) + int(counts[place])
                self.first.setdefault(word, row + start)
                self.written.setdefault(word, set()).update(ways.get(word, {word}))
        self.overflow = len(self.counts) > _MOST_WORDS


@dataclass
class Scan:
    """What one pass over the rows has found.

    Attributes:
        rows: How many there are.
        kinds: Column to how it enters.
        moments: Of the numeric columns, in their order.
        words: Column of categories to its values.
        missing: Column to its number of missing values, for all columns.
        first_missing: Column to the first row without a value, from 1.
        stored_as: Column to its type in the file.
        binary: Columns of numbers that were 0 and 1 only so far.
    """

    kinds: dict[str, ColumnKind]
    moments: Moments
    rows: int = 0
    words: dict[str, Words] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    first_missing: dict[str, int] = field(default_factory=dict)
    stored_as: dict[str, str] = field(default_factory=dict)
    binary: set[str] = field(default_factory=set)

    @property
    def numeric(self) -> list[str]:
        """Columns that enter as numbers."""
        return [name for name, kind in self.kinds.items() if kind == "numeric"]

    def add(self, columns: Sequence[Column], where: str) -> None:
        """Take in some rows."""
        numbers: list[NDArray[np.float64]] = []
        for column in columns:
            name = column.name
            absent = column.missing()
            count = int(absent.sum())
            self.missing[name] = self.missing.get(name, 0) + count
            if count:
                self.first_missing.setdefault(name, self.rows + int(absent.argmax()) + 1)
            if self.kinds[name] == "numeric":
                self._check_finite(column, where)
                numbers.append(column.values)
                if name in self.binary and not _is_binary(column.values):
                    self.binary.remove(name)
            else:
                self.words.setdefault(name, Words()).add(column, self.rows + 1)
        if numbers:
            self.moments.add(np.array(numbers, dtype=np.float64))
        self.rows += len(columns[0])

    def _check_finite(self, column: Column, where: str) -> None:
        """Refuse infinite numbers, which files hold when a number is too large for a float."""
        infinite = np.isinf(column.values)
        if infinite.any():
            row = self.rows + int(infinite.argmax()) + 1
            raise InputError(
                f"{where}: column {column.name!r} holds an infinite number, first in data row "
                f"{row}: infinity, or a number beyond 1.8e308. Repair it or leave it empty."
            )


def scan(
    stream: Stream,
    names: Sequence[str],
    wishes: Mapping[str, ColumnKind],
    blocks: Mapping[str, Sequence[str]],
) -> Scan:
    """Go through a table once.

    Args:
        stream: The table.
        names: Columns to look at.
        wishes: How some of them enter whatever they hold.
        blocks: Category to the columns that must be its one-hot code.

    Raises:
        InputError: No rows, columns that are neither numbers nor text, infinite numbers, codes
            that are not one-hot.
    """
    found: Scan | None = None
    for columns in stream.batches(batch_rows(len(names)), names):
        if found is None:
            _check_kinds(columns, stream.where)
            kinds = {column.name: _kind(column, wishes.get(column.name)) for column in columns}
            found = Scan(kinds, Moments(list(kinds.values()).count("numeric")))
            found.stored_as = {column.name: column.stored_as for column in columns}
            found.binary = set(found.numeric)
        if columns and len(columns[0]):
            ready = [prepared(column, found.kinds[column.name]) for column in columns]
            _check_blocks(ready, blocks, found.rows, stream.where)
            found.add(ready, stream.where)
    if found is None or found.rows == 0:
        raise InputError(f"{stream.where}: there are no data rows. Check that the file is whole.")
    return found


def _is_binary(values: NDArray[np.float64]) -> bool:
    """Whether all numbers that are there are 0 or 1."""
    return bool(((values == 0) | (values == 1) | np.isnan(values)).all())


def batch_rows(columns: int, most: int = 65_536) -> int:
    """Return how many rows of so many columns are held at a time."""
    return max(1, min(most, _BLOCK // max(columns, 1)))


def _kind(column: Column, wish: ColumnKind | None) -> ColumnKind:
    """Decide how a column enters: as wished, or as its content says."""
    if wish == "numeric" and column.kind == "category" and column.stored_as != "boolean":
        # Text cannot become numbers; counted as words, so that the error can quote them.
        return "categorical"
    return wish or ("numeric" if column.kind == "number" else "categorical")


def _check_blocks(
    columns: Sequence[Column], blocks: Mapping[str, Sequence[str]], before: int, where: str
) -> None:
    """Refuse rows whose one-hot codes are not a single 1 among zeros."""
    values = {column.name: column.values for column in columns if column.kind == "number"}
    for block, members in blocks.items():
        if not values.keys() >= set(members):
            # Text among them is an error of its own.
            continue
        wrong = not_one_hot(np.array([values[name] for name in members], dtype=np.float64))
        if wrong.any():
            row = int(wrong.argmax())
            held = ", ".join(f"{name} = {values[name][row]:g}" for name in members[:5])
            raise InputError(
                f"{where}: the columns of {block!r} are no one-hot code in data row "
                f"{before + row + 1}: {held}. One of them must be 1, the others 0."
            )


def _check_kinds(columns: Sequence[Column], where: str) -> None:
    """Refuse dates, lists and the like, all of them in one error."""
    strange = [f"{c.name!r} ({c.stored_as})" for c in columns if c.kind == "other"]
    if strange:
        raise InputError(
            f"{where}: columns that are neither numbers, text nor booleans: {', '.join(strange)}. "
            'Leave them out with ignore (--ignore COLUMN), or with kind = "ignore" in the schema.'
        )
