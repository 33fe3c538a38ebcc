"""Tables of any size, gone through piece by piece: columns in, as often as asked."""

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from farfield.datasets.column import Column, some
from farfield.datasets.content import detect
from farfield.datasets.npy import read_npy
from farfield.datasets.npz import array_names, label_column, load_arrays
from farfield.errors import InputError

_INPUTS = ("X", "x", "inputs", "features", "data")
_LABELS = ("y", "labels", "label", "targets", "target")


class Stream(ABC):
    """The columns of a table, read as often as needed and never all at once.

    Attributes:
        where: Name of the file, for messages.
        names: Of the columns.
        default_label: Column that holds the labels when the format says so, as .npz does.
        named: Whether somebody named the columns; if not, they are called x0, x1, ...
        notes: Sentences about how the file was read.
    """

    where: str
    names: tuple[str, ...]
    default_label: str | None = None
    named: bool = True
    notes: tuple[str, ...] = ()

    @abstractmethod
    def batches(self, rows: int, names: Sequence[str] | None = None) -> Iterator[list[Column]]:
        """Yield columns (those named, in this order), at most ``rows`` rows at a time."""

    def check_names(self) -> None:
        """Refuse names that occur twice."""
        twice = sorted(name for name, n in Counter(self.names).items() if n > 1)
        if twice:
            raise InputError(
                f"{self.where}: column names occur twice: [{some(twice)}]. Rename them."
            )


@final
class MemoryStream(Stream):
    """Columns that are in memory already."""

    def __init__(
        self, columns: Sequence[Column], where: str, label: str | None = None, *, named: bool = True
    ) -> None:
        self.where, self.default_label, self.named = where, label, named
        self.names = tuple(column.name for column in columns)
        self.check_names()
        self._columns = dict(zip(self.names, columns, strict=True))

    def batches(self, rows: int, names: Sequence[str] | None = None) -> Iterator[list[Column]]:
        """Yield slices."""
        columns = [self._columns[name] for name in (self.names if names is None else names)]
        count = max((len(column) for column in columns), default=0)
        for start in range(0, count, rows):
            yield [column[start : start + rows] for column in columns]


def open_stream(
    path: str | os.PathLike[str], *, label: str | None = None, delimiter: str | None = None
) -> Stream:
    """Open a table; CSV and parquet are streamed, .npz and .npy are loaded.

    Args:
        path: The file. Its format is told from its content, not from its name.
        label: Array of labels in an .npz archive, or a second .npy file.
        delimiter: What separates the columns of a CSV file; None tells it from the first rows.

    Raises:
        InputError: Anything in the file that cannot be used.
        MissingDependency: The file is CSV or parquet and pyarrow is not installed.
    """
    where, found = Path(path).name, detect(path)
    if found in ("csv", "parquet"):
        # Only these two need pyarrow, an optional dependency.
        from farfield.datasets.arrow_stream import CsvStream, ParquetStream

        return ParquetStream(path) if found == "parquet" else CsvStream(path, delimiter)
    if found == "npz":
        return _npz_stream(path, label)
    if found == "npy":
        inputs = read_npy(path)
        labels = read_npy(label) if label is not None else None
        columns = matrix_columns(inputs, None, where)
        if labels is not None:
            columns.append(label_column(str(label), labels, len(inputs), where))
        return MemoryStream(columns, where, label, named=False)
    kind = "IDX images" if found == "idx" else "a Python pickle"
    raise InputError(
        f"{where}: this is {kind}, not a table. Tables are CSV, parquet, .npz or .npy files; "
        "images are read with read_images."
    )


def matrix_columns(
    inputs: NDArray[Any], names: Sequence[str] | None, where: str, what: str = "inputs"
) -> list[Column]:
    """Turn a matrix of numbers into columns, x0, x1, ... unless they are named."""
    if inputs.ndim != 2 or inputs.dtype.kind not in "fiub":
        raise InputError(
            f"{where}: {what} must be numbers of shape (rows, features), got {inputs.dtype} of "
            f"shape {inputs.shape}. Flatten images first, or read them as images."
        )
    if names is not None and len(names) != inputs.shape[1]:
        raise InputError(f"{where}: {len(names)} feature_names for {inputs.shape[1]} columns.")
    if names is None:
        names = [f"x{k}" for k in range(inputs.shape[1])]
    numbers = inputs if inputs.dtype.kind == "f" else inputs.astype(np.float64)
    return [
        Column(name, "number", numbers[:, k], str(inputs.dtype)) for k, name in enumerate(names)
    ]


def _npz_stream(path: str | os.PathLike[str], label: str | None) -> Stream:
    """Find inputs, labels and names among the arrays of an archive."""
    where, found = Path(path).name, array_names(path)
    inputs = next((name for name in _INPUTS if name in found), None)
    if inputs is None:
        raise InputError(
            f"{where}: no array of inputs. It is looked for as {', '.join(_INPUTS)}; the arrays "
            f"are {found}."
        )
    # A label that is no array may still be a column, by its feature name.
    named = label if label in found else None
    if label is None:
        named = next((name for name in _LABELS if name in found), None)
    wanted = [inputs, *([named] if named is not None else [])]
    arrays = load_arrays(path, wanted, "feature_names")
    names = (
        [str(name) for name in arrays["feature_names"].ravel()]
        if ("feature_names" in arrays)
        else None
    )
    columns = matrix_columns(arrays[inputs], names, where, f"array {inputs!r}")
    if named is not None:
        columns.append(label_column(named, arrays[named], len(arrays[inputs]), where))
    return MemoryStream(columns, where, named, named=names is not None)
