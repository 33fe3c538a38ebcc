"""CSV files gone through in bounded memory, on top of pyarrow."""

import csv
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from farfield.data.arrow import MISSING, arrow_column
from farfield.data.content import Unpacked, opened
from farfield.data.stream import Column, Stream, check_names, is_number
from farfield.errors import FarfieldError, InputError

_BLOCK = 1 << 22
"""Bytes of a CSV file parsed at a time; also the longest row."""

_DELIMITERS = (",", ";", "\t", "|")
_START, _ROWS = 1 << 16, 50
_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
# Numbers: whole ones, with a decimal point, with a decimal comma.
_Kind = Literal["empty", "whole", "point", "comma", "boolean", "text"]


@final
class CsvStream(Stream):
    """The columns of a CSV file with a header, plain or compressed with gzip.

    The first pass tells numbers from text, since a column of numbers may turn out to be text in
    its last row; only then can columns be handed out.
    """

    def __init__(self, path: str | os.PathLike[str], delimiter: str | None = None) -> None:
        if delimiter is not None and len(delimiter) != 1:
            raise InputError(f"delimiter must be one character, got {delimiter!r}.")
        self.where, self._path = Path(path).name, Path(path)
        self._gzip = check_text(self._path)
        self._delimiter = sniff(self._path) if delimiter is None else delimiter
        with self._reader() as reader:
            self._header = tuple(reader.schema.names)
        self.names = tuple(name.strip() for name in self._header)
        check_header(self.names, self.where, self._delimiter)
        check_names(self.names, self.where)
        self._kinds: dict[str, _Kind] = dict.fromkeys(self.names, "empty")
        commas = self._delimiter != ","
        for batch in self._texts(self.names):
            for name, column in zip(self.names, batch.columns, strict=True):
                self._kinds[name] = _widened(self._kinds[name], column, commas)
        self._check_decimals()
        self.notes = self._told(delimiter)

    def batches(self, rows: int, names: Sequence[str] | None = None) -> Iterator[list[Column]]:
        """Yield parsed blocks, cut to size."""
        wanted = tuple(self.names if names is None else names)
        for batch in self._texts(wanted):
            columns = [
                self._column(name, column)
                for name, column in zip(wanted, batch.columns, strict=True)
            ]
            if 0 < batch.num_rows <= rows:
                yield columns
                continue
            for start in range(0, batch.num_rows, rows):
                yield [column[start : start + rows] for column in columns]

    def _column(self, name: str, column: Any) -> Column:
        """Turn text into what the first pass found the column to be."""
        kind = self._kinds[name]
        if kind == "text":
            return arrow_column(name, column, self.where)
        if kind == "empty":
            return Column(name, "number", np.full(len(column), np.nan), "empty")
        values = _READERS[kind](column)
        if values is None:
            raise InputError(f"{self.where}: column {name!r} changed while the file was read.")
        return arrow_column(name, values, self.where)

    def _texts(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield batches of these columns, all as text."""
        headers = dict(zip(self.names, self._header, strict=True))
        raw = [headers[name] for name in names]
        with self._reader(raw) as reader:
            yield from reader

    @contextmanager
    def _reader(self, names: Sequence[str] | None = None) -> Iterator[Any]:
        """Open the file for arrow; what is wrong with it becomes our error.

        Arrow reads ahead on threads of its own, which may still be at it when the process ends
        because of an error. A thread that waits for Python then brings the process down, so the
        file is arrow's own and no object of Python's.
        """
        convert = {"null_values": MISSING, "strings_can_be_null": True}
        if names is not None:
            convert |= {
                "column_types": dict.fromkeys(names, pa.string()),
                "include_columns": list(names),
            }
        try:
            with (
                pa.input_stream(
                    str(self._path), compression="gzip" if self._gzip else None
                ) as file,
                pacsv.open_csv(
                    file,
                    read_options=pacsv.ReadOptions(block_size=_BLOCK, use_threads=False),
                    parse_options=pacsv.ParseOptions(
                        delimiter=self._delimiter, newlines_in_values=True
                    ),
                    convert_options=pacsv.ConvertOptions(**convert),
                ) as reader,
            ):
                yield reader
        except FarfieldError:
            raise
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self.where}: the header is not UTF-8. Save the file as UTF-8."
            ) from error
        except (pa.ArrowException, OSError, MemoryError) as error:
            raise InputError(self._complaint(str(error))) from error

    def _complaint(self, fact: str) -> str:
        """Say what to do about something that arrow found."""
        if "UTF8" in fact:
            return f"{self.where}: not UTF-8 text ({fact}). Save the file as UTF-8."
        if "straddling" in fact:
            return (
                f"{self.where}: a row is longer than {_BLOCK >> 20} MB. Is a quotation mark left "
                "open, or is this no CSV file?"
            )
        return (
            f"{self.where}: not a CSV file with the same number of columns in every row: {fact}. "
            "Repair the row, or name the separator with delimiter (--delimiter; now "
            f"{self._delimiter!r})."
        )

    def _check_decimals(self) -> None:
        """Refuse decimal commas beside points, which may then stand between thousands."""
        kinds = self._kinds.items()
        commas = [name for name, kind in kinds if kind == "comma"]
        points = [name for name, kind in kinds if kind == "point"]
        if commas and points:
            raise InputError(
                f"{self.where}: column {commas[0]!r} has decimal commas, column {points[0]!r} has "
                "points. Write all numbers with a decimal point."
            )

    def _told(self, asked: str | None) -> tuple[str, ...]:
        """Say what was told from the content."""
        notes = []
        if asked is None and self._delimiter != ",":
            notes.append(f"Columns are separated by {self._delimiter!r}.")
        if "comma" in self._kinds.values():
            notes.append("Numbers are written with a decimal comma.")
        return tuple(notes)


def sniff(path: Path) -> str:
    """Return the delimiter that gives the first rows the same number of columns, more than one.

    A comma if none does, or if several do so equally well.
    """
    with opened(path) as file:
        start = file.read(_START).decode("utf-8", "replace").removeprefix("\ufeff")
    lines = start.splitlines()[: _ROWS + 1]
    # The last line may be cut off.
    lines = lines[:-1] if len(start) >= _START and len(lines) > 1 else lines
    best, chosen = (0.0, 1), ","
    for delimiter in _DELIMITERS:
        try:
            widths = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error:
            continue
        if not widths or widths[0] < 2:
            continue
        found = (widths.count(widths[0]) / len(widths), widths[0])
        if found > best:
            best, chosen = found, delimiter
    return chosen


def check_header(names: Sequence[str], where: str, delimiter: str) -> None:
    """Refuse a first line that names no columns."""
    if all(is_number(name) for name in names):
        raise InputError(
            f"{where}: the first line holds numbers ({', '.join(names[:4])}), not column names. "
            "Add a header line."
        )
    if "" in names:
        raise InputError(
            f"{where}: column {names.index('') + 1} of {len(names)} has no name. "
            "Name it in the header line."
        )
    others = [other for other in _DELIMITERS if other != delimiter and other in names[0]]
    if len(names) == 1 and others:
        raise InputError(
            f"{where}: one column only, {names[0][:60]!r}. Is it separated by {others[0]!r}? "
            f"Then pass delimiter={others[0]!r}."
        )


def check_text(path: Path) -> bool:
    """Refuse a file that is damaged, empty or no text; tell whether it is compressed with gzip."""
    blank = True
    with opened(path) as file:
        while piece := file.read(_BLOCK):
            if b"\0" in piece:
                raise InputError(
                    f"{path.name}: this is not text: it holds zero bytes. Is it a CSV file?"
                )
            blank = blank and not piece.strip()
        compressed = isinstance(file, Unpacked)
    if blank:
        raise InputError(f"{path.name}: the file is empty. Check that it was copied completely.")
    return compressed


def _widened(kind: _Kind, column: Any, commas: bool) -> _Kind:
    """Return the kind of a column, seen so far as ``kind``, after some more rows."""
    if kind == "text" or column.null_count == len(column):
        return kind
    if kind in ("empty", "whole", "point"):
        numbers = _numbers(column)
        if numbers is not None and numbers.null_count == len(numbers):
            return kind
        if numbers is not None:
            # Only where commas may be decimal does it matter whether there are points.
            return "point" if kind == "point" or not commas or _holds(column, ".") else "whole"
    if commas and kind in ("empty", "whole", "comma") and _decimal_commas(column) is not None:
        return "comma"
    if kind in ("empty", "boolean") and _booleans(column) is not None:
        return "boolean"
    return "text"


def _holds(column: Any, letter: str) -> bool:
    return bool(pc.any(pc.match_substring(column, letter)).as_py())


def _decimal_commas(column: Any) -> Any:
    """Read text as numbers with a decimal comma, or return None where it is not."""
    if _holds(column, "."):
        return None
    return _numbers(pc.replace_substring(column, ",", "."))


def _numbers(column: Any) -> Any:
    """Read text as numbers, or return None where it is not."""
    try:
        return column.cast("float64")
    except pa.ArrowInvalid:
        pass
    # Slower: spaces around numbers, and around the words for missing values.
    trimmed = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(trimmed, value_set=pa.array(MISSING))
    try:
        return pc.if_else(missing, None, trimmed).cast("float64")
    except pa.ArrowInvalid:
        return None


def _booleans(column: Any) -> Any:
    """Read text as booleans, or return None where it is not."""
    trimmed = pc.utf8_trim_whitespace(column)
    true = pc.is_in(trimmed, value_set=pa.array(_TRUE))
    false = pc.is_in(trimmed, value_set=pa.array(_FALSE))
    missing = pc.is_in(trimmed, value_set=pa.array([*MISSING, None]))
    if not pc.all(pc.or_(pc.or_(true, false), missing)).as_py():
        return None
    return pc.if_else(missing, None, true)


_READERS = {
    "whole": _numbers,
    "point": _numbers,
    "comma": _decimal_commas,
    "boolean": _booleans,
}
