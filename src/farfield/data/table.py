"""Tables as data to audit: from a file, arrays or a data frame to what a model takes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Unpack, final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from farfield.data.choices import Choices, TableOptions
from farfield.data.encoding import TableColumn, encode
from farfield.data.fit import by_names, by_number, fitted_columns
from farfield.data.labels import Label, build_label, encode_label, fitted_label
from farfield.data.layout import lay_out
from farfield.data.reading import frame_stream, open_stream
from farfield.data.scan import batch_rows, scan
from farfield.data.source import Expected, Rows, Source, as_type
from farfield.data.stream import Column, Stream, some, without_codes
from farfield.data.summary import Summary
from farfield.errors import InputError
from farfield.exact.ray.box import Box


@final
class TableSource(Source):
    """A table, encoded as it is read; made by `open_table`."""

    def __init__(
        self,
        stream: Stream,
        columns: tuple[TableColumn, ...],
        label: Label | None,
        summary: Summary,
        notes: tuple[str, ...] = (),
        random_state: int = 0,
    ) -> None:
        self._stream, self._label = stream, label
        self.columns, self.summary, self.notes = columns, summary, notes
        self.where, self.random_state = stream.where, random_state
        self.shape = (len(summary.mean),)

    def chunks(
        self, size: int | None = None, dtype: DTypeLike = np.float32
    ) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
        """Yield inputs ``(rows, features)`` and labels ``(rows,)`` or None."""
        for read in self._batches(self._chunk_rows(size)):
            inputs, labels = self._encoded(read)
            yield as_type(inputs, dtype, self.where), labels

    def take(self, index: NDArray[np.int64]) -> Rows:
        """Return the rows at these places, which are in increasing order, as float64."""
        start = 0
        inputs, labels = [], []
        for read in self._batches(batch_rows(len(self.columns))):
            stop = start + len(read[0])
            here = index[np.searchsorted(index, start) : np.searchsorted(index, stop)] - start
            start = stop
            if len(here):
                X, y = self._encoded([replace(c, values=c.values[here]) for c in read])
                inputs.append(X)
                labels += [] if y is None else [y]
            if stop > index[-1]:
                break
        found = np.ascontiguousarray(np.concatenate(inputs))
        return Rows(found, np.concatenate(labels) if labels else None, index)

    def box(self) -> Box | None:
        """Return bounds and one-hot blocks as a domain, or None if there are none."""
        low, high = np.full(self.shape, -np.inf), np.full(self.shape, np.inf)
        blocks = []
        for column in self.columns:
            places = list(column.places)
            if not column.categorical:
                low[places], high[places] = column.low, column.high
            elif len(places) > 1:
                low[places], high[places] = 0.0, 1.0
                blocks.append(places)
            else:
                low[places], high[places] = 1.0, 1.0
        if not np.isfinite(low).any() and not np.isfinite(high).any():
            return None
        return Box(low, high, categorical=blocks)

    def fitted(self, expected: Expected) -> TableSource:
        """Return the table as a model expects it."""
        known = expected if self._stream.named else replace(expected, names=None)
        columns, order, notes = fitted_columns(self, known)
        label, further = fitted_label(self._label, expected.classes, expected.labels, self.where)
        s = self.summary
        summary = Summary(s.count, s.mean[order], s.std[order], s.low[order], s.high[order])
        notes = (*self.notes, *notes, *further)
        return TableSource(self._stream, columns, label, summary, notes, self.random_state)

    def _batches(self, rows: int) -> Iterator[list[Column]]:
        """Go through the columns, the label last."""
        names = [name for column in self.columns for name in column.reads]
        return self._stream.batches(rows, [*names, *([self._label.name] if self._label else [])])

    def _encoded(self, read: Sequence[Column]) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Turn columns into inputs and labels."""
        inputs = encode(self.columns, read, self.shape[0], self.where)
        label = self._label
        return inputs, None if label is None else encode_label(label, read[-1], self.where)


def open_table(
    data: Any,
    labels: Any = None,
    *,
    features: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    delimiter: str | None = None,
    like: TableSource | None = None,
    expected: Expected | None = None,
    random_state: int = 0,
    **options: Unpack[TableOptions],
) -> TableSource:
    r"""Open a file, arrays or a data frame as a table.

    One pass finds what the columns hold; rows are then read as they are needed, so that memory
    does not grow with the file (.npz and .npy are loaded).

    Args:
        data: A CSV (also .gz), parquet, .npz or .npy file, its format told from its content; or
            inputs ``(rows, features)``, numpy, torch or nested lists; a DataFrame of pandas or
            polars; a table of pyarrow.
        labels: ``(rows,)`` numbers, text or booleans, for inputs in memory; or the name of the
            column that holds them, as ``label``.
        features: Names of the columns, for inputs in memory; default: those of the frame, or x0,
            x1, ...
        class_names: Of the classes, in the order of their indices; labels are these names or
            indices into them.
        delimiter: What separates the columns of a CSV file; None tells it from the first rows.
        like: An earlier table: take its columns, categories and fill values, leave out whatever
            else the data has, and read labels only if they are given.
        expected: What the model takes, if it is known: columns that it does not name are left out,
            and a label that was not named is looked for; notes say so.
        random_state: Seed of samples.
        **options: Label, schema, kinds and fills: see `farfield.data.choices.TableOptions`.

    Raises:
        InputError: Anything in the data that cannot be used, by column and row.

    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = Path(folder.name) / "patients.csv"
    >>> _ = file.write_text("age,ward,died\n50,a,yes\n60,b,no\n70,a,no\n")
    >>> table = open_table(file, label="died")
    >>> table.feature_names, table.class_names, table.summary.mean.round(3).tolist()
    (('age', 'ward=a', 'ward=b'), ('no', 'yes'), [60.0, 0.667, 0.333])
    >>> [(X.tolist(), y.tolist()) for X, y in table.chunks(size=2)]
    [([[50.0, 1.0, 0.0], [60.0, 0.0, 1.0]], [1, 0]), ([[70.0, 1.0, 0.0]], [0])]
    >>> folder.cleanup()
    >>> table = open_table([[1.0, 0.0], [3.0, 0.0]], [1, 0], features=["age", "dose"])
    >>> table.summary.std.tolist(), table.constant, table.class_names
    ([1.0, 0.0], ('dose',), ('0', '1'))
    """
    stream: Stream
    if isinstance(labels, str) and options.get("label") is None:
        labels, options["label"] = None, labels
    if not isinstance(data, str | os.PathLike):
        stream = frame_stream(data, labels, features, options.get("label"))
        options["label"] = stream.default_label
    elif labels is not None:
        raise InputError(
            "labels in a file of their own go with images; a table holds its labels in a column: "
            "name it with label (--label)"
        )
    elif features is not None:
        raise InputError(f"{data}: a file names its own columns, so features cannot name them.")
    else:
        stream = open_stream(data, label=options.get("label"), delimiter=delimiter)
    known = None if class_names is None else tuple(str(name) for name in class_names)
    if like is not None:
        choices = Choices.of(like.columns, known or like.class_names, **options)
    else:
        choices = Choices.of(None, known, **options)
    return _source(stream, choices, expected, random_state)


def _source(
    stream: Stream, choices: Choices, expected: Expected | None, random_state: int
) -> TableSource:
    """Go through a table once and describe it, with what is known about the model."""
    stream = without_codes(stream, choices.missing_codes)
    notes = stream.notes
    if expected is not None:
        choices, further = by_names(stream, choices, expected)
        notes = (*notes, *further)
        own = choices.impute is None and choices.like is None and expected.impute is not None
        choices = replace(choices, impute=expected.impute) if own else choices
    source = _described(stream, choices, random_state)
    if expected is not None and source.label is None and choices.like is None:
        label, further = by_number(stream, source.columns, expected)
        if label is not None:
            source = _described(stream, replace(choices, label=label), random_state)
            notes = (*notes, *further)
    if expected is not None and source.missing and expected.impute == choices.impute:
        with_what = str(choices.impute).replace("most_frequent", "most frequent value")
        notes = (*notes, TAKES_MISSING.format(with_what))
    source.notes = (*notes, *_notes(source))
    return source


TAKES_MISSING = (
    "The model takes missing values; here they are filled with the {} of their column (words: the "
    "most frequent one), so that its own way with them is not seen. Choose another way with impute "
    "(--impute)."
)


def _described(stream: Stream, choices: Choices, random_state: int) -> TableSource:
    """Go through a table once and describe it."""
    label = choices.label_of(stream)
    if choices.like is not None and choices.label is None:
        label = None
    features = choices.features_of(stream)
    names = [*features, *([label] if label is not None else [])]
    found = scan(stream, names, choices.wishes(features, label), choices.blocks)
    columns, summary = lay_out(stream, found, features, choices)
    described = None if label is None else build_label(found, label, choices, stream.where)
    return TableSource(stream, columns, described, summary, (), random_state)


def _notes(source: TableSource) -> tuple[str, ...]:
    """Say what a reader of the results should know about the data."""
    notes = []
    if source.missing:
        counts = [f"{name!r} ({count:,})" for name, count in source.missing.items()]
        more = f" and {len(counts) - 20} more" if len(counts) > 20 else ""
        notes.append(f"Missing values were filled in {', '.join(counts[:20])}{more}.")
    binary = [column.name for column in source.columns if column.binary]
    if binary:
        notes.append(
            f"Columns of 0 and 1 only are taken for categories, moved between the two and no "
            f'further: {some(binary)}. If one is a number, say kind = "numeric" in a schema.'
        )
    if source.constant:
        more = f" and {len(source.constant) - 20} more" if len(source.constant) > 20 else ""
        names = ", ".join(repr(name) for name in source.constant[:20])
        notes.append(f"Columns that hold one value only: {names}{more}.")
    return tuple(notes)
