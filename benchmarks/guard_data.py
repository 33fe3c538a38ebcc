"""The tables that guards are compared on: training and test rows, natural shifts, far inputs.

Images are in ``benchmarks.guard_images``.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.parts import data_folder
from farfield.reproduce.shifted_tables import FACTORS, FILES, ROWS, TABLES

Array = NDArray[np.float64]


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


SMALL = {"hidden": (20, 20), "weight_decay": 1e-2, "epochs": 40, "batch_size": 32}


def _task(name: str, settings: dict[str, Any]) -> Task:
    """A table of the studies, with the settings of its networks."""
    folder = data_folder("tabular") if name in FILES else None
    table = TABLES[name](folder)
    return Task(table.train, table.test, table.near, settings, categorical=table.blocks or None)


def moons() -> Task:
    """Half-moons, the split of Know Your Limits."""
    settings = {"hidden": (25, 25, 25), "epochs": 60, "batch_size": 64, "learning_rate": 3e-3}
    return _task("half-moons", settings)


def icu() -> Task:
    """Mortality in medical and surgical units; coronary and cardiac surgery units as shifts."""
    return _task("ICU", {"hidden": (50, 50), "dropout": 0.3, "weight_decay": 1e-2, "epochs": 15})


def credit() -> Task:
    """Credit card default; clients over 55 as the shift."""
    settings = {"hidden": (50, 50), "dropout": 0.1, "weight_decay": 1e-3, "epochs": 8}
    return _task("credit default", settings | {"batch_size": 256, "learning_rate": 2e-3})


def heart() -> Task:
    """Heart disease, trained in Cleveland; the other hospitals as shifts."""
    return _task("heart disease", SMALL)


def breast_cancer() -> Task:
    """Breast cancer from cell nuclei; a hospital with another scale, and one with other units."""
    return _task("breast cancer", SMALL)


def wine() -> Task:
    """Wine of two growers by its chemistry; that of a third one as the shift."""
    return _task("wine", SMALL)


def german() -> Task:
    """German credit, with categories; older clients, large loans and other purposes as shifts."""
    return _task("german credit", SMALL | {"epochs": 30})


def boosted(task: Task, library: Literal["xgboost", "lightgbm"]) -> Task:
    """The same rows for boosted trees."""
    return replace(task, boosted=library)
