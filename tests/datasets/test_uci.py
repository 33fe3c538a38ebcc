"""The UCI regression reader, on a folder of the same format and on the real one if it is there."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from farfield.datasets import UCI_REGRESSION, uci_regression
from farfield.errors import InputError

ROWS = 6


@pytest.fixture
def folder(tmp_path):
    base = tmp_path / "uci_regression"
    base.mkdir()
    lines = ["x0,x1,y", *(f"{k},{k * k},{k / 2}" for k in range(ROWS))]
    (base / "yacht.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    write_index(tmp_path, [[5, 0], [2, 3]])
    return tmp_path


def write_index(folder, index):
    np.savez(folder / "uci_regression" / "yacht_test_index.npz", test_index=np.array(index))


def test_reads_inputs_targets_and_splits(folder):
    data = uci_regression("yacht", folder)
    assert (data.name, data.X.shape, data.y.tolist()) == ("yacht", (6, 2), [0, 0.5, 1, 1.5, 2, 2.5])
    assert len(data) == 2
    X_train, y_train, X_test, y_test = data.split(0)
    assert X_train[:, 0].tolist() == [1, 2, 3, 4]
    assert X_test[:, 0].tolist() == [5, 0]
    assert (y_train * 2 == X_train[:, 0]).all()
    assert (y_test * 2 == X_test[:, 0]).all()
    for k in (2, -1):
        with pytest.raises(InputError, match="splits 0 to 1"):
            data.split(k)


def test_folder_comes_from_the_environment(folder, monkeypatch):
    monkeypatch.setenv("FARFIELD_DATA", str(folder))
    assert len(uci_regression("yacht").X) == ROWS
    monkeypatch.delenv("FARFIELD_DATA")
    with pytest.raises(InputError, match="FARFIELD_DATA"):
        uci_regression("yacht")


def test_absent_and_unknown_sets(folder):
    with pytest.raises(InputError, match=r"Unknown set 'iris'.*wine_red, yacht"):
        uci_regression("iris", folder)
    with pytest.raises(InputError, match=r"boston\.csv\.gz: No such file"):
        uci_regression("boston", folder)
    with pytest.raises(InputError, match=r"wine_red\.csv\.gz: No such file"):
        uci_regression("wine", folder)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([[0, 6]], "from 0 to 6, but yacht.csv.gz has rows 0 to 5"),
        ([[-1, 2]], "from -1 to 2"),
        ([[1, 1]], "same row twice"),
        ([0, 1], r"shape \(2,\)"),
        ([[0.0, 1.0]], "float64"),
        ([[]], r"shape \(1, 0\)"),
    ],
)
def test_bad_splits_are_refused(folder, index, message):
    write_index(folder, index)
    with pytest.raises(InputError, match=message):
        uci_regression("yacht", folder)


@pytest.mark.parametrize(
    ("name", "shape", "splits"),
    [
        ("boston", (506, 13), (20, 51)),
        ("energy", (768, 8), (20, 77)),
        ("kin8nm", (8192, 8), (20, 819)),
        ("naval", (11934, 16), (20, 1193)),
        ("power", (9568, 4), (20, 957)),
        ("protein", (45730, 9), (5, 4573)),
        ("wine", (1599, 11), (20, 160)),
        ("yacht", (308, 6), (20, 31)),
    ],
)
def test_the_real_sets(name, shape, splits):
    folder = os.environ.get("FARFIELD_DATA")
    if not folder or not (Path(folder) / "uci_regression").is_dir():
        pytest.skip("the UCI regression sets are not here: set FARFIELD_DATA to their folder")
    data = uci_regression(name)
    assert data.name in UCI_REGRESSION
    assert (data.X.shape, data.test_index.shape) == (shape, splits)
    X_train, y_train, X_test, _ = data.split(0)
    assert len(X_train) + len(X_test) == len(data.X)
    assert y_train.std() > 0
