"""The UCI regression sets with their standard splits, from a folder that the user has.

Nothing is shipped or downloaded. The folder is an argument or the environment variable
FARFIELD_DATA; it holds ``uci_regression/NAME.csv.gz`` (columns ``x0, x1, ...`` and ``y``) and
``uci_regression/NAME_test_index.npz`` (an array ``test_index``, one row of indices per split).
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from farfield.data import open_table
from farfield.data.arrays import load_arrays
from farfield.errors import InputError

UCI_REGRESSION = ("boston", "energy", "kin8nm", "naval", "power", "protein", "wine_red", "yacht")
"""Names of the sets."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RegressionSplits:
    """A regression set with its standard splits.

    Attributes:
        name: Of the set.
        X: Inputs, ``(rows, features)``.
        y: Targets, ``(rows,)``.
        test_index: Rows to test on, ``(splits, test rows)``; the others are to train on.
    """

    name: str
    X: Floats
    y: Floats
    test_index: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.test_index)

    def split(self, k: int) -> tuple[Floats, Floats, Floats, Floats]:
        """Return ``X_train, y_train, X_test, y_test`` of split ``k``; rows keep their order."""
        if not 0 <= k < len(self):
            raise InputError(f"{self.name} has splits 0 to {len(self) - 1}, got {k}.")
        test = np.zeros(len(self.X), dtype=bool)
        test[self.test_index[k]] = True
        return self.X[~test], self.y[~test], self.X[self.test_index[k]], self.y[self.test_index[k]]


def uci_regression(name: str, data_dir: str | os.PathLike[str] | None = None) -> RegressionSplits:
    """Read one of the UCI regression sets.

    Args:
        name: One of `UCI_REGRESSION`; ``"wine"`` is short for ``"wine_red"``.
        data_dir: The folder that holds ``uci_regression``; default: the environment variable
            FARFIELD_DATA.

    Returns:
        Inputs, targets and splits.

    Raises:
        InputError: Unknown name, no folder, or a file that cannot be used.
    """
    full_name = {"wine": "wine_red"}.get(name, name)
    if full_name not in UCI_REGRESSION:
        raise InputError(f"Unknown set {name!r}. The sets are {', '.join(UCI_REGRESSION)}.")
    folder = data_dir if data_dir is not None else os.environ.get("FARFIELD_DATA")
    if not folder:
        raise InputError(
            "Where is the data? Pass data_dir or set the environment variable FARFIELD_DATA to the "
            "folder that holds uci_regression."
        )
    base = Path(folder) / "uci_regression"
    table = open_table(base / f"{full_name}.csv.gz", label="y", label_kind="number").read()
    assert table.y is not None
    index_file = base / f"{full_name}_test_index.npz"
    test_index = load_arrays(index_file, ["test_index"])["test_index"]
    rows = len(table.X)
    if test_index.ndim != 2 or test_index.dtype.kind not in "iu" or test_index.size == 0:
        raise InputError(
            f"{index_file.name}: test_index must be whole numbers of shape (splits, test rows), "
            f"got {test_index.dtype} of shape {test_index.shape}."
        )
    if test_index.min() < 0 or test_index.max() >= rows:
        raise InputError(
            f"{index_file.name}: indices from {test_index.min()} to {test_index.max()}, but "
            f"{full_name}.csv.gz has rows 0 to {rows - 1}. Do both files belong together?"
        )
    if any(len(np.unique(split)) < len(split) for split in test_index):
        raise InputError(f"{index_file.name}: a split names the same row twice.")
    return RegressionSplits(full_name, table.X, table.y, test_index.astype(np.int64))
