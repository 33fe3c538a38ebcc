"""From pyarrow to columns; parquet files in bounded memory."""

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import numpy as np

from farfield.budget import Budget, allowance
from farfield.data.column import Column
from farfield.data.stream import Stream, check_names
from farfield.errors import InputError, MissingDependency

MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "#NA", "NaN", "nan", "-nan", "NULL", "null")


def pyarrow(module: str) -> Any:
    """Import pyarrow when it is first needed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependency(
            "Reading CSV and parquet files needs pyarrow, which is not installed. "
            "Install it with: pip install 'farfield[data]'"
        ) from error


@final
class ParquetStream(Stream):
    """The columns of a parquet file; an index that pandas stored is left out."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.where, self._path = Path(path).name, Path(path)
        with self._file() as file:
            check_cells(file.metadata, self._path.stat().st_size, self.where)
            names = file.schema_arrow.names
        self.names = tuple(name for name in names if not name.startswith("__index_level_"))
        check_names(self.names, self.where)

    @contextmanager
    def _file(self) -> Iterator[Any]:
        parquet = pyarrow("pyarrow.parquet")
        with damaged_parquet(self.where), parquet.ParquetFile(self._path, pre_buffer=False) as file:
            yield file

    def batches(self, rows: int, names: Sequence[str] | None = None) -> Iterator[list[Column]]:
        """Yield record batches."""
        wanted = list(self.names if names is None else names)
        with self._file() as file:
            for batch in file.iter_batches(batch_size=rows, columns=wanted, use_threads=True):
                yield arrow_columns(batch.select(wanted), wanted, self.where)


def check_cells(metadata: Any, size: int, where: str) -> None:
    """Refuse a parquet file whose cells are out of all proportion to its bytes."""
    cells = metadata.num_rows * max(1, metadata.num_columns)
    what = f"{where}: {metadata.num_rows} rows of {metadata.num_columns} columns, as floats,"
    Budget(allowance(size)).spend(8 * cells, what)


@contextmanager
def damaged_parquet(where: str) -> Iterator[None]:
    """Turn what arrow says about a damaged parquet file into our error."""
    try:
        yield
    except (pyarrow("pyarrow").ArrowException, OSError, ValueError, MemoryError) as error:
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
    types, compute = pyarrow("pyarrow").types, pyarrow("pyarrow.compute")
    kind, stored_as = column.type, str(column.type)
    if types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        values = column.cast("float64", safe=False).to_numpy(zero_copy_only=False)
        return Column(name, "number", values, stored_as)
    if types.is_boolean(kind):
        codes = compute.fill_null(column.cast("int8"), -1).to_numpy(zero_copy_only=False)
        return Column(name, "category", codes, "boolean", ("False", "True"))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return _text(name, column.cast("large_string"), where)
    if types.is_null(kind):
        return Column(name, "number", np.full(len(column), np.nan), "empty")
    if types.is_binary(kind) or types.is_large_binary(kind):
        raise InputError(f"{where}: column {name!r} is not UTF-8 text. Save the file as UTF-8.")
    return Column(name, "other", np.array(column.is_valid()), stored_as)


def _text(name: str, column: Any, where: str) -> Column:
    """Turn text into a category, spaces around it cut off; empty is missing."""
    compute = pyarrow("pyarrow.compute")
    try:
        coded = compute.utf8_trim_whitespace(column).dictionary_encode()
        coded = coded.combine_chunks() if hasattr(coded, "combine_chunks") else coded
        words = tuple(coded.dictionary.to_pylist())
    except (pyarrow("pyarrow").ArrowException, UnicodeDecodeError) as error:
        raise InputError(
            f"{where}: column {name!r} is not UTF-8 text. Save the file as UTF-8."
        ) from error
    codes = compute.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    if "" in words:
        codes[codes == words.index("")] = -1
    return Column(name, "category", codes, "text", words)
