"""A table as a stream of columns, whatever holds it: a file, arrays or a data frame.

No data frame library is imported, and pyarrow only where it is needed: it starts threads.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.data.arrays import array_names, load_arrays, read_npy
from farfield.data.content import detect
from farfield.data.stream import Column, MemoryStream, Stream, as_array, check_names
from farfield.errors import InputError

_INPUTS = ("X", "x", "inputs", "features", "data")
_LABELS = ("y", "labels", "label", "targets", "target")


def open_stream(
    path: str | os.PathLike[str], *, label: str | None = None, delimiter: str | None = None
) -> Stream:
    """Open a table; CSV and parquet are streamed, .npz and .npy are loaded."""
    where, found = Path(path).name, detect(path)
    if found == "parquet":
        from farfield.data.arrow import ParquetStream

        return ParquetStream(path)
    if found == "csv":
        from farfield.data.delimited import CsvStream

        return CsvStream(path, delimiter)
    if found == "npz":
        return _npz_stream(path, label)
    if found == "npy":
        inputs = read_npy(path)
        labels = read_npy(label) if label is not None else None
        columns = _matrix_columns(inputs, None, where)
        if labels is not None:
            columns.append(_label_column(str(label), labels, len(inputs), where))
        return MemoryStream(columns, where, label, named=False)
    kind = "IDX images" if found == "idx" else "a Python pickle"
    raise InputError(
        f"{where}: this is {kind}, not a table. Tables are CSV, parquet, .npz or .npy files; "
        "images are read with read_images."
    )


def _npz_stream(path: str | os.PathLike[str], label: str | None) -> Stream:
    """Find inputs, labels and names among the arrays of an archive."""
    where, found = Path(path).name, array_names(path)
    inputs = next((name for name in _INPUTS if name in found), None)
    if inputs is None:
        raise InputError(
            f"{where}: no array of inputs. It is looked for as {', '.join(_INPUTS)}; the arrays "
            f"are {found}."
        )
    # A label that is no array may still be a column, by its feature name.
    named = label if label in found else None
    if label is None:
        named = next((name for name in _LABELS if name in found), None)
    wanted = [inputs, *([named] if named is not None else [])]
    arrays = load_arrays(path, wanted, "feature_names")
    names = (
        [str(name) for name in arrays["feature_names"].ravel()]
        if ("feature_names" in arrays)
        else None
    )
    columns = _matrix_columns(arrays[inputs], names, where, f"array {inputs!r}")
    if named is not None:
        columns.append(_label_column(named, arrays[named], len(arrays[inputs]), where))
    return MemoryStream(columns, where, named, named=names is not None)


def frame_stream(
    X: Any,
    y: Any = None,
    names: Sequence[str] | None = None,
    label: str | None = None,
    where: str = "X",
) -> MemoryStream:
    """Turn inputs and labels in memory into a stream."""
    columns = _frame_columns(X, names, where)
    named = names is not None or _has_names(X)
    if y is None:
        return MemoryStream(columns, where, label, named=named)
    taken = {column.name for column in columns}
    # A series that was computed from a column still carries the column's name.
    own = getattr(y, "name", None)
    given = label or (own if own not in taken else None)
    name = str(given) if given else next(n for n in _label_names(len(taken)) if n not in taken)
    if name in taken:
        raise InputError(f"{where}: labels are given twice, as y and as column {name!r}.")
    labels = _value_column(name, _one_each(y, name, where), where)
    rows = len(columns[0]) if columns else 0
    if len(labels) != rows:
        raise InputError(f"{where}: {len(labels)} labels for {rows} rows.")
    return MemoryStream([*columns, labels], where, name, named=named)


def _one_each(y: Any, name: str, where: str) -> Any:
    """Labels as one value per row; a matrix of zeros and ones says more, or says it otherwise."""
    if len(getattr(y, "shape", ())) != 2:
        return y
    matrix = as_array(y, name)
    if matrix.shape[1] == 1:
        return matrix[:, 0]
    if matrix.dtype.kind not in "fiub" or not bool(np.isin(matrix, (0, 1)).all()):
        return matrix
    if bool((matrix.sum(axis=1) == 1).all()):
        raise InputError(
            f"{where}: labels have a column for each class; pass the class of each row, "
            "y.argmax(axis=1)."
        )
    raise InputError(
        f"{where}: some rows have no label or several, so labels do not exclude one another, and "
        "each is a classifier of its own. Audit one at a time: ff.capture(model, X[:1], "
        "head='multilabel', label=0) with y[:, 0]."
    )


def _has_names(X: Any) -> bool:
    """Whether columns are called something; the numbers that pandas gives them are no names."""
    names = getattr(X, "column_names", getattr(X, "columns", ()))
    return any(isinstance(name, str) for name in names)


def _label_names(taken: int) -> list[str]:
    """Names for labels that have none, one more than columns can have taken."""
    return ["y", *(f"label {k}" for k in range(taken + 1))]


def _frame_columns(X: Any, names: Sequence[str] | None, where: str) -> list[Column]:
    """Turn a matrix or a data frame into columns."""
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):
        raise InputError(
            f"{where}: a {type(X).__name__} holds no rows yet; pass what its collect() returns."
        )
    if hasattr(X, "column_names") and hasattr(X, "schema"):
        from farfield.data.arrow import arrow_columns

        return arrow_columns(X, _named(X.column_names, names, where), where)
    if hasattr(X, "columns") and hasattr(X, "__getitem__"):
        listed = _named([str(name) for name in X.columns], names, where)
        return [
            _value_column(name, X[key], where) for name, key in zip(listed, X.columns, strict=True)
        ]
    matrix = as_array(X, where)
    if matrix.ndim == 2 and matrix.dtype.kind in "OU":
        listed = _named([f"x{k}" for k in range(matrix.shape[1])], names, where)
        return [_value_column(name, matrix[:, k], where) for k, name in enumerate(listed)]
    return _matrix_columns(matrix, names, where)


def _matrix_columns(
    inputs: NDArray[Any], names: Sequence[str] | None, where: str, what: str = "inputs"
) -> list[Column]:
    """Turn a matrix of numbers into columns, x0, x1, ... unless they are named."""
    if inputs.ndim != 2 or inputs.dtype.kind not in "fiub":
        raise InputError(
            f"{where}: {what} must be numbers of shape (rows, features), got {inputs.dtype} of "
            f"shape {inputs.shape}. Flatten images first, or read them as images."
        )
    if names is not None and len(names) != inputs.shape[1]:
        raise InputError(f"{where}: {len(names)} feature_names for {inputs.shape[1]} columns.")
    if names is None:
        names = [f"x{k}" for k in range(inputs.shape[1])]
    numbers = inputs if inputs.dtype.kind == "f" else inputs.astype(np.float64)
    return [
        Column(name, "number", numbers[:, k], str(inputs.dtype)) for k, name in enumerate(names)
    ]


def _label_column(name: str, values: NDArray[Any], rows: int, where: str) -> Column:
    """Turn an array of labels into a column."""
    if values.shape != (rows,):
        raise InputError(f"{where}: labels {name!r} must have shape ({rows},), got {values.shape}.")
    return _value_column(name, values, where)


def _value_column(name: str, values: Any, where: str) -> Column:
    """Turn values in memory into a column."""
    from farfield.data.arrow import value_column

    return value_column(name, values, where)


def _named(found: Sequence[str], names: Sequence[str] | None, where: str) -> Sequence[str]:
    """Return the names that were given, else those found; refuse what does not fit."""
    if names is not None and len(names) != len(found):
        raise InputError(f"{where}: {len(names)} feature names for {len(found)} columns.")
    check_names(names or found, where)
    return names or found
