"""The data that guards are compared on: training and test rows, natural shifts, and far inputs."""

import gzip
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.parts import data_folder
from farfield.datasets import half_moons

Array = NDArray[np.float64]
FACTORS = (10.0, 100.0, 1e3, 1e4, 1e5, 1e6)
ROWS = 2000
# Columns of the ICU file that tell the outcome, or are no measurements.
NO_MEASUREMENTS = ("RecordID", "set", "SAPS_I", "SOFA", "LOS", "Survival")


@dataclass(frozen=True)
class Task:
    """A classification task with inputs that are not its own.

    Attributes:
        train: Rows and classes to train on; the guard sees these rows too.
        test: Rows and classes that nothing has seen.
        near: Natural shifts: name to rows.
        settings: Of the networks.
        metric: Of the guard; ``None`` lets it choose.
    """

    train: tuple[Array, NDArray[np.int64]]
    test: tuple[Array, NDArray[np.int64]]
    near: dict[str, Array]
    settings: dict[str, Any]
    metric: Any = None

    def far(self) -> dict[str, Array]:
        """Inputs far away: one feature of each test row times a factor, and noise."""
        rng = np.random.default_rng(0)
        rows = self.test[0][:ROWS].copy()
        scaled = rows.copy()
        flat = scaled.reshape(len(rows), -1)
        for row in flat:
            places = np.flatnonzero(row)
            row[rng.choice(places if len(places) else len(row))] *= rng.choice(FACTORS)
        low, high = self.train[0].min(axis=0), self.train[0].max(axis=0)
        middle, half = (low + high) / 2, 1.5 * (high - low)
        noise = middle + half * rng.uniform(-1, 1, size=rows.shape)
        return {"one feature times 10 to 1e6": scaled, "noise, three times the range": noise}


def moons() -> Task:
    """Half-moons, the split of Know Your Limits."""
    data = half_moons(0)
    settings = {"hidden": (25, 25, 25), "epochs": 60, "batch_size": 64, "learning_rate": 3e-3}
    train, test = (data.X, data.y), (data.X_validation, data.y_validation)
    return Task(_codes(train), _codes(test), {}, settings)


def icu() -> Task:
    """Mortality in medical and surgical units; coronary and cardiac surgery units as shifts."""
    names, values = _table("physionet2012_icu_features.csv.gz", "RecordID")
    unit, death = values[:, names.index("ICUType")], values[:, names.index("death")]
    dropped = {*NO_MEASUREMENTS, "ICUType", "death"}
    kept = [i for i, name in enumerate(names) if name not in dropped]
    rows = _filled(values[:, kept], unit >= 3)
    train, test = _split(np.flatnonzero(unit >= 3))
    near = {"coronary unit": rows[unit == 1], "cardiac surgery": rows[unit == 2]}
    settings = {"hidden": (50, 50), "dropout": 0.3, "weight_decay": 1e-2, "epochs": 15}
    return _task(rows, death, train, test, near, settings)


def credit() -> Task:
    """Credit card default; clients over 55 as the shift."""
    names, values = _table("credit_default_uci.csv.gz", "ID")
    label, age = values[:, -1], values[:, names.index("AGE")]
    rows = values[:, 1:-1]
    train, test = _split(np.flatnonzero(age <= 55))
    settings = {"hidden": (50, 50), "dropout": 0.1, "weight_decay": 1e-3, "epochs": 8}
    settings |= {"batch_size": 256, "learning_rate": 2e-3}
    return _task(rows, label, train, test, {"over 55": rows[age > 55]}, settings)


def heart() -> Task:
    """Heart disease, trained in Cleveland; the other hospitals as shifts."""
    names, values, sites = _heart_table()
    label = (values[:, names.index("num")] > 0).astype(float)
    rows = _filled(values[:, : names.index("num")], sites == "cleveland")
    train, test = _split(np.flatnonzero(sites == "cleveland"))
    near = {site: rows[sites == site] for site in ("hungarian", "switzerland", "va")}
    settings = {"hidden": (20, 20), "weight_decay": 1e-2, "epochs": 40, "batch_size": 32}
    return _task(rows, label, train, test, near, settings)


def mnist() -> Task:
    """MNIST as rows of pixels in [0, 1]; Fashion-MNIST and letters as shifts."""
    data = data_folder("mnist", "fashion_mnist", "images")
    X, y = _idx(data / "mnist", "train", 12_000)
    X_test, y_test = _idx(data / "mnist", "t10k", 5_000)
    fashion, _ = _idx(data / "fashion_mnist", "t10k", ROWS)
    with np.load(data / "images" / "emnist_letters_2000.npz", allow_pickle=False) as file:
        letters = file["images"].reshape(len(file["images"]), -1) / 255.0
    settings = {"hidden": (128, 128), "epochs": 8, "standardize": False, "batch_size": 128}
    near = {"fashion": fashion, "letters": letters}
    return Task((X, y), (X_test, y_test), near, settings, "isotropic")


def cifar() -> Task:
    """The CIFAR-10 test images that are here: half to cover, half to test; SVHN as the shift."""
    data = data_folder("images")
    with np.load(data / "images" / "cifar10_test_2000.npz", allow_pickle=False) as file:
        X, y = file["images"].transpose(0, 3, 1, 2) / 255.0, file["labels"].astype(np.int64)
    with np.load(data / "images" / "svhn_test_crops_2000.npz", allow_pickle=False) as file:
        svhn = file["images"][:1000].transpose(0, 3, 1, 2) / 255.0
    order = np.random.default_rng(0).permutation(len(X))
    first, second = order[:1400], order[1400:]
    return Task((X[first], y[first]), (X[second], y[second]), {"svhn": svhn}, {})


def _codes(pair: tuple[Any, Any]) -> tuple[Array, NDArray[np.int64]]:
    return np.asarray(pair[0], dtype=np.float64), np.asarray(pair[1]).astype(np.int64)


def _task(
    rows: Array, label: Array, train: Any, test: Any, near: dict[str, Array], settings: Any
) -> Task:
    shifted = {name: values[:ROWS] for name, values in near.items()}
    return Task(
        _codes((rows[train], label[train])), _codes((rows[test], label[test])), shifted, settings
    )


def _split(places: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    order = np.random.default_rng(0).permutation(places)
    held = len(order) * 3 // 10
    return order[held:], order[:held]


def _table(name: str, first: str) -> tuple[list[str], Array]:
    """Read a table of numbers; letters become NaN."""
    with gzip.open(data_folder("tabular") / "tabular" / name, "rt", encoding="utf-8") as stream:
        names, text = stream.readline().strip().split(","), stream.read()
    if names[0] != first:
        raise ValueError(f"{name} starts with {names[0]!r}, expected {first!r}")
    return names, np.genfromtxt(io.StringIO(text), delimiter=",")


def _heart_table() -> tuple[list[str], Array, NDArray[Any]]:
    path = data_folder("tabular") / "tabular" / "heart_disease_4sites.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        names, lines = stream.readline().strip().split(",")[1:], stream.read().splitlines()
    sites = np.array([line.split(",", 1)[0] for line in lines])
    text = "\n".join(line.split(",", 1)[1] for line in lines)
    return names, np.genfromtxt(io.StringIO(text), delimiter=","), sites


def _filled(values: Array, training: NDArray[np.bool_]) -> Array:
    """Fill gaps with medians of the training rows."""
    filled: Array = np.where(np.isnan(values), np.nanmedian(values[training], axis=0), values)
    return filled


def _idx(folder: Path, part: str, count: int) -> tuple[Array, NDArray[np.int64]]:
    """Read images and labels in the MNIST format."""
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as stream:
        images = np.frombuffer(stream.read(), np.uint8, offset=16).reshape(-1, 784)[:count]
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as stream:
        labels = np.frombuffer(stream.read(), np.uint8, offset=8)[:count]
    return images / 255.0, labels.astype(np.int64)
