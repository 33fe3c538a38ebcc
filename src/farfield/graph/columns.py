"""Rows of a data frame as the numbers that a network takes: categories as codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import InputError
from farfield.graph.reading import InputColumn

Floats = NDArray[np.float64]
# How many names a message lists.
LISTED = 5


def encode_rows(columns: Sequence[InputColumn], rows: Any, what: str = "x") -> Floats:
    """Bring rows to numbers, ``(rows, columns)``, in the order of a model's columns.

    A column with categories becomes the code of its value: its place among them, -1 for a value
    that is none of them, NaN for a missing one. Numbers stay as they are.

    Args:
        columns: What the model takes.
        rows: A frame of pandas or polars or another that has columns by name, a mapping of names
            to arrays, or a two-dimensional array; frames are read by name where the model knows
            the names of its columns, in whatever order.
        what: What messages call the rows.

    Raises:
        InputError: For columns that are missing or not known, and for values that the model does
            not take, with column, row and value.

    >>> size, city = InputColumn("size"), InputColumn("city", ("Oslo", "Rome"))
    >>> encode_rows([size, city], {"city": ["Rome", "Oslo"], "size": [3, 2.5]}).tolist()
    [[3.0, 1.0], [2.5, 0.0]]
    """
    parts = _split(columns, rows, what)
    lengths = {len(part) for part in parts}
    if len(lengths) > 1:
        raise InputError(f"{what} has columns of different lengths: {sorted(lengths)}")
    encoded = np.empty((lengths.pop() if lengths else 0, len(columns)))
    for place, (column, part) in enumerate(zip(columns, parts, strict=True)):
        label = f"column {place}" if column.name is None else f"column {column.name!r}"
        encoded[:, place] = _encode(column, part, f"{what}, {label}")
    return encoded


def is_table(rows: Any) -> bool:
    """Whether rows are a frame, a mapping of columns, or an array of values that are no numbers."""
    if _frame_names(rows) is not None:
        return True
    return isinstance(rows, np.ndarray) and rows.dtype.kind in "OUSb"


def _split(columns: Sequence[InputColumn], rows: Any, what: str) -> list[NDArray[Any]]:
    """One array for each column."""
    names = _frame_names(rows)
    if names is None:
        array = np.asarray(rows)
        if array.ndim == 1 and len(array) == len(columns):
            array = array[None]
        if array.ndim != 2 or array.shape[1] != len(columns):
            raise InputError(
                f"{what} has shape {array.shape}; the model takes (rows, {len(columns)})"
            )
        return list(array.T)
    known = [column.name for column in columns]
    if None in known:
        if len(names) != len(columns):
            raise InputError(f"{what} has {len(names)} columns; the model takes {len(columns)}")
        return [_array(rows[name]) for name in names]
    _check_names(columns, names, what)
    count = next((len(rows[name]) for name in names), 0)
    given = [str(name) for name in names]
    return [
        _array(rows[_own(names, column.name)]) if str(column.name) in given else np.zeros(count)
        for column in columns
    ]


def _frame_names(rows: Any) -> list[Any] | None:
    """The names of the columns of a frame; ``None`` if it is none."""
    if isinstance(rows, Mapping):
        return list(rows)
    names = getattr(rows, "columns", None)
    return None if names is None or not hasattr(rows, "__getitem__") else list(names)


def _own(names: list[Any], name: str | None) -> Any:
    """A frame's own name of a column: models know names as text."""
    return name if name in names else next(each for each in names if str(each) == name)


def _check_names(columns: Sequence[InputColumn], names: list[Any], what: str) -> None:
    given = [str(name) for name in names]
    needed = {column.name for column in columns if column.used}
    missing = [name for name in needed if name not in given]
    extra = [name for name in given if name not in {column.name for column in columns}]
    twice = sorted({name for name in given if given.count(name) > 1})
    problems = [
        f"{words} {_listed(found)}"
        for words, found in (
            ("lacks", sorted(map(str, missing))),
            ("has, unknown to the model,", extra),
            ("has more than once", twice),
        )
        if found
    ]
    if problems:
        raise InputError(
            f"{what} {' and '.join(problems)}; the model takes "
            f"{_listed([str(column.name) for column in columns])}"
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:LISTED]))
    return f"{shown}, ... ({len(names)} in all)" if len(names) > LISTED else shown


def _array(column: Any) -> NDArray[Any]:
    """A column of a frame as an array; categories of pandas as their values."""
    if hasattr(column, "to_numpy"):
        return np.asarray(column.to_numpy())
    return np.asarray(column, dtype=object) if isinstance(column, list) else np.asarray(column)


def _encode(column: InputColumn, values: NDArray[Any], where: str) -> Floats:
    if not column.used:
        return _ignored(values)
    if column.categories is None:
        encoded = _numbers(values, where)
    else:
        encoded = _codes(column, values, where)
    absent = np.isnan(encoded)
    if not column.missing and absent.any():
        raise InputError(
            f"{where}: row {int(np.argmax(absent))} has no value; the model takes none without"
        )
    return encoded


def _ignored(values: NDArray[Any]) -> Floats:
    """Numbers if they are some, else zeros: the model does not look."""
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        return np.zeros(len(values))
    return np.where(np.isfinite(numbers), numbers, 0.0)


def _numbers(values: NDArray[Any], where: str) -> Floats:
    if values.dtype.kind in "mM":
        raise InputError(
            f"{where} holds times; the model takes numbers: turn them into days or seconds first"
        )
    try:
        numbers: Floats = values.astype(np.float64)
    except (TypeError, ValueError):
        numbers = np.array([_number(value, row, where) for row, value in enumerate(values)])
    if np.isinf(numbers).any():
        row = int(np.argmax(np.isinf(numbers)))
        raise InputError(f"{where}: row {row} has the value {values[row]!r}, which is infinite")
    return numbers


def _number(value: Any, row: int, where: str) -> float:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return float("nan")
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{where}: row {row} has the value {value!r}, which is no number"
        ) from error


def _codes(column: InputColumn, values: NDArray[Any], where: str) -> Floats:
    places = {value: float(code) for code, value in enumerate(column.categories or ())}
    encoded = np.empty(len(values))
    for row, value in enumerate(values.tolist()):
        try:
            code = places.get(value)
        except TypeError as error:
            raise InputError(f"{where}: row {row} has the value {value!r}") from error
        if code is None:
            code = _unknown(column, value, row, where)
        encoded[row] = code
    return encoded


def _unknown(column: InputColumn, value: Any, row: int, where: str) -> float:
    """The code of a value that is no category."""
    if type(value).__name__ in ("NAType", "NaTType") or bool(value != value):
        return float("nan")
    if column.unseen:
        return -1.0
    if value is None and column.missing:
        return float("nan")
    raise InputError(
        f"{where}: row {row} has the value {value!r}; the model knows "
        f"{_listed([str(each) for each in column.categories or ()])} only"
    )
