"""What missing values become, in memory that does not grow with the number of columns."""

from collections.abc import Sequence

import numpy as np

from farfield.data.choices import Choices, Impute
from farfield.data.column import Fill, category_order, some
from farfield.data.encoding import Floats, prepared
from farfield.data.scan import Scan, batch_rows
from farfield.data.stream import Stream
from farfield.errors import InputError

# Numbers collected at a time for medians: 256 MB, or one column if that is more.
_COLLECTED = 32_000_000


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
