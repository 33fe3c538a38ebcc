"""The columns of rows that a model takes as they are: numbers, codes, one-hot blocks, words.

What a :class:`~farfield.data.Source` is to files: a guard reads rows of the user's own with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import InputError

Floats = NDArray[np.float64]
Categorical = Sequence[int | str | Sequence[int | str]]


@dataclass(frozen=True)
class Columns:
    """The columns of flattened rows.

    Attributes:
        shape: Of one row.
        names: Of the columns, in order; ``None`` if nothing names them.
        blocks: The columns of each categorical variable: one with codes, or a one-hot block.
        words: Column to the words that its codes 0, 1, ... stand for.
    """

    shape: tuple[int, ...]
    names: tuple[str, ...] | None = None
    blocks: tuple[tuple[int, ...], ...] = ()
    words: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Number of columns."""
        return math.prod(self.shape)

    @cached_property
    def categorical(self) -> tuple[int, ...]:
        """Positions of the columns of categorical variables."""
        return tuple(sorted(place for block in self.blocks for place in block))

    @cached_property
    def numeric(self) -> tuple[int, ...]:
        """Positions of all other columns."""
        taken = set(self.categorical)
        return tuple(place for place in range(self.width) if place not in taken)

    @cached_property
    def variables(self) -> tuple[tuple[int, ...], ...]:
        """Columns that belong together: blocks, and every numeric column by itself."""
        return (*self.blocks, *((place,) for place in self.numeric))

    @cached_property
    def variable_of(self) -> NDArray[np.intp]:
        """``(columns,)``: the variable of each column."""
        found = np.zeros(self.width, dtype=np.intp)
        for index, block in enumerate(self.variables):
            found[list(block)] = index
        return found

    def name(self, place: int) -> str:
        """What a column is called; -1 is none."""
        if place < 0:
            return ""
        if self.names is not None:
            return self.names[place]
        if len(self.shape) > 1:
            where = np.unravel_index(place, self.shape)
            return f"pixel {', '.join(str(int(part)) for part in where)}"
        return f"column {place}"

    def say(self, place: int, value: float, word: str = "a new word") -> str:
        """A column and its value, as the user knows them; ``word`` is one without a code."""
        words = self.words.get(place)
        if words is None:
            return f"{self.name(place)} = {value:.4g}"
        known = 0 <= value < len(words)
        return f"{self.name(place)} = {words[int(value)] if known else word}"

    def read(self, X: Any, what: str = "x") -> Floats:
        """Rows as ``(rows, columns)`` float64; words as codes, unknown ones as -1."""
        return self.look(X, what).astype(np.float64)

    def look(self, X: Any, what: str = "x") -> NDArray[Any]:
        """The same in their own precision if that is single or double, to be read only.

        No row of an array is copied.
        """
        X = one_row(X)
        names = getattr(X, "columns", None)
        if names is not None and not isinstance(X, Tensor):
            _check_pandas(X, what)
            self._check_names([str(name) for name in names], what)
            found = [self._column(X.iloc[:, place], place, what) for place in range(self.width)]
            return np.column_stack(found).reshape(len(X), self.width)
        if isinstance(X, np.ma.MaskedArray):
            X = np.ma.filled(X.astype(np.float64), np.nan)
        array = X.detach().cpu().numpy() if isinstance(X, Tensor) else np.asarray(X)
        if array.shape == self.shape:
            array = array[None]
        if array.ndim == 0 or array.shape[1:] != self.shape:
            expected = ", ".join(["rows", *map(str, self.shape)])
            raise InputError(f"{what} has shape {array.shape}; the model takes ({expected})")
        if array.dtype.kind not in "fiub":
            raise InputError(
                f"{what} has dtype {array.dtype}; pass numbers, or a DataFrame whose columns of "
                "words are then read as categories"
            )
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
        return array.reshape(len(array), self.width)

    def _check_names(self, names: list[str], what: str) -> None:
        if self.names is None:
            if len(names) != self.width:
                raise InputError(f"{what} has {len(names)} columns; the model takes {self.width}")
        elif tuple(names) != self.names:
            missing = [name for name in self.names if name not in names]
            more = [name for name in names if name not in self.names]
            said = f"has {', '.join(more[:5])}" if more else "has them in another order"
            if missing:
                said = f"lacks {', '.join(missing[:5])}"
            raise InputError(
                f"{what} has other columns than the guard was made from: it {said}; pass "
                f"{', '.join(self.names[:8])}{', ...' if len(self.names) > 8 else ''}"
            )

    def _column(self, values: Any, place: int, what: str) -> Floats:
        words = self.words.get(place)
        if words is not None:
            codes = {word: float(code) for code, word in enumerate(words)}
            return np.array([codes.get(str(value), -1.0) for value in values])
        if values.dtype.kind in "mM":
            raise InputError(
                f"{what} holds times in {self.name(place)}, where the guard was made from numbers"
            )
        try:
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{what} holds words in {self.name(place)}, where the guard was made from numbers"
            ) from error


def one_row(X: Any) -> Any:
    """A row of a table, which pandas gives as a series with names, as a table; all else as is.

    Read by position, a row whose names are in another order would be another row.
    """
    if not hasattr(X, "iloc") or hasattr(X, "columns"):
        return X
    named = all(isinstance(name, str) for name in X.index)
    return X.to_frame().T.infer_objects() if named else X


def _check_pandas(X: Any, what: str) -> None:
    if not hasattr(X, "iloc"):
        kind = type(X)
        raise InputError(
            f"{what} is a {kind.__name__} of {kind.__module__.split('.')[0]}; a guard reads arrays "
            "and DataFrames of pandas (X.to_pandas())"
        )


def read_columns(
    X: Any,
    shape: tuple[int, ...] | None,
    categorical: Categorical | None,
    known: tuple[str, ...] | None = None,
) -> Columns:
    """Find out what the columns of training rows are.

    Args:
        X: Training rows; columns of words in a DataFrame are categories.
        shape: Of one row, if the model knows it.
        categorical: Columns of codes, and lists of columns of one-hot blocks, by position or name.
        known: Names of the columns that the model knows, for arrays, which have none.

    >>> read_columns(np.zeros((4, 5)), None, [0, (2, 3)]).numeric
    (1, 4)
    """
    names, words = known, {}
    if hasattr(X, "columns") and not isinstance(X, Tensor):
        _check_pandas(X, "X")
        names = tuple(str(name) for name in X.columns)
        for place in range(len(names)):
            if X.dtypes.iloc[place].kind not in "fiub":
                words[place] = tuple(sorted({str(value) for value in X.iloc[:, place]}))
        shape = shape or (len(names),)
    shape = shape or tuple(np.shape(X)[1:])
    if not shape:
        raise InputError(f"X has shape {np.shape(X)}; pass (rows, columns)")
    blocks = blocks_of(categorical, Columns(shape, names))
    taken = {place for block in blocks for place in block}
    blocks += tuple((place,) for place in words if place not in taken)
    return Columns(shape, names, blocks, words)


def blocks_of(named: Categorical | None, columns: Columns) -> tuple[tuple[int, ...], ...]:
    """Positions of columns, and of lists of them, that are named by position or name."""
    places = {name: place for place, name in enumerate(columns.names or ())}
    found = []
    for item in named or ():
        block = [item] if isinstance(item, int | np.integer | str) else list(item)
        found.append(
            tuple(places.get(each, -1) if isinstance(each, str) else int(each) for each in block)
        )
    flat = [place for block in found for place in block]
    last = columns.width - 1
    if any(not 0 <= place <= last for place in flat) or len(set(flat)) < len(flat):
        raise InputError(
            f"categorical and numeric name different columns from 0 to {last}, got {named!r}"
        )
    return tuple(block for block in found if block)
