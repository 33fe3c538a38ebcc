"""Tables of any size, gone through piece by piece: columns in, as often as asked."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import final

from farfield.data.column import Column, some
from farfield.errors import InputError


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


def check_names(names: Sequence[str], where: str) -> None:
    """Refuse names that occur twice."""
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    if twice:
        raise InputError(f"{where}: column names occur twice: [{some(twice)}]. Rename them.")
