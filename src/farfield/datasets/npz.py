"""Reader of numpy's .npz archives; never unpickles."""

import os
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.datasets.column import Column, Impute
from farfield.datasets.table import Choices, LabelKind, Table, build_table
from farfield.errors import InputError


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
        columns.append(_label_column(label, arrays[label], len(inputs), where))
    choices = Choices(where, label, label_kind, impute=impute, like=like)
    return build_table(columns, choices)


def load_arrays(
    path: str | os.PathLike[str], needed: Sequence[str], *optional: str
) -> dict[str, NDArray[Any]]:
    """Load arrays of an .npz archive by name, refusing pickles and damaged files."""
    where = Path(path).name
    try:
        return _load(Path(path), needed, optional)
    except InputError:
        raise
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, OSError) and error.strerror:
            raise InputError(f"Cannot read {path}: {error.strerror}.") from error
        raise InputError(
            f"{where}: not a whole .npz file of plain arrays: {error}. Arrays of Python objects "
            "are never loaded; save numbers and text with numpy.savez."
        ) from error


def _load(path: Path, needed: Sequence[str], optional: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Load without looking after damaged files."""
    # Opened here, because numpy leaves a damaged file open.
    with path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise InputError(f"{path.name}: one bare array, not an .npz archive. Use numpy.savez.")
        absent = [name for name in needed if name not in archive.files]
        if absent:
            raise InputError(f"{path.name}: no array {absent}. The arrays are {archive.files}.")
        wanted = [*needed, *(name for name in optional if name in archive.files)]
        return {name: archive[name] for name in wanted}


def _label_column(name: str, values: NDArray[Any], rows: int, where: str) -> Column:
    """Turn an array of labels into a column."""
    if values.shape != (rows,):
        raise InputError(f"{where}: labels {name!r} must have shape ({rows},), got {values.shape}.")
    if values.dtype.kind in "fiu":
        return Column(name, "number", values.astype(np.float64), str(values.dtype))
    kind: Any = "category" if values.dtype.kind in "bU" else "other"
    words = np.array([str(value) for value in values.tolist()], dtype=object)
    return Column(name, kind, words, str(values.dtype))
