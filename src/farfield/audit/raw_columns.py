"""Models that start from raw columns, brought behind the one-hot codes that a table gives."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

from farfield.audit.black_box import BlackBox
from farfield.data import Source, TableColumn
from farfield.data.stream import is_number, value_text
from farfield.errors import InputError
from farfield.graph.network import Network
from farfield.graph.reading import InputColumn, coded
from farfield.graph.spread import Spread, behind_codes

# The code of a value that a model has never seen.
UNSEEN = -1.0
TRUTH = {"False": 0.0, "True": 1.0}
# What a model does with words that it cannot take.
NUMBERS = "takes numbers there; is it the right table?"
LOST = (
    "takes codes there, for it does not hold the names of its categories (XGBoost cuts names "
    "short that are not ASCII, and older releases keep none): put codes into the table, 0, 1, ... "
    "for the categories in the order of the training frame, or rename them and fit the model again"
)


def coded_columns(network: Network | BlackBox) -> tuple[str, ...]:
    """Columns that a model takes as categories, whatever they look like in a table."""
    columns = _columns(network)
    return tuple(c.name for c in columns if c.categories is not None and c.name is not None)


def behind_one_hot(network: Network | BlackBox, source: Source) -> Network | BlackBox:
    """Put the one-hot codes of a table in front of a model of its raw columns.

    Models that take no categories, and tables that have none, are left as they are.

    Raises:
        InputError: If a column holds words where the model takes numbers.
    """
    if isinstance(network, BlackBox) or network.columns is None:
        return network
    own = _in_order(network.columns, source.columns)
    if own is None or not any(column.categorical for column in own):
        return network
    lost = frozenset(name for note in network.notes for name in coded(note))
    pairs = zip(network.columns, own, strict=True)
    return behind_codes(network, [_spread(known, column, source, lost) for known, column in pairs])


def with_model(network: Network | BlackBox, source: Source) -> Source:
    """Note what a model says about the columns of a table.

    Values that it knows with spaces around them, which a table is read without: of models that do
    not tell what they know, they stay as they are written. And numbers below which it has none.
    """
    own = _in_order(_columns(network), source.columns)
    known = {} if own is None else dict(zip((c.name for c in own), _columns(network), strict=True))
    noted = tuple(_noted(column, known.get(column.name)) for column in source.columns)
    if noted == source.columns:
        return source
    found = copy.copy(source)
    found.columns = noted
    return found


def _noted(column: TableColumn, known: InputColumn | None) -> TableColumn:
    if known is None:
        return column
    if known.categories is not None:
        column = replace(column, spaced=_spaced(known.categories))
    if known.low > column.low and not column.discrete:
        column = replace(column, low=known.low)
    return column


def _spaced(categories: tuple[Any, ...]) -> tuple[tuple[str, str], ...]:
    words = (value for value in categories if isinstance(value, str))
    return tuple((word.strip(), word) for word in words if word != word.strip())


def _columns(network: Network | BlackBox) -> tuple[InputColumn, ...]:
    return getattr(network, "columns", None) or ()


def refusing_columns(network: Network | BlackBox, source: Source) -> frozenset[str]:
    """Columns of a table whose unknown values a model of raw columns cannot be asked about."""
    if isinstance(network, BlackBox) or network.columns is None:
        return frozenset()
    own = _in_order(network.columns, source.columns) or []
    return frozenset(
        column.name
        for known, column in zip(network.columns, own, strict=False)
        if column.categorical and known.used and not _takes_unknown(known, column, source)
    )


def _takes_unknown(known: InputColumn, column: TableColumn, source: Source) -> bool:
    """Whether no value at all is something that a model answers, and none of the values."""
    if known.categories is not None and not known.unseen:
        return False
    spread = _spread(known, column, source)
    return spread.shift not in (spread.codes or ())


def _in_order(
    known: tuple[InputColumn, ...], columns: tuple[TableColumn, ...]
) -> list[TableColumn] | None:
    """The columns of a table in a model's order, by name or by place; ``None`` if they differ."""
    if any(column.name is None for column in known):
        return list(columns) if len(columns) == len(known) else None
    by_name = {column.name: column for column in columns}
    found = [by_name.get(str(column.name)) for column in known]
    return None if None in found else [column for column in found if column is not None]


def _codes(categories: tuple[Any, ...], where: str) -> dict[str, float]:
    """Codes of categories by how a table is read; truths are the numbers 0 and 1, too.

    >>> _codes((" a", 1.0), ""), _codes((False,), "")
    ({'a': 0.0, '1': 1.0, 'True': 1.0}, {'False': 0.0, '0': 0.0})
    """
    codes: dict[str, float] = {}
    for code, value in enumerate(categories):
        first = codes.setdefault(value_text(value).strip(), float(code))
        if first != code:
            raise InputError(
                f"{where}: the model tells {categories[int(first)]!r} from {value!r}, and a table "
                "is read without the spaces around words; fit it on words that differ otherwise"
            )
    for code, value in enumerate(categories):
        if not isinstance(value, str) and value in (0, 1):
            for text in (str(bool(value)), str(int(value))):
                codes.setdefault(text, float(code))
    return codes


def _spread(
    known: InputColumn, column: TableColumn, source: Source, lost: frozenset[str] = frozenset()
) -> Spread:
    """How a column comes in; of some, the model has lost the names of categories."""
    if not column.categorical:
        return Spread(column.feature_names)
    if not known.used:
        return Spread(column.feature_names, (0.0,) * len(column.values))
    if known.categories is not None:
        codes = _codes(known.categories, f"{source.where}: column {column.name!r}")
        new = [value for value in column.values if value not in codes]
        if new and not known.unseen:
            raise InputError(
                f"{source.where}: column {column.name!r} has the value {new[0]!r}, which the model "
                f"refuses; it knows {', '.join(map(repr, list(codes)[:5]))}"
                f"{', ...' if len(codes) > 5 else ''}"
            )
        found = tuple(codes.get(value, UNSEEN) for value in column.values)
        return Spread(column.feature_names, found, UNSEEN if known.unseen else 0.0)
    words = [value for value in column.values if value not in TRUTH and not is_number(value)]
    if words:
        raise InputError(
            f"{source.where}: column {column.name!r} holds words such as {words[0]!r}, and the "
            f"model {LOST if column.name in lost else NUMBERS}"
        )
    numbers = tuple(
        TRUTH.get(value, 0.0) if value in TRUTH else float(value) for value in column.values
    )
    # A number that is no category: the next whole one.
    return Spread(column.feature_names, numbers, math.floor(max(numbers)) + 1.0)
