"""Readers of CSV and parquet files, on top of pyarrow (an extra: ``farfield[data]``)."""

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from farfield.budget import Budget, allowance
from farfield.datasets.column import Column, Impute, is_number
from farfield.datasets.content import MOST_BYTES, detect, too_large, whole
from farfield.datasets.table import Choices, LabelKind, Table, build_table
from farfield.errors import InputError, MissingDependency

MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "#NA", "NaN", "nan", "-nan", "NULL", "null")
_READERS = {
    "parquet": "a parquet file; use read_parquet",
    "npz": "a zip archive (an .npz or .xlsx file?); use read_npz or save it as CSV",
    "npy": "a numpy .npy file; save it with numpy.savez and use read_npz",
    "idx": "not text: it holds zero bytes; use read_images if it is an IDX file",
    "pickle": "a Python pickle; use read_images if it is a CIFAR file, or save it as CSV",
}


def read_csv(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    label_kind: LabelKind = "class",
    drop: Sequence[str] = (),
    one_hot: bool | Sequence[str] = False,
    impute: Impute | None = None,
    like: Table | None = None,
    delimiter: str = ",",
) -> Table:
    r"""Read a CSV file with a header, plain or compressed with gzip.

    Args:
        path: The file, UTF-8. Compression is seen from the content, not from the name.
        label: Name of the label column, or None to read every column as a feature.
        label_kind: ``"class"`` turns labels into class indices, ``"number"`` leaves targets.
        drop: Names of columns to leave out.
        one_hot: Spread out text and boolean columns: none (they are refused), all (True), or
            those named, which may also hold numbers.
        impute: How missing values (empty, ``?``, ``NA``, ``NaN``, ``null``, ...) are filled:
            ``"mean"``, ``"median"``, ``"most_frequent"``; None refuses them. Text always takes
            the most frequent value. Labels are never filled.
        like: An earlier table: take its columns, categories, classes and fill values, and leave
            out whatever else the file has.
        delimiter: What separates the columns.

    Returns:
        A `Table`.

    Raises:
        InputError: Anything in the file that cannot be used, by column and row.
        MissingDependency: pyarrow is not installed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "patients.csv"
    ...     _ = file.write_text("age,ward,died\n50,a,yes\n?,b,no\n70,a,no\n")
    ...     table = read_csv(file, label="died", one_hot=True, impute="mean")
    >>> table.feature_names, table.classes
    (('age', 'ward=a', 'ward=b'), ('no', 'yes'))
    >>> table.X.tolist(), table.y.tolist()
    ([[50.0, 1.0, 0.0], [60.0, 0.0, 1.0], [70.0, 1.0, 0.0]], [1, 0, 0])
    """
    where = Path(path).name
    if len(delimiter) != 1:
        raise InputError(f"delimiter must be one character, got {delimiter!r}.")
    read, names = _parse_csv(_content(Path(path)), delimiter, where)
    check_header(names, where, delimiter)
    choices = Choices(where, label, label_kind, drop, one_hot, impute, like)
    return build_table(arrow_columns(read, names, where), choices)


def read_parquet(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    label_kind: LabelKind = "class",
    drop: Sequence[str] = (),
    one_hot: bool | Sequence[str] = False,
    impute: Impute | None = None,
    like: Table | None = None,
) -> Table:
    """Read a parquet file; arguments, result and errors are those of `read_csv`.

    An index that pandas stored (``__index_level_0__``) is left out.
    """
    parquet = pyarrow("pyarrow.parquet")
    arrow = pyarrow("pyarrow")
    where = Path(path).name
    content = whole(path)
    with damaged_parquet(where):
        file = parquet.ParquetFile(arrow.BufferReader(content))
        # Equal values take no room in the file, but all of theirs in memory.
        check_cells(file.metadata, Path(path).stat().st_size, where)
        size = 8 * file.metadata.num_rows * file.metadata.num_columns
        if size > MOST_BYTES:
            raise InputError(f"{where}: {too_large(size)}")
        read = file.read()
    kept = [name for name in read.column_names if not name.startswith("__index_level_")]
    twice = [name for name in kept if kept.count(name) > 1]
    if twice:
        raise InputError(f"{where}: two columns are named {twice[0]!r}. Rename one of them.")
    choices = Choices(where, label, label_kind, drop, one_hot, impute, like)
    return build_table(arrow_columns(read.select(kept), kept, where), choices)


def pyarrow(module: str) -> Any:
    """Import pyarrow when it is first needed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependency(
            "Reading CSV and parquet files needs pyarrow, which is not installed. "
            "Install it with: pip install 'farfield[data]'"
        ) from error


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


def _parse_csv(content: bytes, delimiter: str, where: str) -> tuple[Any, list[str]]:
    """Parse text into an arrow table and its column names."""
    csv, arrow = pyarrow("pyarrow.csv"), pyarrow("pyarrow")
    try:
        read = csv.read_csv(
            arrow.BufferReader(content),
            parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(null_values=MISSING, strings_can_be_null=True),
        )
        return read, [name.strip() for name in read.column_names]
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: the header is not UTF-8. Save the file as UTF-8.") from error
    except arrow.ArrowInvalid as error:
        raise InputError(
            f"{where}: not a CSV file with the same number of columns in every row: {error}. "
            f"Repair the row, or name the separator with delimiter (now {delimiter!r})."
        ) from error


def _content(path: Path) -> bytes:
    """Return the text of a CSV file, decompressed, and tell other formats by their first bytes."""
    found = detect(path)
    if found != "csv":
        raise InputError(f"{path.name}: this is {_READERS[found]}.")
    content = whole(path)
    if not content.strip():
        raise InputError(f"{path.name}: the file is empty. Check that it was copied completely.")
    if b"\0" in content:
        raise InputError(f"{path.name}: this is not text: it holds zero bytes. Is it a CSV file?")
    return content


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
    others = [other for other in (";", "\t", "|", ",") if other != delimiter and other in names[0]]
    if len(names) == 1 and others:
        raise InputError(
            f"{where}: one column only, {names[0][:60]!r}. Is it separated by {others[0]!r}? "
            f"Then pass delimiter={others[0]!r}."
        )


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
