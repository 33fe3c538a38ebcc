"""From pyarrow to columns; parquet files in bounded memory."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from farfield.budget import Budget, allowance
from farfield.data.stream import Column, Stream, as_array, check_names
from farfield.errors import InputError

MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "#NA", "NaN", "nan", "-nan", "NULL", "null")


@final
class ParquetStream(Stream):
    """The columns of a parquet file; an index that pandas stored is left out."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.where, self._path = Path(path).name, Path(path)
        with self._file() as file:
            _check_cells(file.metadata, self._path.stat().st_size, self.where)
            names = file.schema_arrow.names
        self.names = tuple(name for name in names if not name.startswith("__index_level_"))
        check_names(self.names, self.where)

    @contextmanager
    def _file(self) -> Iterator[Any]:
        with _damaged(self.where), pq.ParquetFile(self._path, pre_buffer=False) as file:
            yield file

    def batches(self, rows: int, names: Sequence[str] | None = None) -> Iterator[list[Column]]:
        """Yield record batches."""
        wanted = list(self.names if names is None else names)
        with self._file() as file:
            for batch in file.iter_batches(batch_size=rows, columns=wanted, use_threads=True):
                yield arrow_columns(batch.select(wanted), wanted, self.where)


def _check_cells(metadata: Any, size: int, where: str) -> None:
    """Refuse a parquet file whose cells are out of all proportion to its bytes."""
    cells = metadata.num_rows * max(1, metadata.num_columns)
    what = f"{where}: {metadata.num_rows} rows of {metadata.num_columns} columns, as floats,"
    Budget(allowance(size)).spend(8 * cells, what)


@contextmanager
def _damaged(where: str) -> Iterator[None]:
    """Turn what arrow says about a damaged parquet file into our error."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{where}: not a whole parquet file: {error}. Check that it was copied completely and "
            "was not renamed from another format."
        ) from error


def arrow_columns(read: Any, names: Sequence[str], where: str) -> list[Column]:
    """Turn the columns of an arrow table or batch into ours."""
    return [
        arrow_column(name, column, where) for name, column in zip(names, read.columns, strict=True)
    ]


def arrow_column(name: str, column: Any, where: str) -> Column:
    """Turn one arrow column into ours: numbers as float64, text and booleans as categories."""
    types = pa.types
    kind, stored_as = column.type, str(column.type)
    if types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if types.is_decimal(kind):
        column = column.cast("float64", safe=False)
        kind = column.type
    if types.is_integer(kind) or types.is_floating(kind):
        values = _numbers(column, np.nan).astype(np.float64, copy=False)
        return Column(name, "number", values, stored_as)
    if types.is_boolean(kind):
        codes = _numbers(column.cast("int8"), -1)
        return Column(name, "category", codes, "boolean", ("False", "True"))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return _text(name, column.cast("large_string"), where)
    if types.is_null(kind):
        return Column(name, "number", np.full(len(column), np.nan), "empty")
    if types.is_binary(kind) or types.is_large_binary(kind):
        raise InputError(f"{where}: column {name!r} is not UTF-8 text. Save the file as UTF-8.")
    return Column(name, "other", np.array(column.is_valid()), stored_as)


def _numbers(column: Any, missing: float) -> NDArray[Any]:
    """The numbers of a column, straight from memory.

    Arrow's own ways load pandas, and casts describe all of its functions first: a long wait.
    """
    dtype = np.dtype(column.type.to_pandas_dtype())
    chunks = getattr(column, "chunks", [column])
    parts = [_part(chunk, dtype, missing) for chunk in chunks if len(chunk)]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype), *parts])


def _part(chunk: Any, dtype: np.dtype[Any], missing: float) -> NDArray[Any]:
    """The numbers of an array: a buffer of them, and one of bits for those that are there."""
    known, numbers = chunk.buffers()
    found = np.frombuffer(numbers, dtype, len(chunk), chunk.offset * dtype.itemsize)
    if chunk.null_count == 0:
        return found
    bits = np.unpackbits(np.frombuffer(known, np.uint8), bitorder="little")
    return np.where(bits[chunk.offset : chunk.offset + len(chunk)], found, missing)


def _text(name: str, column: Any, where: str) -> Column:
    """Turn text into a category, spaces around it cut off; empty is missing."""
    import pyarrow.compute as pc  # casts to text have loaded it

    try:
        coded = column.dictionary_encode()
        coded = coded.combine_chunks() if hasattr(coded, "combine_chunks") else coded
        raw = coded.dictionary.to_pylist()
        cut = pc.utf8_trim_whitespace(coded.dictionary).to_pylist()
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(
            f"{where}: column {name!r} is not UTF-8 text. Save the file as UTF-8."
        ) from error
    codes = _numbers(coded.indices, -1).astype(np.int64)
    place = {word: index for index, word in enumerate(dict.fromkeys(cut))}
    if cut != raw:
        codes = np.array([*(place[word] for word in cut), -1])[codes]
    if "" in place:
        codes[codes == place[""]] = -1
    return Column(name, "category", codes, "text", tuple(place), _written(raw, cut))


def _written(raw: list[str], cut: list[str]) -> tuple[tuple[str, str], ...]:
    """How words that have spaces around them somewhere are written."""
    spaced = {word for text, word in zip(raw, cut, strict=True) if text != word}
    return tuple((word, text) for text, word in zip(raw, cut, strict=True) if word in spaced)


def value_column(name: str, values: Any, where: str) -> Column:
    """Turn values in memory into a column, told apart by what they are."""
    array = as_array(values, name)
    if array.ndim != 1:
        raise InputError(f"column {name!r} must have one value per row, got shape {array.shape}.")
    if array.dtype.kind in "fiu":
        return Column(name, "number", array.astype(np.float64, copy=False), str(array.dtype))
    if array.dtype.kind == "b":
        return Column(name, "category", array.astype(np.int64), "boolean", ("False", "True"))
    if array.dtype.kind not in "OUT":
        return Column(name, "other", np.ones(len(array), dtype=bool), str(array.dtype))
    listed = array.tolist()
    try:
        return arrow_column(name, pa.array(listed, from_pandas=True), where)
    except (pa.ArrowException, OverflowError):
        stored = ", ".join(sorted({type(value).__name__ for value in listed}))
        return Column(name, "other", np.ones(len(array), dtype=bool), f"objects: {stored}")
