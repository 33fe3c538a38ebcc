"""From what a pass over a table has found to its inputs: places, fills, values, statistics."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from farfield.data.choices import Choices, Impute
from farfield.data.encoding import ColumnKind, Floats, TableColumn, prepared
from farfield.data.labels import counted
from farfield.data.scan import Scan, Words, batch_rows
from farfield.data.schema import FeatureSchema
from farfield.data.stream import Fill, Stream, category_order, is_number, some
from farfield.data.summary import Summary
from farfield.errors import InputError

_MOST_CATEGORIES = 256
# Of fewer rows nobody can tell that a number is never but 0 and 1.
FEWEST_BINARY = 10
# Numbers collected at a time for medians: 256 MB, or one column if that is more.
_COLLECTED = 32_000_000


def lay_out(
    stream: Stream, found: Scan, features: Sequence[str], choices: Choices
) -> tuple[tuple[TableColumn, ...], Summary]:
    """Describe the columns of a table and the statistics of its inputs."""
    _check_text(found, features, choices.wishes(features, None), stream.where)
    fills = find_fills(stream, found, features, choices)
    binaries = _binary(found, features, choices)
    columns: list[TableColumn] = []
    place = 0
    for name in features:
        column = _column(name, found, choices, fills.get(name), place, stream.where, binaries)
        columns.append(column)
        place += len(column.values) if column.categorical else 1
    columns = _joined(columns, choices.blocks)
    if choices.like is not None:
        columns = [
            replace(column, places=earlier.places)
            for column, earlier in zip(columns, choices.like, strict=True)
        ]
    names = [name for column in columns for name in column.feature_names]
    if len(set(names)) < len(names):
        raise InputError(
            f"{stream.where}: a category and a column have the same name, 'column=value'. "
            "Rename the column."
        )
    summary = _summary(found, columns, place)
    columns = [_counted(column, summary) for column in columns]
    if choices.like is None:
        _check_bounds(columns, summary, stream.where)
    return tuple(columns), summary


def _column(
    name: str,
    found: Scan,
    choices: Choices,
    fill: Fill | None,
    place: int,
    where: str,
    binaries: set[str],
) -> TableColumn:
    """Describe one column, its inputs from ``place`` on."""
    known = choices.schema[name]
    missing = found.missing[name]
    earlier = choices.earlier.get(name)
    unit, low, high = known.unit or "", known.low, known.high
    if earlier is not None:
        unit, low, high = earlier.unit, earlier.low, earlier.high
    codes = known.missing or () if earlier is None else earlier.codes
    if found.kinds[name] == "numeric":
        binary = name in binaries if earlier is None else earlier.binary
        if binary or found.stored_as[name] == "boolean":
            low, high = max(low, 0.0), min(high, 1.0)
        return TableColumn(
            name, (place,), unit, low, high,
            missing=missing, fill=fill, binary=binary, codes=codes,
        )  # fmt: skip
    words = found.words[name]
    values = known.values if earlier is None else earlier.values
    if values is None:
        boolean = found.stored_as[name] == "boolean"
        values = ("False", "True") if boolean else _categories(name, words, where)
    unknown = {word: n for word, n in words.counts.items() if word not in values}
    if unknown:
        source = "the schema" if earlier is None else "the earlier table"
        word = next(iter(unknown))
        raise InputError(
            f"{where}: column {name!r} holds {counted(unknown)}, first in data row "
            f"{words.first[word]}, which {source} does not have. Known: {some(values)}."
        )
    counts = [words.counts.get(value, 0) for value in values]
    if missing and isinstance(fill, str) and fill in values:
        counts[values.index(fill)] += missing
    places = tuple(range(place, place + len(values)))
    return TableColumn(
        name,
        places,
        unit,
        values=values,
        counts=tuple(counts),
        missing=missing,
        fill=fill,
        codes=codes,
        spaced=words.spaced if earlier is None else earlier.spaced,
    )


def _binary(found: Scan, features: Sequence[str], choices: Choices) -> set[str]:
    """Columns that are categories of 0 and 1, unless somebody says that they are numbers.

    Gaps do not matter: what fills them lies between the two.
    """
    if found.rows < FEWEST_BINARY:
        return set()
    moments = found.moments
    both = dict(zip(found.numeric, (moments.low == 0) & (moments.high == 1), strict=True))
    coded = {member for members in choices.blocks.values() for member in members}
    return {
        name
        for name in features
        if name in found.binary
        and both[name]
        and name not in coded
        and not _is_told(choices.schema[name])
    }


def _is_told(known: FeatureSchema) -> bool:
    """Whether somebody says that a column is a number."""
    return known.kind == "numeric" or math.isfinite(known.low) or math.isfinite(known.high)


def _joined(
    columns: Sequence[TableColumn], blocks: Mapping[str, tuple[str, ...]]
) -> list[TableColumn]:
    """Make one column of those that are the one-hot code of a category."""
    by_name = {column.name: column for column in columns}
    block_of = {member: block for block, members in blocks.items() for member in members}
    joined: dict[str, TableColumn] = {}
    for column in columns:
        block = block_of.get(column.name)
        if block is None:
            joined[column.name] = column
        elif block not in joined:
            members = blocks[block]
            places = tuple(by_name[member].places[0] for member in members)
            cut = len(block) + 1
            own = all(member.startswith((f"{block}_", f"{block}=")) for member in members)
            values = tuple(member[cut:] for member in members) if own else members
            joined[block] = TableColumn(block, places, values=values, sources=members)
    return list(joined.values())


def _counted(column: TableColumn, summary: Summary) -> TableColumn:
    """Count the rows of the values of a category that was one-hot in the file."""
    if not column.sources:
        return column
    counts = np.rint(summary.mean[list(column.places)] * summary.count)
    return replace(column, counts=tuple(int(count) for count in counts))


def _categories(name: str, words: Words, where: str) -> tuple[str, ...]:
    """Sort the values of a column, numbers by size and text by alphabet; refuse identifiers."""
    if len(words.counts) <= _MOST_CATEGORIES:
        return tuple(sorted(words.counts, key=category_order))
    more = "more than " if words.overflow else ""
    raise InputError(
        f"{where}: column {name!r} has {more}{len(words.counts)} different values, too many to "
        f"spread out. It looks like an identifier or free text; leave it out with "
        f'ignore (--ignore {name!r}), or with kind = "ignore" in the schema.'
    )


def _check_text(
    found: Scan, features: Sequence[str], wishes: Mapping[str, ColumnKind], where: str
) -> None:
    """Refuse text where there are or should be numbers, with the first value and its row."""
    troubles = []
    for name in features:
        words = found.words.get(name)
        if words is None or found.stored_as[name] != "text":
            continue
        texts = [word for word in words.counts if not is_number(word)]
        # Mostly numbers: a typing error must not turn a measurement into categories.
        mostly = len(words.counts) - len(texts) > len(texts)
        if wishes.get(name) == "numeric" or (mostly and name not in wishes):
            word = texts[0] if texts else next(iter(words.counts), "")
            troubles.append(f"{name!r} ({word!r} in data row {words.first.get(word, 1)})")
    if troubles:
        raise InputError(
            f"{where}: text in columns of numbers: {', '.join(troubles)}. Repair it, leave it "
            "empty if it means missing, or name the column as categorical (--categorical COLUMN)."
        )


def _summary(found: Scan, columns: Sequence[TableColumn], features: int) -> Summary:
    """Gather the statistics of the inputs; fills and one-hot codes need no further pass."""
    mean, variance, low, high = (np.zeros(features) for _ in range(4))
    by_name = {
        name: (column, place)
        for column in columns
        if not column.categorical or column.sources
        for name, place in zip(column.reads, column.places, strict=True)
    }
    # The label may be among the numbers; it becomes no input.
    chosen = [k for k, name in enumerate(found.numeric) if name in by_name]
    numeric = [by_name[name] for name in found.numeric if name in by_name]
    if numeric:
        missing = np.array([column.missing for column, _ in numeric])
        fill = np.array([np.nan if c.fill is None else c.fill for c, _ in numeric], dtype=float)
        moments = found.moments.of(chosen).fill(missing, fill)
        places = [place for _, place in numeric]
        mean[places], variance[places] = moments.mean, moments.variance()
        low[places], high[places] = moments.low, moments.high
    for column in columns:
        for place, count in zip(column.places, column.counts, strict=False):
            share = count / found.rows
            mean[place], variance[place] = share, share * (1 - share)
            low[place], high[place] = float(count == found.rows), float(count > 0)
    return Summary(found.rows, mean, np.sqrt(variance), low, high)


def _check_bounds(columns: Sequence[TableColumn], summary: Summary, where: str) -> None:
    """Refuse numbers beyond the bounds that the schema gives."""
    beyond = []
    for column in columns:
        if not column.categorical and column.bounded:
            low, high = summary.low[column.places[0]], summary.high[column.places[0]]
            if low < column.low or high > column.high:
                beyond.append(
                    f"{column.name!r} goes from {low:g} to {high:g}, but is bounded by "
                    f"{column.low:g} and {column.high:g}"
                )
    if beyond:
        raise InputError(
            f"{where}: numbers beyond their bounds: {'; '.join(beyond)}. Correct the schema or the "
            "rows."
        )


def find_fills(
    stream: Stream, found: Scan, features: Sequence[str], choices: Choices
) -> dict[str, Fill]:
    """Return a value for every column's missing entries, or refuse those that have none."""
    empty = [name for name in features if found.missing[name] == found.rows]
    if empty and choices.like is None:
        raise InputError(
            f"{stream.where}: columns without a single value: {some(empty)}. Leave them out with "
            "ignore (--ignore COLUMN)."
        )
    fills: dict[str, Fill] = {}
    if choices.like is not None:
        fills = {c.name: c.fill for c in choices.like if c.fill is not None}
    elif choices.impute is not None:
        fills = _imputed(stream, found, features, choices.impute)
    lacking = [name for name in features if found.missing[name] and name not in fills]
    if lacking:
        listed = ", ".join(
            f"{name!r} ({found.missing[name]} missing, first in data row "
            f"{found.first_missing[name]})"
            for name in lacking[:20]
        )
        more = f" and {len(lacking) - 20} more" if len(lacking) > 20 else ""
        earlier = " when opening the earlier table" if choices.like is not None else ""
        raise InputError(
            f"{stream.where}: missing values in {len(lacking)} of {len(features)} columns, "
            f"{found.rows} rows: {listed}{more}. Fill them with impute (--impute) 'mean', "
            f"'median' or 'most_frequent'{earlier}, or leave columns out with ignore "
            "(--ignore COLUMN)."
        )
    return fills


def _imputed(
    stream: Stream, found: Scan, features: Sequence[str], impute: Impute
) -> dict[str, Fill]:
    """Return what missing values become in every column."""
    fills: dict[str, Fill] = {}
    numeric = [name for name in features if found.kinds[name] == "numeric"]
    for name in features:
        if found.kinds[name] == "categorical":
            counts = found.words[name].counts
            most = max(counts.values())
            fills[name] = min((word for word, n in counts.items() if n == most), key=category_order)
    if impute == "mean":
        means = dict(zip(found.numeric, found.moments.mean.tolist(), strict=True))
        return fills | {name: means[name] for name in numeric}
    together = max(1, _COLLECTED // found.rows)
    for start in range(0, len(numeric), together):
        names = numeric[start : start + together]
        pieces: list[list[Floats]] = [[] for _ in names]
        for batch in stream.batches(batch_rows(len(names)), names):
            for piece, column in zip(pieces, batch, strict=True):
                piece.append(prepared(column, "numeric").values)
        for name, piece in zip(names, pieces, strict=True):
            fills[name] = _middle(np.concatenate(piece), impute)
    return fills


def _middle(values: Floats, impute: Impute) -> float:
    """Return the median, or the most frequent of some numbers, the smallest of several."""
    present = values[~np.isnan(values)]
    if impute == "median":
        return float(np.median(present))
    found, counts = np.unique(present, return_counts=True)
    return float(found[counts.argmax()])
