"""Readers of CSV and parquet files, on top of pyarrow (an extra: ``farfield[data]``)."""

import gzip
import importlib
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from farfield.datasets.column import Column, Impute, is_number
from farfield.datasets.table import Choices, LabelKind, Table, build_table
from farfield.errors import InputError, MissingDependency

_MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "#NA", "NaN", "nan", "-nan", "NULL", "null")
_FOREIGN = {
    b"PAR1": "a parquet file; use read_parquet",
    b"PK\x03\x04": "a zip archive (an .npz or .xlsx file?); use read_npz or save it as CSV",
    b"\x93NUMPY": "a numpy .npy file; save it with numpy.savez and use read_npz",
    b"\xff\xfe": "text in UTF-16; save it as UTF-8",
    b"\xfe\xff": "text in UTF-16; save it as UTF-8",
    b"BZh": "compressed with bzip2; decompress it, or use gzip",
    b"\xfd7zXZ": "compressed with xz; decompress it, or use gzip",
    b"\x28\xb5\x2f\xfd": "compressed with zstandard; decompress it, or use gzip",
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
    _check_header(names, where, delimiter)
    choices = Choices(where, label, label_kind, drop, one_hot, impute, like)
    return build_table(_columns(read, names, where), choices)


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
    parquet = _pyarrow("pyarrow.parquet")
    arrow = _pyarrow("pyarrow")
    where = Path(path).name
    content = _bytes(Path(path))
    try:
        read = parquet.read_table(arrow.BufferReader(content))
    except (arrow.ArrowException, OSError) as error:
        raise InputError(
            f"{where}: not a whole parquet file: {error}. Check that it was copied completely and "
            "was not renamed from another format."
        ) from error
    kept = [name for name in read.column_names if not name.startswith("__index_level_")]
    choices = Choices(where, label, label_kind, drop, one_hot, impute, like)
    return build_table(_columns(read.select(kept), kept, where), choices)


def _pyarrow(module: str) -> Any:
    """Import pyarrow when it is first needed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependency(
            "Reading CSV and parquet files needs pyarrow, which is not installed. "
            "Install it with: pip install 'farfield[data]'"
        ) from error


def _parse_csv(content: bytes, delimiter: str, where: str) -> tuple[Any, list[str]]:
    """Parse text into an arrow table and its column names."""
    csv, arrow = _pyarrow("pyarrow.csv"), _pyarrow("pyarrow")
    try:
        read = csv.read_csv(
            arrow.BufferReader(content),
            parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(null_values=_MISSING, strings_can_be_null=True),
        )
        return read, [name.strip() for name in read.column_names]
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: the header is not UTF-8. Save the file as UTF-8.") from error
    except arrow.ArrowInvalid as error:
        raise InputError(
            f"{where}: not a CSV file with the same number of columns in every row: {error}. "
            f"Repair the row, or name the separator with delimiter (now {delimiter!r})."
        ) from error


def _bytes(path: Path) -> bytes:
    """Read a file, or say why it cannot be read."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    if not content:
        raise InputError(f"{path.name}: the file is empty. Check that it was copied completely.")
    return content


def _content(path: Path) -> bytes:
    """Return the text of a CSV file, decompressed, and tell other formats by their first bytes."""
    content = _bytes(path)
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.decompress(content)
        except (EOFError, zlib.error, OSError) as error:
            raise InputError(
                f"{path.name}: the gzip file is cut off or damaged ({error}). Copy it again."
            ) from error
    for start, what in _FOREIGN.items():
        if content.startswith(start):
            raise InputError(f"{path.name}: this is {what}.")
    if not content.strip():
        raise InputError(f"{path.name}: the file is empty. Check that it was copied completely.")
    if b"\0" in content:
        raise InputError(f"{path.name}: this is not text: it holds zero bytes. Is it a CSV file?")
    return content


def _check_header(names: Sequence[str], where: str, delimiter: str) -> None:
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


def _columns(read: Any, names: Sequence[str], where: str) -> list[Column]:
    """Turn arrow columns into ours."""
    types = _pyarrow("pyarrow").types
    columns = []
    for name, chunked in zip(names, read.columns, strict=True):
        kind = chunked.type
        stored_as = str(kind)
        if types.is_dictionary(kind):
            kind = kind.value_type
            chunked = chunked.cast(kind)  # noqa: PLW2901 - the decoded column takes its place
        if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
            values = chunked.cast("float64", safe=False).to_numpy(zero_copy_only=False)
            columns.append(Column(name, "number", values.astype(np.float64), stored_as))
        elif types.is_boolean(kind):
            words = [None if value is None else str(value) for value in chunked.to_pylist()]
            columns.append(Column(name, "category", np.array(words, dtype=object), "boolean"))
        elif types.is_string(kind) or types.is_large_string(kind):
            words = [None if v is None else v.strip() or None for v in chunked.to_pylist()]
            columns.append(Column(name, "category", np.array(words, dtype=object), "text"))
        elif types.is_null(kind):
            columns.append(Column(name, "number", np.full(len(chunked), np.nan), "empty"))
        elif types.is_binary(kind) or types.is_large_binary(kind):
            raise InputError(f"{where}: column {name!r} is not UTF-8 text. Save the file as UTF-8.")
        else:
            columns.append(Column(name, "other", np.array(chunked.is_valid()), stored_as))
    return columns
