"""Reader of numpy's .npz archives; never unpickles."""

import errno
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.budget import Budget, allowance
from farfield.datasets.column import Column, Impute, text_column
from farfield.datasets.content import MOST_BYTES, impossible, too_large
from farfield.datasets.npy import parse_npy
from farfield.datasets.table import Choices, LabelKind, Table, build_table
from farfield.errors import InputError
from farfield.files import regular


def read_npz(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    label_kind: LabelKind = "class",
    features: str = "X",
    impute: Impute | None = None,
    like: Table | None = None,
) -> Table:
    """Read an .npz archive with a matrix of inputs and, on request, labels.

    Args:
        path: The file. Arrays of Python objects are refused: nothing is unpickled.
        label: Name of the array of labels ``(rows,)``, or None to read none.
        label_kind: ``"class"`` turns labels into class indices, ``"number"`` leaves targets.
        features: Name of the array of inputs, ``(rows, features)``. An array
            ``feature_names``, if there is one, names its columns; else they are x0, x1, ...
        impute: How NaN is filled: ``"mean"``, ``"median"``, ``"most_frequent"``; None refuses it.
        like: An earlier table: take its features, in its order, its classes and fill values.

    Returns:
        A `Table`.

    Raises:
        InputError: Anything in the file that cannot be used.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "data.npz", X=np.eye(2), y=np.array([7, 3]))
    ...     table = read_npz(Path(folder) / "data.npz", label="y")
    >>> table.feature_names, table.classes, table.y.tolist()
    (('x0', 'x1'), (3, 7), [1, 0])
    """
    where = Path(path).name
    arrays = load_arrays(path, [features, *([label] if label is not None else [])], "feature_names")
    inputs = arrays[features]
    if inputs.ndim != 2 or inputs.dtype.kind not in "fiub":
        raise InputError(
            f"{where}: array {features!r} must be numbers of shape (rows, features), got "
            f"{inputs.dtype} of shape {inputs.shape}. Flatten images first."
        )
    names = [str(name) for name in arrays.get("feature_names", np.empty(0)).ravel()]
    if names and len(names) != inputs.shape[1]:
        raise InputError(
            f"{where}: {len(names)} feature_names for {inputs.shape[1]} columns of {features!r}."
        )
    names = names or [f"x{k}" for k in range(inputs.shape[1])]
    columns = [
        Column(name, "number", values.astype(np.float64), str(inputs.dtype))
        for name, values in zip(names, inputs.T, strict=True)
    ]
    if label is not None:
        columns.append(label_column(label, arrays[label], len(inputs), where))
    choices = Choices(where, label, label_kind, impute=impute, like=like)
    return build_table(columns, choices)


def load_arrays(
    path: str | os.PathLike[str], needed: Sequence[str], *optional: str
) -> dict[str, NDArray[Any]]:
    """Load arrays of an .npz archive by name, refusing pickles and damaged files."""
    where = Path(path).name
    with _archive(path) as archive:
        names = _array_names(archive)
        absent = [name for name in needed if name not in names]
        if absent:
            raise InputError(f"{where}: no array {absent}. The arrays are {names}.")
        wanted = [*needed, *(name for name in optional if name in names)]
        budget = Budget(allowance(Path(path).stat().st_size))
        return {name: _load(archive, f"{name}.npy", where, budget) for name in wanted}


def array_names(path: str | os.PathLike[str]) -> list[str]:
    """List the arrays of an .npz archive."""
    with _archive(path) as archive:
        return _array_names(archive)


def _array_names(archive: zipfile.ZipFile) -> list[str]:
    return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


@contextmanager
def _archive(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """Open an archive; what is wrong with it becomes our error."""
    where = Path(path).name
    try:
        with regular(path).open("rb") as file:
            _check_start(file.read(6), where)
            with zipfile.ZipFile(file) as archive:
                yield archive
    except InputError:
        raise
    except (
        OSError,
        EOFError,
        ValueError,
        OverflowError,
        RuntimeError,
        struct.error,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        if isinstance(error, OSError) and error.strerror and error.errno != errno.EINVAL:
            raise InputError(f"cannot read {path}: {error.strerror}.") from error
        raise InputError(
            f"{where}: not a whole .npz file of plain arrays: {error}. Copy it again, or save it "
            "with numpy.savez."
        ) from error


def _check_start(start: bytes, where: str) -> None:
    """Tell a bare array from an archive."""
    if start == b"\x93NUMPY":
        raise InputError(f"{where}: one bare array, not an .npz archive. Use numpy.savez.")


def _load(archive: zipfile.ZipFile, name: str, where: str, budget: Budget) -> NDArray[Any]:
    """Load one array, its promises checked before anything is allocated."""
    info = archive.getinfo(name)
    here = f"{where}: array {name.removesuffix('.npy')!r}"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError(f"{here} is compressed in a way that numpy does not use.")
    if info.file_size > MOST_BYTES:
        raise InputError(f"{here}: {too_large(info.file_size)}")
    if impossible(info.compress_size, info.file_size):
        raise InputError(
            f"{here}: {info.compress_size:,} bytes cannot hold the {info.file_size:,} that are "
            "promised. Is the file damaged?"
        )
    with archive.open(info) as file:
        return parse_npy(file, here, budget, info.file_size)


def label_column(name: str, values: NDArray[Any], rows: int, where: str) -> Column:
    """Turn an array of labels into a column."""
    if values.shape != (rows,):
        raise InputError(f"{where}: labels {name!r} must have shape ({rows},), got {values.shape}.")
    if values.dtype.kind in "fiu":
        return Column(name, "number", values.astype(np.float64), str(values.dtype))
    if values.dtype.kind not in "bU":
        return Column(name, "other", np.ones(rows, dtype=bool), str(values.dtype))
    stored_as = "boolean" if values.dtype.kind == "b" else "text"
    return text_column(name, [str(value) for value in values.tolist()], stored_as)
