"""Encoders: what a category becomes, as steps of its code or of the number that it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.graph.reading import InputColumn, Writer
from farfield.graph.rules import Steps
from farfield.graph.scikit.registry import Table, kind_of, transformer
from farfield.graph.scikit.sources import MISSING, SourceColumn, is_number, plain

Floats = NDArray[np.float64]
Output = tuple[int, Any, Any, float]


@transformer("OneHotEncoder")
def _one_hot(writer: Writer, table: Table, model: Any) -> Table:
    """One column for each category that is not dropped; rare ones share the last."""
    closed = model.handle_unknown == "error"
    outputs: list[Output] = []
    names: list[str] = []
    for place, categories in enumerate(model.categories_):
        heights, unknown = _codes(model, place, len(categories))
        outputs += encode(table, place, categories, heights, unknown, closed=closed)
        names += [f"{table.columns[place].name}={n}" for n in range(heights.shape[1])]
    return _encoded(writer, table, outputs, names)


def _codes(model: Any, place: int, count: int) -> tuple[Floats, Floats]:
    """``(categories, outputs)`` what each category becomes, and what others do."""
    groups = np.arange(count)
    rare = model.infrequent_categories_[place] if _groups_rare(model) else None
    if rare is not None:
        groups = np.asarray(model._default_to_infrequent_mappings[place])
    width = int(groups.max()) + 1
    heights = np.eye(width)[groups]
    unknown = np.zeros(width)
    if model.handle_unknown == "error":
        unknown[:] = np.nan
    elif model.handle_unknown in ("infrequent_if_exist", "warn") and rare is not None:
        unknown[-1] = 1.0
    dropped = model._drop_idx_after_grouping
    if dropped is not None and dropped[place] is not None:
        heights = np.delete(heights, dropped[place], axis=1)
        unknown = np.delete(unknown, dropped[place])
    return heights, unknown


def _groups_rare(model: Any) -> bool:
    return bool(getattr(model, "_infrequent_enabled", False))


@transformer("OrdinalEncoder")
def _ordinal(writer: Writer, table: Table, model: Any) -> Table:
    """The place of each category in the list of them."""
    closed = model.handle_unknown == "error"
    outputs: list[Output] = []
    for place, categories in enumerate(model.categories_):
        heights = np.arange(len(categories), dtype=np.float64)
        if _groups_rare(model) and model.infrequent_categories_[place] is not None:
            groups = model._default_to_infrequent_mappings[place]
            heights[: len(groups)] = groups
        absent = model._missing_indices.get(place)
        if absent is not None:
            heights[absent] = model.encoded_missing_value
        unknown = np.nan if closed else float(model.unknown_value)
        outputs += encode(
            table, place, categories, heights[:, None], np.array([unknown]), closed=closed
        )
    return _encoded(writer, table, outputs, list(table.names))


@transformer("TargetEncoder")
def _target(writer: Writer, table: Table, model: Any) -> Table:
    """The mean of the target for each category; that of all for others."""
    classes = len(model.classes_) if model.target_type_ == "multiclass" else 1
    means = np.broadcast_to(np.asarray(model.target_mean_, dtype=np.float64), classes)
    outputs: list[Output] = []
    for place, categories in enumerate(model.categories_):
        own = model.encodings_[place * classes : (place + 1) * classes]
        heights = np.stack([np.asarray(each, dtype=np.float64) for each in own], axis=1)
        outputs += encode(table, place, categories, heights, means, closed=False)
    names = [f"mean of {table.columns[output[0]].name}" for output in outputs]
    return _encoded(writer, table, outputs, names)


def _encoded(
    writer: Writer, table: Table, outputs: list[Output], names: Sequence[str | None]
) -> Table:
    value = writer.take_steps(table.held, Steps.of(outputs))
    return Table(value, tuple(InputColumn(name) for name in names))


def encode(
    table: Table,
    place: int,
    categories: Sequence[Any],
    heights: Floats,
    unknown: Floats,
    *,
    closed: bool,
) -> list[Output]:
    """Steps that take the categories of one column to rows of heights.

    Args:
        table: What goes in.
        place: The column.
        categories: What the encoder knows; NaN among them stands for what is missing.
        heights: ``(categories, outputs)``.
        unknown: ``(outputs,)`` what other values become; NaN if the encoder refuses them.
        closed: Whether it does.
    """
    known = [plain(value) for value in categories]
    column = table.columns[place]
    if isinstance(column, SourceColumn):
        reader = kind_of(table.reader)
        column.use.offer(known, reader, closed=closed, filled=not column.missing)
        if column.categories is not None:
            return _of_codes(place, column, known, heights, unknown)
    return _of_numbers(place, known, heights, unknown)


def _of_codes(
    place: int, column: SourceColumn, known: list[Any], heights: Floats, unknown: Floats
) -> list[Output]:
    """Steps halfway between codes; those below the first are of values that nobody knows."""
    codes = [_find(known, value) for value in column.meanings]
    rows = np.stack([unknown, *(unknown if code < 0 else heights[code] for code in codes)])
    absent = _find(known, column.absent)
    missing = unknown if absent < 0 else heights[absent]
    breaks = np.arange(len(codes)) - 0.5
    return [
        (place, breaks, rows[:, output], float(missing[output])) for output in range(rows.shape[1])
    ]


def _find(known: list[Any], value: Any) -> int:
    return known.index(value) if value in known else -1


def _of_numbers(place: int, known: list[Any], heights: Floats, unknown: Floats) -> list[Output]:
    """Steps at the very numbers that are known."""
    numbers = [(float(value), row) for row, value in enumerate(known) if is_number(value)]
    if len(numbers) + (MISSING in known) < len(known):
        # Text in a column that will turn out to hold categories, or to be refused.
        numbers = []
    breaks: list[float] = []
    rows = [unknown]
    for value, row in sorted(numbers):
        below = float(np.nextafter(value, -np.inf))
        if breaks and breaks[-1] == below:
            rows.pop()
        else:
            breaks.append(below)
        breaks.append(value)
        rows += [heights[row], unknown]
    missing = heights[known.index(MISSING)] if MISSING in known else unknown
    table = np.stack(rows)
    return [
        (place, breaks, table[:, output], float(missing[output]))
        for output in range(table.shape[1])
    ]
