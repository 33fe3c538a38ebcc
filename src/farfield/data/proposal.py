"""A schema to start from: what one pass over a table, and the names of its columns, tell.

What is certain is written out; what only looks so is a comment, for somebody who knows.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.data.choices import near
from farfield.data.fit import names_a_label
from farfield.data.layout import FEWEST_BINARY
from farfield.data.reading import frame_stream, open_stream
from farfield.data.scan import Words, batch_rows
from farfield.data.stream import Column, category_order, number_text
from farfield.errors import InputError

# What stands for missing in files.
CODES = (0.0, -1.0, 9.0, 99.0, 999.0, -9.0, -99.0, -999.0, 9999.0, -9999.0, 1e20)
# A code for missing is apart from all other values by this share of their range, and comes again;
# among whole numbers by more than one.
APART, FEWEST = 0.1, 2
# The values of a category that are listed; columns of text with more of them are no categories.
LISTED, MOST_CATEGORIES = 50, 256
# So few whole numbers may be a code.
FEW = 10
TOKEN = re.compile(r"[a-z%°µ]+")
NEVER_NEGATIVE = frozenset({
    "age", "amount", "area", "bmi", "cholesterol", "concentration", "cost", "count", "counts",
    "days", "depth", "diameter", "distance", "duration", "glucose", "height", "hours", "income",
    "insulin", "length", "mass", "num", "number", "perimeter", "population", "pressure", "price",
    "radius", "rooms", "salary", "size", "speed", "time", "volume", "weight", "width", "years",
})  # fmt: skip
SHARES = frozenset(["share", "fraction", "proportion", "probability", "prob", "ratio", "rate"])
PER_CENT = frozenset(["percent", "percentage", "pct", "%"])
UNITS = {
    "kg": "kg", "g": "g", "mg": "mg", "lb": "lb", "lbs": "lb", "cm": "cm", "mm": "mm", "km": "km",
    "inch": "in", "inches": "in", "ft": "ft", "feet": "ft", "miles": "mi", "metres": "m",
    "meters": "m", "years": "years", "months": "months", "days": "days", "hours": "hours",
    "minutes": "minutes", "seconds": "seconds", "celsius": "°C", "fahrenheit": "°F",
    "kelvin": "K", "mmhg": "mmHg", "bpm": "bpm", "percent": "%", "pct": "%", "percentage": "%",
    "eur": "EUR", "usd": "USD", "share": "share", "fraction": "share",
}  # fmt: skip
PAIRS = {
    ("mg", "dl"): "mg/dl",
    ("mmol", "l"): "mmol/l",
    ("umol", "l"): "µmol/l",
    ("g", "dl"): "g/dl",
}


@dataclass
class _Seen:
    """What a pass has found in one column."""

    name: str
    kind: str = ""
    rows: int = 0
    missing: int = 0
    low: float = math.inf
    high: float = -math.inf
    rest: tuple[float, float] = (math.inf, -math.inf)
    whole: bool = True
    codes: dict[float, int] = field(default_factory=dict)
    few: set[float] = field(default_factory=set)
    words: Words = field(default_factory=Words)

    def add(self, column: Column) -> None:
        """Take in some rows."""
        self.kind = column.kind
        first, absent = self.rows + 1, column.missing()
        self.rows += len(column)
        self.missing += int(absent.sum())
        if column.kind == "category":
            self.words.add(column, first)
        elif column.kind == "number":
            self._add(np.asarray(column.values, dtype=np.float64)[~absent])

    def _add(self, values: NDArray[np.float64]) -> None:
        if not len(values):
            return
        self.low, self.high = min(self.low, values.min()), max(self.high, values.max())
        if self.whole:
            self.whole = bool((values == np.floor(values)).all())
        if len(self.few) <= FEW:
            self.few |= set(np.unique(values)[: FEW + 2].tolist())
        is_code = np.isin(values, CODES)
        for code, count in zip(*np.unique(values[is_code], return_counts=True), strict=True):
            self.codes[float(code)] = self.codes.get(float(code), 0) + int(count)
        others = values[~is_code]
        if len(others):
            low, high = self.rest
            self.rest = min(low, float(others.min())), max(high, float(others.max()))

    @property
    def binary(self) -> bool:
        """Whether it is 0 and 1 only."""
        return self.few == {0.0, 1.0} and self.rows >= FEWEST_BINARY

    def sentinels(self) -> dict[float, int]:
        """Codes that are apart from all other values, or the only negative ones."""
        low, high = self.rest
        if not low <= high:
            return {}
        gap = max(APART * (high - low), 1.0 if self.whole else 0.0)
        return {
            code: count
            for code, count in self.codes.items()
            if count >= FEWEST and (code < low - gap or code > high + gap or code < 0 <= low)
        }


def propose_schema(data: Any, *, label: str | None = None, delimiter: str | None = None) -> str:
    r"""Propose a schema: kinds, natural bounds, units by name, codes for missing that were seen.

    Args:
        data: A path to a table, or a frame.
        label: The column of the labels; one that is called so if ``None``.
        delimiter: What separates the columns of a CSV file; told from its content if ``None``.

    Returns:
        TOML that :func:`farfield.data.read_schema` reads.

    Raises:
        InputError: No such table, or no such label.

    >>> import pandas
    >>> table = pandas.DataFrame({"age": [30, 41, 999, 999] * 5, "share": [0.1, 0.5, 0.9, 1.0] * 5})
    >>> print(propose_schema(table).split("\n\n", 1)[1])
    [features."age"]
    min = 0  # never negative, by its name and its values
    unit = "years"
    # missing = [999]  # in 10 rows, apart from all others (30 to 41): does it mean missing?
    <BLANKLINE>
    [features."share"]
    min = 0  # a share
    max = 1
    unit = "share"
    <BLANKLINE>
    """
    is_path = isinstance(data, str | os.PathLike)
    stream = open_stream(data, label=label, delimiter=delimiter) if is_path else frame_stream(data)
    if label is not None and label not in stream.names:
        raise InputError(
            f"{stream.where}: no column {label!r} for the label. {near(label, stream.names)}"
        )
    label = label or stream.default_label or _label(stream.names)
    seen = {name: _Seen(name) for name in stream.names}
    for columns in stream.batches(batch_rows(len(stream.names))):
        for column in columns:
            seen[column.name].add(column)
    if not any(each.rows for each in seen.values()):
        raise InputError(f"{stream.where}: there are no data rows. Check that the file is whole.")
    parts = [_head(stream.where)]
    if label is not None:
        parts.append("\n".join(_label_lines(seen.pop(label))))
    for each in seen.values():
        lines = list(_lines(each))
        if lines:
            parts.append("\n".join([f"[features.{_text(each.name)}]", *lines]))
    return "\n\n".join(parts) + "\n"


def _head(where: str) -> str:
    return (
        f"# A schema proposed from {_plain(where)}: correct it, then pass it with --schema.\n"
        "# Bounds stop rays: what is impossible is no direction."
    )


def _label(names: Sequence[str]) -> str | None:
    """The only column that is called what labels are called."""
    found = [name for name in names if names_a_label(name)]
    return found[0] if len(found) == 1 else None


def _label_lines(seen: _Seen) -> Iterator[str]:
    yield "[label]"
    yield f"column = {_text(seen.name)}"
    if seen.kind == "category" and len(seen.words.counts) <= LISTED:
        classes = ", ".join(map(_text, sorted(seen.words.counts, key=category_order)))
        yield f"# classes = [{classes}]  # in the order of the model's outputs"


def _lines(seen: _Seen) -> Iterator[str]:
    """What is known of one column, and what may be."""
    if seen.kind == "other":
        yield 'kind = "ignore"  # neither numbers nor text'
    elif seen.kind == "category":
        yield from _words(seen)
    elif seen.low > seen.high:
        yield 'kind = "ignore"  # holds no value at all'
    else:
        yield from _numbers(seen)


def _words(seen: _Seen) -> Iterator[str]:
    counts = seen.words.counts
    if seen.words.overflow or len(counts) > MOST_CATEGORIES:
        yield 'kind = "ignore"  # so many different words are an identifier, or free text'
        return
    yield 'kind = "categorical"'
    if len(counts) <= LISTED:
        yield f"values = [{', '.join(map(_text, sorted(counts, key=category_order)))}]"


def _numbers(seen: _Seen) -> Iterator[str]:
    if seen.low == seen.high:
        yield f"# holds {_number(seen.low)} only: it is not moved"
        return
    if seen.binary:
        yield '# 0 and 1 only: taken for a category; kind = "numeric" makes it a number'
        return
    codes = seen.sentinels()
    low, high = seen.rest if codes else (seen.low, seen.high)
    # A bound must hold for every row, codes for missing among them.
    yield from _bounds(seen, low, high, lowest=seen.low, highest=seen.high)
    unit = _unit(seen.name, low, high)
    if unit:
        yield f"unit = {_text(unit)}"
    for code, count in sorted(codes.items()):
        yield (
            f"# missing = [{_number(code)}]  # in {count:,} rows, apart from all others "
            f"({_number(low)} to {_number(high)}): does it mean missing?"
        )
    if not codes and seen.whole and 2 < len(seen.few) <= FEW:
        yield '# kind = "categorical"  # a few whole numbers: are they codes?'


def _bounds(
    seen: _Seen, low: float, high: float, *, lowest: float, highest: float
) -> Iterator[str]:
    words = set(_tokens(seen.name))
    reason = ""
    if low >= 0 and words & NEVER_NEGATIVE:
        reason = "never negative, by its name and its values"
    elif low >= 0 and seen.whole and high > 1:
        reason = "whole numbers that are never negative: counts, or codes"
    most = None
    if low >= 0 and high <= 1 and words & SHARES:
        reason, most = "a share", 1
    elif low >= 0 and high <= 100 and (words & PER_CENT or "%" in seen.name):
        reason, most = "per cent", 100
    if not reason:
        return
    mark = "" if lowest >= 0 else "# "
    yield f"{mark}min = 0  # {reason}{'' if lowest >= 0 else f', but for {_number(lowest)}'}"
    if most is not None:
        mark = "" if highest <= most else "# "
        yield f"{mark}max = {most}"


def _tokens(name: str) -> list[str]:
    """The words of a name: ``weight_kg`` and ``WeightKg`` are two."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return TOKEN.findall(parted.lower())


def _unit(name: str, low: float, high: float) -> str:
    """The unit that a name tells, in brackets or as its last words."""
    bracket = re.search(r"[\[(]\s*([^\])]{1,12}?)\s*[\])]\s*$", name)
    if bracket:
        return bracket[1]
    words = _tokens(name)
    if tuple(words[-2:]) in PAIRS:
        return PAIRS[words[-2], words[-1]]
    if words and words[-1] in UNITS and (len(words) > 1 or len(words[-1]) > 2):
        return UNITS[words[-1]]
    if words[-1:] == ["age"] and low >= 0 and high <= 120:
        return "years"
    return "%" if "%" in name else ""


def _number(value: float) -> str:
    return number_text(value) if abs(value) < 1e15 else f"{value:g}"


def _text(text: str) -> str:
    """Text as TOML has it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _plain(text: str) -> str:
    """Text for a comment: on one line."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
