"""What is known about the columns of a table, and how their values become a model's inputs.

The one place that spreads categories out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from farfield.data.stream import Column, Fill, positions
from farfield.errors import InputError

Floats = NDArray[np.float64]
ColumnKind = Literal["numeric", "categorical"]


@dataclass(frozen=True)
class TableColumn:
    """One column of a table and the inputs it becomes.

    Attributes:
        name: From the file.
        places: Of its inputs in a row: one of a number, for a category those of its one-hot code,
            in the order of ``values``.
        unit: For reading, or nothing.
        low: The smallest possible value, ``-inf`` if there is none.
        high: The largest possible value, ``inf`` if there is none.
        values: Of a category; empty for numbers.
        counts: Rows with each of these values, after imputation.
        missing: Rows without a value.
        fill: What missing values become, or None.
        sources: Columns of the file that are the one-hot code of this category already.
        spaced: Values that are written, or that a model knows, with spaces around them, and how.
        binary: Whether it is a number that is 0 or 1: a category that is one input.
        codes: Values that stand for missing.
    """

    name: str
    places: tuple[int, ...]
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf
    values: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    missing: int = 0
    fill: Fill | None = None
    sources: tuple[str, ...] = ()
    spaced: tuple[tuple[str, str], ...] = ()
    binary: bool = False
    codes: tuple[str, ...] = ()

    @property
    def categorical(self) -> bool:
        """Whether it is a one-hot code."""
        return bool(self.values)

    @property
    def discrete(self) -> bool:
        """Whether it is moved between values instead of scaled."""
        return self.categorical or self.binary

    @property
    def options(self) -> tuple[str, ...]:
        """The values that it is moved between; none for other numbers."""
        return ("0", "1") if self.binary else self.values

    def put(self, rows: Floats, option: int) -> Floats:
        """Rows with one of the options."""
        moved = rows.copy()
        if self.binary:
            moved[:, self.places[0]] = float(option)
        else:
            moved[:, list(self.places)] = 0.0
            moved[:, self.places[option]] = 1.0
        return moved

    @property
    def kind(self) -> ColumnKind:
        """``"numeric"`` is one input; ``"categorical"`` is a one-hot code."""
        return "categorical" if self.values else "numeric"

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of the file that it is read from."""
        return self.sources or (self.name,)

    @property
    def bounded(self) -> bool:
        """Whether a numeric column has a bound."""
        return self.low > -math.inf or self.high < math.inf

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of its inputs: ``column``, or ``column=value`` for every value."""
        if self.sources or not self.categorical:
            return self.reads
        return tuple(f"{self.name}={value}" for value in self.values)


def encode(
    columns: Sequence[TableColumn], read: Sequence[Column], features: int, where: str
) -> Floats:
    """Turn columns as they were read into inputs, ``(rows, features)`` float64.

    Missing values are filled, categories spread out; all were found usable before, so that a
    value that is not means that the file has changed.
    """
    rows = len(read[0]) if read else 0
    # One input after the other is contiguous this way round.
    encoded = np.empty((features, rows))
    parts = iter(read)
    for column in columns:
        if column.sources:
            for feature in column.places:
                encoded[feature] = prepared(next(parts), "numeric").values
            good = not not_one_hot(encoded[list(column.places)]).any()
        else:
            good = _encode_one(column, prepared(next(parts), column.kind), encoded)
        if not good:
            raise InputError(f"{where}: column {column.name!r} changed while the file was read.")
    return encoded.T


def _encode_one(column: TableColumn, read: Column, encoded: Floats) -> bool:
    """Write the inputs of one column; tell whether all of its values are usable."""
    if column.fill is not None:
        read = read.filled(column.fill)
    if not column.categorical:
        if read.kind != "number":
            return False
        encoded[column.places[0]] = read.values
        return bool(np.isfinite(read.values).all())
    index = positions(read, column.values)
    for place, feature in enumerate(column.places):
        encoded[feature] = index == place
    return bool((index >= 0).all())


def not_one_hot(codes: Floats) -> NDArray[np.bool_]:
    """Tell which rows of ``(columns, rows)`` are not a single 1 among zeros."""
    wrong: NDArray[np.bool_] = ~((codes == 0) | (codes == 1)).all(axis=0) | (codes.sum(axis=0) != 1)
    return wrong


def prepared(read: Column, kind: ColumnKind) -> Column:
    """Turn a boolean column into 0 and 1 if it enters as a number, numbers into categories."""
    if kind == "categorical":
        return read.as_category()
    if read.kind == "category" and read.stored_as == "boolean":
        truth = np.where(read.values < 0, np.nan, positions(read, ("False", "True")))
        return Column(read.name, "number", truth, read.stored_as)
    return read
