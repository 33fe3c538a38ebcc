"""The tables that guards are compared on: training and test rows, natural shifts, far inputs.

Images are in ``benchmarks.guard_images``.
"""

import gzip
import io
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_wine

from benchmarks.parts import data_folder
from farfield.datasets import half_moons

Array = NDArray[np.float64]
FACTORS = (10.0, 100.0, 1e3, 1e4, 1e5, 1e6)
ROWS = 2000
# Columns of the ICU file that tell the outcome, or are no measurements.
NO_MEASUREMENTS = ("RecordID", "set", "SAPS_I", "SOFA", "LOS", "Survival")


@dataclass(frozen=True, eq=False)
class Task:
    """A classification task with inputs that are not its own.

    Attributes:
        train: Rows and classes to train on; the guard sees these rows too.
        test: Rows and classes that nothing has seen.
        near: Natural shifts: name to rows.
        settings: Of the networks.
        metric: Of the guard; ``None`` lets it choose.
        categorical: Columns of categories, as :func:`farfield.guard` takes them.
        boosted: The library whose trees are guarded, instead of a network.
        ball: Radius of an adversary's ball: in deviations of each column, or of a pixel's range.
        box: Least and largest value of a pixel; ``None`` for tables.
    """

    train: tuple[Array, NDArray[np.int64]]
    test: tuple[Array, NDArray[np.int64]]
    near: dict[str, Array]
    settings: dict[str, Any]
    metric: Any = None
    categorical: tuple[Any, ...] | None = None
    boosted: Literal["xgboost", "lightgbm"] | None = None
    ball: float = 0.25
    box: tuple[float, float] | None = None

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return int(self.train[1].max()) + 1

    @property
    def units(self) -> Array:
        """What an adversary's ball is measured in, ``(*input)``."""
        X = self.train[0]
        if self.box is not None:
            return np.full(X.shape[1:], self.box[1] - self.box[0])
        return X.std(axis=0)

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


def breast_cancer() -> Task:
    """Breast cancer from cell nuclei; a hospital with another scale, and one with other units."""
    data = load_breast_cancer()
    rows, names = data.data, [str(name) for name in data.feature_names]
    train, test = _split(np.arange(len(rows)))
    lengths = [i for i, name in enumerate(names) if "radius" in name or "perimeter" in name]
    areas = [i for i, name in enumerate(names) if "area" in name]
    larger, units = rows[test].copy(), rows[test].copy()
    larger[:, lengths] *= 1.2
    larger[:, areas] *= 1.44
    units[:, areas] /= 100.0
    near = {"pixels 20% larger": larger, "areas in other units": units}
    settings = {"hidden": (20, 20), "weight_decay": 1e-2, "epochs": 40, "batch_size": 32}
    return _task(rows, data.target, train, test, near, settings)


def wine() -> Task:
    """Wine of two growers by its chemistry; that of a third one as the shift."""
    data = load_wine()
    own = np.flatnonzero(data.target < 2)
    train, test = _split(own)
    settings = {"hidden": (20, 20), "weight_decay": 1e-2, "epochs": 40, "batch_size": 32}
    near = {"third grower": data.data[data.target == 2]}
    return _task(data.data, data.target, train, test, near, settings)


def german() -> Task:
    """German credit, with categories; older clients, large loans and other purposes as shifts."""
    names, columns = _words("german_credit.csv.gz")
    table = dict(zip(names, columns, strict=True))
    numeric = [name for name in names if _is_numeric(table[name])]
    label = table[numeric.pop()].astype(float) - 1
    blocks, parts = [], [np.stack([table[name].astype(float) for name in numeric], axis=1)]
    width = len(numeric)
    for name in names:
        if name not in numeric and not _is_numeric(table[name]):
            values = np.unique(table[name])
            parts.append((table[name][:, None] == values).astype(float))
            blocks.append(tuple(range(width, width + len(values))))
            width += len(values)
    rows = np.concatenate(parts, axis=1)
    age, amount = table["age"].astype(float), table["amount"].astype(float)
    business = np.isin(table["purpose"], ("A49", "A46"))
    own = (age <= 55) & (amount <= 8000) & ~business
    shifts = {"over 55": age > 55, "over 8,000": amount > 8000, "business or education": business}
    train, test = _split(np.flatnonzero(own))
    settings = {"hidden": (20, 20), "weight_decay": 1e-2, "epochs": 30, "batch_size": 32}
    near = {name: rows[chosen] for name, chosen in shifts.items()}
    task = _task(rows, label, train, test, near, settings)
    return replace(task, categorical=tuple(blocks))


def boosted(task: Task, library: Literal["xgboost", "lightgbm"]) -> Task:
    """The same rows for boosted trees."""
    return replace(task, boosted=library)


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


def _words(name: str) -> tuple[list[str], list[NDArray[np.str_]]]:
    """Read a table as it is written, column by column."""
    with gzip.open(data_folder("tabular") / "tabular" / name, "rt", encoding="utf-8") as stream:
        names = stream.readline().strip().split(",")
        rows = [line.split(",") for line in stream.read().splitlines()]
    return names, [np.array(column) for column in zip(*rows, strict=True)]


def _is_numeric(column: NDArray[np.str_]) -> bool:
    return all(value.lstrip("-").replace(".", "", 1).isdigit() for value in np.unique(column))
