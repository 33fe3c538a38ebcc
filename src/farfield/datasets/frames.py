"""Arrays and data frames in memory as columns; no data frame library is imported."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.datasets.arrow import arrow_columns
from farfield.datasets.column import Column, text_column
from farfield.datasets.stream import MemoryStream, matrix_columns
from farfield.errors import InputError

_ABSENT = ("NAType", "NaTType")


def frame_stream(
    X: Any,
    y: Any = None,
    names: Sequence[str] | None = None,
    label: str | None = None,
    where: str = "X",
) -> MemoryStream:
    """Turn inputs and labels in memory into a stream.

    Args:
        X: A matrix (numpy, torch, nested lists), a DataFrame of pandas or polars, or a table of
            pyarrow.
        y: Labels, one per row, or None.
        names: Of the columns, instead of the frame's.
        label: Column of the frame that holds the labels, or what to call ``y``.
        where: What to call the data in messages.
    """
    columns = frame_columns(X, names, where)
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
    labels = value_column(name, y)
    rows = len(columns[0]) if columns else 0
    if len(labels) != rows:
        raise InputError(f"{where}: {len(labels)} labels for {rows} rows.")
    return MemoryStream([*columns, labels], where, name, named=named)


def _has_names(X: Any) -> bool:
    """Whether columns are called something; the numbers that pandas gives them are no names."""
    names = getattr(X, "column_names", getattr(X, "columns", ()))
    return any(isinstance(name, str) for name in names)


def _label_names(taken: int) -> list[str]:
    """Names for labels that have none, one more than columns can have taken."""
    return ["y", *(f"label {k}" for k in range(taken + 1))]


def frame_columns(X: Any, names: Sequence[str] | None, where: str) -> list[Column]:
    """Turn a matrix or a data frame into columns."""
    if hasattr(X, "column_names") and hasattr(X, "schema"):
        found = list(X.column_names)
        _check_names(found, names, where)
        return arrow_columns(X, list(names or found), where)
    if hasattr(X, "columns") and hasattr(X, "__getitem__"):
        found = [str(name) for name in X.columns]
        _check_names(found, names, where)
        keys = list(X.columns)
        return [value_column(name, X[key]) for name, key in zip(names or found, keys, strict=True)]
    matrix = as_array(X, where)
    if matrix.ndim == 2 and matrix.dtype.kind in "OU":
        listed = list(names or (f"x{k}" for k in range(matrix.shape[1])))
        _check_names([f"x{k}" for k in range(matrix.shape[1])], listed, where)
        return [value_column(name, matrix[:, k]) for k, name in enumerate(listed)]
    return matrix_columns(matrix, names, where)


def value_column(name: str, values: Any) -> Column:
    """Turn values of any kind into a column, told apart by what they are."""
    array = as_array(values, name)
    if array.ndim != 1:
        raise InputError(f"column {name!r} must have one value per row, got shape {array.shape}.")
    if array.dtype.kind in "fiu":
        return Column(name, "number", array.astype(np.float64, copy=False), str(array.dtype))
    if array.dtype.kind == "b":
        return Column(name, "category", array.astype(np.int64), "boolean", ("False", "True"))
    if array.dtype.kind not in "OUT":
        return Column(name, "other", np.ones(len(array), dtype=bool), str(array.dtype))
    return _object_column(name, array.tolist())


def _object_column(name: str, values: list[Any]) -> Column:
    """Tell numbers, booleans and text in a list of Python objects apart."""
    absent = [
        v is None or type(v).__name__ in _ABSENT or (isinstance(v, float) and v != v)
        for v in values
    ]
    kinds = {type(v) for v, gone in zip(values, absent, strict=True) if not gone}
    if all(issubclass(kind, bool | np.bool_) for kind in kinds) and kinds:
        codes = [-1 if gone else int(v) for v, gone in zip(values, absent, strict=True)]
        return Column(name, "category", np.array(codes), "boolean", ("False", "True"))
    if all(issubclass(kind, int | float | np.number) for kind in kinds) and bool not in kinds:
        numbers = [np.nan if gone else float(v) for v, gone in zip(values, absent, strict=True)]
        return Column(name, "number", np.array(numbers, dtype=np.float64), "object")
    if all(issubclass(kind, str) for kind in kinds):
        texts = [
            None if gone else v.strip() or None for v, gone in zip(values, absent, strict=True)
        ]
        return text_column(name, texts)
    stored = ", ".join(sorted(kind.__name__ for kind in kinds))
    return Column(name, "other", ~np.array(absent), f"objects: {stored}")


def as_array(values: Any, where: str) -> NDArray[Any]:
    """Take an array from whatever holds one."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"{where} cannot be read as an array: {error}.") from error


def _check_names(found: Sequence[str], names: Sequence[str] | None, where: str) -> None:
    """Refuse names that do not fit, and those that occur twice."""
    if names is not None and len(names) != len(found):
        raise InputError(f"{where}: {len(names)} feature names for {len(found)} columns.")
    listed = list(names or found)
    if len(set(listed)) < len(listed):
        twice = sorted({name for name in listed if listed.count(name) > 1})
        raise InputError(f"{where}: column names occur twice: {twice}. Rename them.")
