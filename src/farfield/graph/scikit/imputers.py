"""Imputers: values in place of those that are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from farfield.errors import NotFollowed
from farfield.graph.reading import InputColumn, Wire, Writer
from farfield.graph.rules import Steps
from farfield.graph.scikit.affine import select
from farfield.graph.scikit.registry import Table, transformer
from farfield.graph.scikit.sources import MISSING, SourceColumn, is_number, plain


@transformer("SimpleImputer")
def _simple(writer: Writer, table: Table, model: Any) -> Table:
    """One value for each column; columns that were empty in training are dropped."""
    marker = plain(model.missing_values)
    fills = [plain(value) for value in model.statistics_]
    kept = [
        place
        for place, fill in enumerate(fills)
        if model.keep_empty_features or fill is not MISSING
    ]
    if model.strategy in ("mean", "median"):
        _ = table.value
    filled = _fill(writer, select(writer, table, kept), [fills[place] for place in kept], marker)
    if not model.add_indicator:
        return filled
    shown = _indicate(writer, table, model.indicator_.features_, marker)
    held = writer.concatenate(*(part.held for part in (filled, shown) if part.width))
    return Table(held, (*filled.columns, *shown.columns))


@transformer("MissingIndicator")
def _indicator(writer: Writer, table: Table, model: Any) -> Table:
    if model.error_on_new and model.features == "missing-only":
        for place in set(range(table.width)) - set(model.features_):
            _forbid_gaps(table.columns[place])
    return _indicate(writer, table, model.features_, plain(model.missing_values))


@transformer("KNNImputer", "IterativeImputer")
def _by_others(writer: Writer, table: Table, model: Any) -> Table:
    """What is complete stays as it is; gaps that others fill are not followed."""
    if plain(model.missing_values) is not MISSING:
        raise NotFollowed(
            f"{type(model).__name__} replaces {model.missing_values!r} by what other columns say; "
            "mark missing values by NaN, or use SimpleImputer."
        )
    kept = getattr(model, "_valid_mask", None)
    if kept is None:
        kept = ~np.isnan(np.asarray(model.initial_imputer_.statistics_, dtype=np.float64))
    places = range(table.width) if model.keep_empty_features else np.flatnonzero(kept)
    for place in places:
        _forbid_gaps(table.columns[place])
    writer.notes.append(
        f"{type(model).__name__} fills gaps by what other columns say, which is not followed: rows "
        "with missing values are refused"
    )
    whole = select(writer, Table(table.value, table.columns), places)
    whole = Table(whole.held, tuple(replace(column, missing=False) for column in whole.columns))
    if not model.add_indicator:
        return whole
    shown = _indicate(writer, table, model.indicator_.features_, MISSING)
    held = writer.concatenate(*(part.held for part in (whole, shown) if part.width))
    return Table(held, (*whole.columns, *shown.columns))


def _forbid_gaps(column: InputColumn) -> None:
    if isinstance(column, SourceColumn) and column.missing:
        column.use.gaps = False


def _fill(writer: Writer, table: Table, fills: Sequence[Any], marker: Any) -> Table:
    """Fill numbers in the program; of categories only say what their codes mean from now on."""
    columns = tuple(
        _filled(column, fill, marker) for column, fill in zip(table.columns, fills, strict=True)
    )
    numbers = [place for place, column in enumerate(table.columns) if column.categories is None]
    held = table.held
    if numbers:
        own = [float(fills[p]) if is_number(fills[p]) else np.nan for p in numbers]
        part = _fill_numbers(writer, writer.select(held, numbers), own, marker)
        held = _put_back(writer, held, part, numbers)
    return Table(held, columns)


def _filled(column: InputColumn, fill: Any, marker: Any) -> InputColumn:
    """What is known of a column whose gaps are filled; notes what may come in."""
    if not isinstance(column, SourceColumn):
        return replace(column, missing=column.missing and marker is not MISSING)
    if marker is MISSING:
        absent = fill if column.absent is MISSING else column.absent
        return replace(column, missing=False, absent=absent)
    column.use.marks(marker)
    _forbid_gaps(column)
    meanings = tuple(fill if value == marker else value for value in column.meanings)
    return replace(column, meanings=meanings)


def _fill_numbers(writer: Writer, part: Wire, fills: list[float], marker: Any) -> Wire:
    if any(np.isnan(fills)):
        if writer.refusals is None:
            raise NotFollowed("SimpleImputer puts text into a column of numbers; encode it first.")
        # Text in a column that will turn out to hold categories.
        return part
    if marker is MISSING:
        return writer.fill(part, fills)
    if not is_number(marker):
        return part
    at = float(marker)
    below = float(np.nextafter(at, -np.inf))
    moved = [
        (place, [below, at], [0.0, _shift(at, fill), 0.0], 0.0) for place, fill in enumerate(fills)
    ]
    return writer.add(part, writer.take_steps(part, Steps.of(moved)))


def _shift(at: float, fill: float) -> float:
    """A number that takes one number to another when it is added, in floating point."""
    guess = fill - at
    for candidate in (guess, np.nextafter(guess, np.inf), np.nextafter(guess, -np.inf)):
        if at + float(candidate) == fill:
            return float(candidate)
    return guess


def _put_back(writer: Writer, held: Wire, part: Wire, places: list[int]) -> Wire:
    """Put changed columns back where they came from."""
    if len(places) == held.width:
        return part
    beside = writer.concatenate(held, part)
    order = np.arange(held.width)
    order[places] = held.width + np.arange(len(places))
    return writer.select(beside, order)


def _indicate(writer: Writer, table: Table, places: Any, marker: Any) -> Table:
    """Columns of 1 where a value is missing."""
    outputs = [_flags(table.columns[place], int(place), marker) for place in places]
    if not outputs:
        return Table(Wire(table.held.name, 0), ())
    value = writer.take_steps(table.held, Steps.of(outputs))
    names = [table.columns[place].name for place in places]
    return Table(value, tuple(InputColumn(f"{name} is missing") for name in names))


def _flags(column: InputColumn, place: int, marker: Any) -> tuple[int, Any, Any, float]:
    if marker is MISSING:
        return place, [], [0.0], 1.0
    if column.categories is not None and isinstance(column, SourceColumn):
        flags = [float(value == marker) for value in column.meanings]
        return place, np.arange(len(flags)) - 0.5, [0.0, *flags], 0.0
    at = float(marker) if is_number(marker) else np.inf
    return place, [np.nextafter(at, -np.inf), at], [0.0, 1.0, 0.0], 0.0
