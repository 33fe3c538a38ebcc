"""A table of numbers with names: what every reader returns, and how columns become one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from farfield.datasets.column import (
    Column,
    Fill,
    Impute,
    distinct,
    fill_value,
    filled,
    first_text,
    number_text,
    one_hot,
    positions,
)
from farfield.errors import InputError

LabelKind = Literal["class", "number"]


@dataclass(frozen=True, eq=False)
class Table:
    """Finite numbers with names, and labels.

    Attributes:
        X: Inputs, ``(rows, features)`` float64, finite.
        y: Class indices into ``classes`` (int64), targets (float64), or None without a label.
        feature_names: One per column of ``X``; a category is named ``column=value``.
        label_name: Column of the labels, or None.
        classes: Class values in the order of their indices, or None.
        categories: Column that was spread out to its values, in the order of its features.
        fills: Column to what its missing values became; empty unless values were imputed.
    """

    X: NDArray[np.float64]
    y: NDArray[Any] | None
    feature_names: tuple[str, ...]
    label_name: str | None
    classes: tuple[str | int, ...] | None
    categories: Mapping[str, tuple[str, ...]]
    fills: Mapping[str, Fill]

    def block(self, column: str) -> slice:
        """Return the features that a spread-out column became."""
        first = self.feature_names.index(f"{column}={self.categories[column][0]}")
        return slice(first, first + len(self.categories[column]))


@dataclass(frozen=True)
class Choices:
    """What the caller decided about a file, and where it is, for messages."""

    where: str
    label: str | None = None
    label_kind: LabelKind = "class"
    drop: Sequence[str] = ()
    one_hot: bool | Sequence[str] = False
    impute: Impute | None = None
    like: Table | None = None

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse unknown options and columns that the file does not have."""
        if self.label_kind not in get_args(LabelKind):
            raise InputError(f"label_kind must be 'class' or 'number', got {self.label_kind!r}.")
        if self.impute is not None and self.impute not in get_args(Impute):
            options = ", ".join(repr(option) for option in get_args(Impute))
            raise InputError(f"impute must be None or one of {options}; got {self.impute!r}.")
        names = [column.name for column in columns]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise InputError(f"{self.where}: column names occur twice: {doubled}. Rename them.")
        asked = [self.label] if self.label is not None else []
        for what in (self.drop, self.one_hot):
            if isinstance(what, str):
                raise InputError(f"drop and one_hot take a list of column names, got {what!r}.")
            asked += [] if isinstance(what, bool) else list(what)
        absent = [name for name in asked if name not in names]
        if absent:
            raise InputError(f"{self.where}: no column {absent}. The columns are {names}.")


def build_table(columns: Sequence[Column], choices: Choices) -> Table:
    """Turn columns into a table as the caller decided, or say what stands in the way."""
    choices.check(columns)
    if not columns or len(columns[0].values) == 0:
        raise InputError(f"{choices.where}: there are no data rows. Check that the file is whole.")
    labels = [column for column in columns if column.name == choices.label]
    features = _chosen_features(columns, choices)
    _check_finite([*features, *labels], choices.where)
    fills = _fills(features, choices)
    features = [filled(column, fills) for column in features]
    X, names, categories = _numbers(features, choices)
    y, classes = _encode_labels(labels[0], choices) if labels else (None, None)
    return Table(X, y, names, choices.label, classes, categories, fills)


def _chosen_features(columns: Sequence[Column], choices: Choices) -> list[Column]:
    """Select and type the feature columns, all troubles in one error."""
    spread = () if isinstance(choices.one_hot, bool) else tuple(choices.one_hot)
    if choices.like is not None:
        columns = _as_in(choices.like, columns, choices.where)
        spread = tuple(choices.like.categories)
    left_out = {choices.label, *choices.drop}
    chosen, troubles = [], []
    for column in columns:
        if column.name in left_out and choices.like is None:
            continue
        if column.name in spread and column.kind != "other":
            chosen.append(column.as_category())
        elif column.kind == "number" or (
            column.kind == "category" and choices.one_hot is True and choices.like is None
        ):
            chosen.append(column)
        elif column.kind == "category":
            troubles.append(f"{column.name!r} ({column.stored_as}, {first_text(column)})")
        else:
            troubles.append(f"{column.name!r} ({column.stored_as})")
    if troubles:
        raise InputError(
            f"{choices.where}: columns that are not numbers: {', '.join(troubles)}. "
            "Spread text and booleans out with one_hot=True, or leave columns out with drop=[...]."
        )
    if not chosen:
        raise InputError(f"{choices.where}: no feature columns are left.")
    return chosen


def _as_in(like: Table, columns: Sequence[Column], where: str) -> list[Column]:
    """Return the columns of an earlier table, in its order; further columns are left out."""
    by_name = {column.name: column for column in columns}
    spread = {
        f"{name}={value}": name for name, values in like.categories.items() for value in values
    }
    wanted = list(dict.fromkeys(spread.get(name, name) for name in like.feature_names))
    absent = [name for name in wanted if name not in by_name]
    if absent:
        raise InputError(f"{where}: the earlier table has columns {absent}, this file does not.")
    return [by_name[name] for name in wanted]


def _check_finite(columns: Sequence[Column], where: str) -> None:
    """Refuse infinite numbers, which files hold when a number is too large for a float."""
    for column in columns:
        if column.kind == "number" and np.isinf(column.values).any():
            row = int(np.flatnonzero(np.isinf(column.values))[0]) + 1
            raise InputError(
                f"{where}: column {column.name!r} holds an infinite number, first in data row "
                f"{row}: infinity, or a number beyond 1.8e308. Repair it or leave it empty."
            )


def _fills(columns: Sequence[Column], choices: Choices) -> dict[str, Fill]:
    """Return a value for every column's missing entries, or refuse those that have none."""
    counts = {column.name: int(column.missing().sum()) for column in columns}
    empty = [c.name for c in columns if counts[c.name] == len(c.values)]
    if empty:
        raise InputError(
            f"{choices.where}: columns without a single value: {empty}. Leave them out with drop."
        )
    if choices.like is not None:
        fills = dict(choices.like.fills)
    elif choices.impute is not None:
        fills = {column.name: fill_value(column, choices.impute) for column in columns}
    else:
        fills = {}
    lacking = {name: n for name, n in counts.items() if n and name not in fills}
    if lacking:
        listed = ", ".join(f"{name!r} ({n} missing)" for name, n in lacking.items())
        rows = len(columns[0].values)
        raise InputError(
            f"{choices.where}: missing values in {len(lacking)} of {len(columns)} columns, {rows} "
            f"rows: {listed}. Fill them with impute='mean', 'median' or 'most_frequent'"
            f"{' when reading the earlier table' if choices.like else ''}, or use drop."
        )
    return fills


def _numbers(
    columns: Sequence[Column], choices: Choices
) -> tuple[NDArray[np.float64], tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Stack the columns, categories spread out."""
    blocks: list[NDArray[np.float64]] = []
    names: list[str] = []
    categories: dict[str, tuple[str, ...]] = {}
    for column in columns:
        if column.kind == "number":
            blocks.append(column.values[:, None])
            names.append(column.name)
            continue
        known = choices.like.categories[column.name] if choices.like is not None else None
        values = known or distinct(column, choices.where)
        categories[column.name] = values
        blocks.append(one_hot(column, values, choices.where))
        names += [f"{column.name}={value}" for value in values]
    if len(set(names)) < len(names):
        raise InputError(
            f"{choices.where}: a category and a column have the same name, 'column=value'. "
            "Rename the column."
        )
    return np.hstack(blocks), tuple(names), categories


def _encode_labels(
    column: Column, choices: Choices
) -> tuple[NDArray[Any], tuple[str | int, ...] | None]:
    """Turn labels into class indices, or leave targets as numbers."""
    where = f"{choices.where}: label column {column.name!r}"
    if column.kind == "other":
        raise InputError(f"{where} holds {column.stored_as}. Labels are numbers, text or booleans.")
    missing = int(column.missing().sum())
    if missing:
        raise InputError(f"{where} has {missing} missing values. Remove these rows.")
    if choices.label_kind == "number":
        if column.kind != "number":
            raise InputError(f"{where} is not numbers: {first_text(column)}.")
        return column.values, None
    if column.kind == "number":
        fractional = column.values[column.values != np.round(column.values)]
        if len(fractional):
            raise InputError(
                f"{where} holds fractions such as {number_text(fractional[0])}, so it names no "
                "classes. For regression pass label_kind='number'."
            )
    coded = column.as_category()
    used = [word for word, n in zip(coded.words, coded.counts(), strict=True) if n]
    classes: tuple[str | int, ...] = tuple(sorted(used))
    if column.kind == "number":
        classes = tuple(int(word) for word in used)
    if choices.like is not None and choices.like.classes is not None:
        classes = choices.like.classes
        unknown = sorted(set(used) - {str(value) for value in classes})
        if unknown:
            raise InputError(f"{where} holds {unknown[:5]}; the earlier table has {classes}.")
    return positions(coded, [str(value) for value in classes]), classes
