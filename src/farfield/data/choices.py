"""What the caller decided about a table, checked against the columns that it has."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypedDict, Unpack, get_args

from farfield.data.encoding import ColumnKind, TableColumn
from farfield.data.schema import Schema, read_schema
from farfield.data.stream import Stream, some
from farfield.errors import InputError

Impute = Literal["mean", "median", "most_frequent"]
LabelKind = Literal["class", "number"]


class TableOptions(TypedDict, total=False):
    """How a table is read, as far as the caller says so.

    Attributes:
        label: Column of the labels; in an .npz archive an array (default: ``y`` or ``labels``), for
            .npy a second file. None for no labels, or those of the schema.
        label_kind: ``"class"`` turns labels into class indices, ``"number"`` leaves targets.
        schema: Bounds, units, kinds and order: a path, or a `Schema`.
        categorical: Numeric columns to be spread out as categories; text and booleans always are.
        ignore: Columns to leave out.
        impute: How missing values are filled: ``"mean"``, ``"median"``, ``"most_frequent"``; None
            refuses them. Text always takes the most frequent value.
    """

    label: str | None
    label_kind: LabelKind
    schema: Schema | str | os.PathLike[str] | None
    categorical: Sequence[str]
    ignore: Sequence[str]
    impute: Impute | None


@dataclass(frozen=True)
class Choices:
    """What the caller decided; see `TableOptions`."""

    label: str | None = None
    label_kind: LabelKind = "class"
    schema: Schema = field(default_factory=Schema)
    categorical: Sequence[str] = ()
    ignore: Sequence[str] = ()
    impute: Impute | None = None
    like: tuple[TableColumn, ...] | None = None
    class_names: tuple[str, ...] | None = None

    @cached_property
    def earlier(self) -> dict[str, TableColumn]:
        """The columns of the earlier table, by name."""
        return {column.name: column for column in self.like or ()}

    @cached_property
    def blocks(self) -> dict[str, tuple[str, ...]]:
        """Categories whose one-hot code the file holds already, and its columns."""
        if self.like is None:
            return dict(self.schema.blocks)
        return {column.name: column.sources for column in self.like if column.sources}

    @cached_property
    def missing_codes(self) -> dict[str, tuple[str, ...]]:
        """Column to the values that stand for missing."""
        if self.like is not None:
            return {column.name: column.codes for column in self.like if column.codes}
        known = self.schema.features.items()
        return {name: each.missing for name, each in known if each.missing}

    @classmethod
    def of(
        cls,
        like: tuple[TableColumn, ...] | None,
        class_names: tuple[str, ...] | None,
        **options: Unpack[TableOptions],
    ) -> Choices:
        """Take the options of a caller; a schema may be a file."""
        schema = options.get("schema") or Schema()
        read = schema if isinstance(schema, Schema) else read_schema(schema)
        given: dict[str, Any] = {**options, "schema": read}
        return cls(**given, like=like, class_names=class_names)

    def __post_init__(self) -> None:
        if self.label_kind not in get_args(LabelKind):
            raise InputError(f"label_kind must be 'class' or 'number', got {self.label_kind!r}.")
        if self.impute is not None and self.impute not in get_args(Impute):
            options = ", ".join(repr(option) for option in get_args(Impute))
            raise InputError(f"impute must be None or one of {options}; got {self.impute!r}.")
        for name in ("categorical", "ignore"):
            if isinstance(getattr(self, name), str):
                given = getattr(self, name)
                raise InputError(f"{name} takes a list of column names, got {given!r}.")

    def label_of(self, stream: Stream) -> str | None:
        """Return the column of the labels: as given, as in the schema, or as the format says."""
        label = self.label if self.label is not None else self.schema.label.column
        if label is None:
            return stream.default_label
        if label not in stream.names:
            raise InputError(
                f"{stream.where}: no column {label!r} for the label. {near(label, stream.names)}"
            )
        return label

    def features_of(self, stream: Stream) -> list[str]:
        """Return the columns that become inputs, in their order."""
        known = set(stream.names)
        if self.like is not None:
            wanted = [name for column in self.like for name in column.reads]
            absent = [name for name in wanted if name not in known]
            if absent:
                raise InputError(
                    f"{stream.where}: {_listed(absent)} of the earlier table {_are(absent)} "
                    f"missing. {near(absent[0], stream.names)}"
                )
            return wanted
        label, schema = self.label_of(stream), self.schema
        for asked, what in (
            (self.categorical, "categorical"),
            (self.ignore, "ignore"),
            (tuple(schema.features), "the schema"),
            (schema.order or (), "the schema's order"),
            (tuple(name for names in schema.blocks.values() for name in names), "[blocks]"),
        ):
            absent = [name for name in asked if name not in known]
            if absent:
                raise InputError(
                    f"{stream.where}: {_listed(absent)} of {what} {_are(absent)} not in the table. "
                    f"{near(absent[0], stream.names)}"
                )
        left_out = {label, *self.ignore, *schema.ignored()}
        names = [name for name in stream.names if name not in left_out]
        if not names:
            raise InputError(f"{stream.where}: no feature columns are left.")
        return self._in_order(names, stream.where)

    def _in_order(self, names: list[str], where: str) -> list[str]:
        """Put columns into the order that the schema gives."""
        if self.schema.order is None:
            return names
        listed, left = set(self.schema.order), set(names)
        lacking = [name for name in names if name not in listed]
        if lacking:
            raise InputError(
                f"{where}: the schema's order leaves out {_listed(lacking)}. Add them, or give "
                'them kind = "ignore".'
            )
        return [name for name in self.schema.order if name in left]

    def wishes(self, features: Sequence[str], label: str | None) -> dict[str, ColumnKind]:
        """Return how columns enter, where that was decided."""
        wishes: dict[str, ColumnKind] = {}
        if self.like is not None:
            wishes = {column.name: column.kind for column in self.like if not column.sources}
        else:
            for name in features:
                kind = "categorical" if name in self.categorical else self.schema[name].kind
                if kind == "categorical" or kind == "numeric":
                    wishes[name] = kind
        for members in self.blocks.values():
            wishes |= dict.fromkeys(members, "numeric")
        if label is not None:
            wishes[label] = "categorical" if self.label_kind == "class" else "numeric"
        return wishes


def near(name: str, names: Sequence[str]) -> str:
    """Suggest names that look like a wrong one, or list what there is."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    same = [other for other in names if other.lower() == name.lower() and other not in close]
    if close or same:
        return f"Did you mean {' or '.join(repr(other) for other in [*same, *close])}?"
    return f"The columns are {some(names)}."


def _listed(names: Sequence[str]) -> str:
    """Quote columns, the first few of many."""
    return f"column{'s' if len(names) > 1 else ''} {some(names)}"


def _are(names: Sequence[str]) -> str:
    return "are" if len(names) > 1 else "is"
