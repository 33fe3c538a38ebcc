"""Tables with rows that are not their own: training and test rows, natural shifts, far inputs.

Half-moons and three sets of scikit-learn come with the package; heart disease, intensive care,
credit default and German credit are read from a folder of data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from farfield.data.reading import open_stream
from farfield.data.stream import Column
from farfield.datasets import half_moons

Floats = NDArray[np.float64]
Labelled = tuple[Floats, NDArray[np.int64]]
FACTORS = (10.0, 100.0, 1e3, 1e4, 1e5, 1e6)
ROWS = 2000
# Rows that are read at once.
MOST = 10_000
# Columns of the ICU file that tell the outcome, or are no measurements.
NO_MEASUREMENTS = ("RecordID", "set", "SAPS_I", "SOFA", "LOS", "Survival", "ICUType", "death")


@dataclass(frozen=True, eq=False)
class ShiftedTable:
    """A classification task with inputs that are not its own.

    Attributes:
        train: Rows and classes to train on.
        test: Rows and classes that nothing has seen.
        near: Natural shifts: name to rows.
        blocks: Columns of one-hot codes of categories.
    """

    train: Labelled
    test: Labelled
    near: dict[str, Floats] = field(default_factory=dict)
    blocks: tuple[tuple[int, ...], ...] = ()

    def scaled(self, rng: np.random.Generator | None = None) -> Floats:
        """Test rows with one of their columns, not zero, times 10 to a million."""
        rng = rng or np.random.default_rng(0)
        rows: Floats = self.test[0][:ROWS].copy()
        fixed = {place for block in self.blocks for place in block}
        for row in rows.reshape(len(rows), -1):
            places = [place for place in np.flatnonzero(row) if place not in fixed]
            row[rng.choice(places or len(row))] *= rng.choice(FACTORS)
        return rows


def moons(_: Path | None) -> ShiftedTable:
    """Half-moons, the split of Know Your Limits."""
    data = half_moons(0)
    train, test = (data.X, data.y), (data.X_validation, data.y_validation)
    return ShiftedTable(_codes(*train), _codes(*test))


def breast_cancer(_: Path | None) -> ShiftedTable:
    """Breast cancer from cell nuclei; a hospital with another scale, and one with other units."""
    data = load_breast_cancer()
    rows, names = data.data, [str(name) for name in data.feature_names]
    train, test = split(np.arange(len(rows)))
    lengths = [i for i, name in enumerate(names) if "radius" in name or "perimeter" in name]
    areas = [i for i, name in enumerate(names) if "area" in name]
    larger, units = rows[test].copy(), rows[test].copy()
    larger[:, lengths] *= 1.2
    larger[:, areas] *= 1.44
    units[:, areas] /= 100.0
    near = {"pixels 20% larger": larger, "areas in other units": units}
    return _table(rows, data.target, train, test, near)


def wine(_: Path | None) -> ShiftedTable:
    """Wine of two growers by its chemistry; that of a third one as the shift."""
    data = load_wine()
    train, test = split(np.flatnonzero(data.target < 2))
    near = {"third grower": data.data[data.target == 2]}
    return _table(data.data, data.target, train, test, near)


def digits(_: Path | None) -> ShiftedTable:
    """Digits of 8 x 8 pixels; the same upside down."""
    data = load_digits()
    train, test = split(np.arange(len(data.data)))
    turned = data.data[test].reshape(-1, 8, 8)[:, ::-1].reshape(len(test), -1)
    return _table(data.data, data.target, train, test, {"upside down": turned})


def heart(folder: Path | None) -> ShiftedTable:
    """Heart disease, trained in Cleveland; the other hospitals as shifts."""
    column = columns_of(folder, FILES["heart disease"])
    sites, label = column.pop("site"), column.pop("num") > 0
    train, test = split(np.flatnonzero(sites == "cleveland"))
    rows = _filled(np.stack([*column.values()], axis=1), train)
    near = {site: rows[sites == site] for site in ("hungarian", "switzerland", "va")}
    return _table(rows, label, train, test, near)


def icu(folder: Path | None) -> ShiftedTable:
    """Mortality in medical and surgical units; coronary and cardiac surgery units as shifts."""
    column = columns_of(folder, FILES["ICU"])
    unit, death = column["ICUType"], column["death"]
    kept = [each for name, each in column.items() if name not in NO_MEASUREMENTS]
    train, test = split(np.flatnonzero(unit >= 3))
    rows = _filled(np.stack(kept, axis=1), train)
    near = {"coronary unit": rows[unit == 1], "cardiac surgery": rows[unit == 2]}
    return _table(rows, death, train, test, near)


def credit(folder: Path | None) -> ShiftedTable:
    """Credit card default; clients over 55 as the shift."""
    column = columns_of(folder, FILES["credit default"])
    _, *measured, label = column.values()
    age, rows = column["AGE"], np.stack(measured, axis=1).astype(float)
    train, test = split(np.flatnonzero(age <= 55))
    return _table(rows, label, train, test, {"over 55": rows[age > 55]})


def german(folder: Path | None) -> ShiftedTable:
    """German credit, with categories; older clients, large loans and other purposes as shifts."""
    column = columns_of(folder, FILES["german credit"])
    words = {name: each for name, each in column.items() if each.dtype.kind == "U"}
    *numeric, label = (each.astype(float) for name, each in column.items() if name not in words)
    blocks, parts, width = [], [np.stack(numeric, axis=1)], len(numeric)
    for each in words.values():
        values = np.unique(each)
        parts.append((each[:, None] == values).astype(float))
        blocks.append(tuple(range(width, width + len(values))))
        width += len(values)
    rows = np.concatenate(parts, axis=1)
    age, amount = column["age"], column["amount"]
    business = np.isin(column["purpose"], ("A49", "A46"))
    train, test = split(np.flatnonzero((age <= 55) & (amount <= 8000) & ~business))
    shifts = {"over 55": age > 55, "over 8,000": amount > 8000, "business or education": business}
    near = {name: rows[chosen] for name, chosen in shifts.items()}
    return _table(rows, label - 1, train, test, near, tuple(blocks))


TABLES: dict[str, Callable[[Path | None], ShiftedTable]] = {
    "half-moons": moons,
    "breast cancer": breast_cancer,
    "wine": wine,
    "digits": digits,
    "heart disease": heart,
    "ICU": icu,
    "credit default": credit,
    "german credit": german,
}
# What those that are read from a folder need.
FILES = {
    "heart disease": "tabular/heart_disease_4sites.csv.gz",
    "ICU": "tabular/physionet2012_icu_features.csv.gz",
    "credit default": "tabular/credit_default_uci.csv.gz",
    "german credit": "tabular/german_credit.csv.gz",
}


def _codes(rows: Any, labels: Any) -> Labelled:
    return np.asarray(rows, dtype=np.float64), np.asarray(labels).astype(np.int64)


def _table(
    rows: Floats,
    label: Any,
    train: Any,
    test: Any,
    near: dict[str, Floats],
    blocks: tuple[tuple[int, ...], ...] = (),
) -> ShiftedTable:
    shifted = {name: np.asarray(values[:ROWS], dtype=float) for name, values in near.items()}
    own, unseen = (_codes(rows[part], label[part]) for part in (train, test))
    return ShiftedTable(own, unseen, shifted, blocks)


def split(places: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Seven tenths to train on, three to test."""
    order = np.random.default_rng(0).permutation(places)
    held = len(order) * 3 // 10
    return order[held:], order[:held]


def columns_of(folder: Path | None, file: str) -> dict[str, NDArray[Any]]:
    """The columns of a table below the folder of data: numbers, NaN where missing, or words."""
    batches = zip(*open_stream((folder or Path()) / file).batches(MOST), strict=True)
    return {parts[0].name: np.concatenate([_values(part) for part in parts]) for parts in batches}


def _values(column: Column) -> NDArray[Any]:
    return np.array(column.words)[column.values] if column.words else column.values


def _filled(values: Floats, training: NDArray[np.intp]) -> Floats:
    """Fill gaps with medians of the training rows."""
    filled: Floats = np.where(np.isnan(values), np.nanmedian(values[training], axis=0), values)
    return filled
