"""Encoded rows as the data frame that they came from: categories by their values.

A pipeline that starts from raw columns takes text and codes, not the one-hot code in which an audit
moves them. This is the way back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.data.encoding import TableColumn
from farfield.data.stream import is_number, value_text
from farfield.errors import MissingDependency

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RawColumns:
    """The raw columns that a model takes, in its order.

    Attributes:
        names: What the model calls them.
        columns: The columns of the table; places are those of ``widths`` in a row of the model.
        values: For a category its values as the model knows them, and last one that it does not
            know; else nothing.
    """

    names: tuple[str, ...]
    columns: tuple[TableColumn, ...]
    values: tuple[NDArray[Any] | None, ...]

    @classmethod
    def of(cls, names: Sequence[str], columns: Sequence[TableColumn], data: Any) -> RawColumns:
        """Take columns in a model's order; values come from the data where it is a frame."""
        values = tuple(_values(column, data) for column in columns)
        return cls(tuple(names), tuple(columns), values)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the encoded inputs, in order."""
        return tuple(name for column in self.columns for name in column.feature_names)

    def as_mapping(self, rows: Floats) -> dict[str, NDArray[Any]]:
        """Encoded rows as one array for every raw column."""
        found: dict[str, NDArray[Any]] = {}
        place = 0
        for name, column, values in zip(self.names, self.columns, self.values, strict=True):
            width = len(column.feature_names)
            part = rows[:, place : place + width]
            if values is None:
                found[name] = part[:, 0]
            else:
                known = part.any(axis=1)
                found[name] = values[np.where(known, part.argmax(axis=1), -1)]
            place += width
        return found

    def as_objects(self, rows: Floats) -> NDArray[Any]:
        """Encoded rows as one array of raw values, ``(rows, columns)``."""
        parts = self.as_mapping(rows).values()
        return np.stack([part.astype(object) for part in parts], axis=1)

    def as_frame(self, rows: Floats) -> Any:
        """Encoded rows as a DataFrame of pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingDependency(
                "this model takes a data frame, which needs pandas: pip install pandas"
            ) from error
        return pd.DataFrame(self.as_mapping(rows))


def _values(column: TableColumn, data: Any) -> NDArray[Any] | None:
    """The values of a category as the data has them: text stays text, codes become numbers."""
    if not column.categorical:
        return None
    known = _in_frame(column.name, data)
    if known is None:
        known = _as_a_reader_would(column.values)
    known = {**known, **dict(column.spaced)}
    own = [known.get(value, value) for value in column.values]
    values = np.empty(len(own) + 1, dtype=object)
    values[:] = [*own, _unknown(own)]
    return values


def _unknown(values: Sequence[Any]) -> Any:
    """A value that is none of these, but of their kind; nothing there is beside the two truths."""
    if all(isinstance(value, bool | np.bool_) for value in values):
        return None
    if all(isinstance(value, int | float | np.number) for value in values):
        return max(values) + 1
    return max((str(value) for value in values), key=len) + "?"


def _in_frame(name: str, data: Any) -> Mapping[str, Any] | None:
    """Text of a value to the value, if the data is a frame of pandas."""
    if not hasattr(data, "dtypes") or name not in getattr(data, "columns", ()):
        return None
    return {value_text(value).strip(): value for value in data[name].dropna().unique()}


def _as_a_reader_would(values: Sequence[str]) -> Mapping[str, Any]:
    """What pandas makes of a column of such texts in a CSV file."""
    if set(values) <= {"True", "False"}:
        return {value: value == "True" for value in values}
    if all(is_number(value) for value in values):
        numbers = {value: float(value) for value in values}
        whole = all(number.is_integer() for number in numbers.values())
        return {value: int(number) if whole else number for value, number in numbers.items()}
    return {}
