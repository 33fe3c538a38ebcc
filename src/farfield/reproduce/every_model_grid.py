"""What every model did on every table, and means over tables that keep what is not known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from farfield.estimate import Estimate
from farfield.reproduce.every_model_measures import LEVEL, SCALED
from farfield.reproduce.experiment import Result

When = Literal["before", "after"]
Read = Callable[[Result], float | None]
# What is known of a distance, the best first.
KNOWN = ("exact", "at most", "seen")


@dataclass(frozen=True)
class StudyGrid:
    """Results by table and model.

    Attributes:
        tables: Names of tables that have results.
        models: Names of models.
        cells: Table and model to a result of :func:`measure`.
        data: Table to a result of :func:`describe`.
    """

    tables: Sequence[str]
    models: Sequence[str]
    cells: Mapping[tuple[str, str], Result]
    data: Mapping[str, Result]

    def of(self, model: str) -> list[Result]:
        """The results of a model, table by table."""
        return [self.cells[table, model] for table in self.tables if (table, model) in self.cells]

    def mean(self, model: str, read: Read) -> float | None:
        """The mean over the tables that have such a number; infinite if one of them is."""
        values = [value for result in self.of(model) if (value := read(result)) is not None]
        return float(np.mean(values)) if values else None

    def blind(self, model: str, family: str) -> float | Estimate | None:
        """The mean blind share: exact if all are, else with an interval.

        Hoeffding's: the mean of independent shares ``s_t`` of ``n_t`` rays over ``T`` tables is
        farther than ``sqrt(log(2 / (1 - level)) / 2 * sum(1 / n_t) / T^2)`` from its expectation
        at most as often as ``1 - level`` says.
        """
        shares = [found["blind"][family] for found in self.of(model) if family in found["blind"]]
        if not shares:
            return None
        value = float(np.mean([share["value"] for share in shares]))
        noise = sum(1 / share["rays"] for share in shares if "low" in share)
        if not noise:
            return value
        width = math.sqrt(math.log(2 / (1 - LEVEL)) / 2 * noise) / len(shares)
        low, high = max(0.0, value - width), min(1.0, value + width)
        return Estimate(value, low, high, LEVEL, "Hoeffding")

    def sure_from(self, model: str) -> tuple[float, str] | None:
        """The median over tables of the median distance, and how well it is known."""
        found = [result["sure from"] for result in self.of(model)]
        if not found:
            return None
        ordered = sorted(each["median"] for each in found)
        how = max((each["how"] for each in found), key=KNOWN.index)
        return ordered[len(ordered) // 2], how

    def best(self, count: int) -> list[str]:
        """The models with the highest mean accuracy on test rows, best first."""
        right = {
            model: self.mean(model, lambda r: r["before"]["accuracy"]) for model in self.models
        }
        known = {model: value for model, value in right.items() if value is not None}
        return sorted(known, key=lambda model: -known[model])[:count]


def value_of(share: float | Estimate | None) -> float | None:
    """The number itself, exact or estimated."""
    return share.value if isinstance(share, Estimate) else share


def scaled(when: When) -> Read:
    """AUROC on rows with one column scaled."""
    return lambda result: result[when]["auroc"][SCALED]["value"] if when in result else None


def natural(when: When) -> Read:
    """Mean AUROC on a table's natural shifts, if it has some."""

    def read(result: Result) -> float | None:
        found = result.get(when, {"auroc": {}})["auroc"]
        values = [each["value"] for name, each in found.items() if name != SCALED]
        return float(np.mean(values)) if values else None

    return read


def change(name: str) -> Read:
    """What a guard changes of a number on test rows; none where either is infinite."""

    def read(result: Result) -> float | None:
        if "after" not in result:
            return None
        before, after = result["before"][name], result["after"][name]
        return after - before if math.isfinite(before) and math.isfinite(after) else None

    return read
