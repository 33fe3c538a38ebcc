"""A user's module, for type checkers alone: the public names with the types that they promise."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import farfield as ff
from farfield.errors import InputError


def blindness(model: object, rows: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    found: ff.Audit = ff.audit(model, rows, labels, samples=10)
    found.to_html(Path("report.html"))
    return found.verdict.blind


def confidence(model: object, rows: NDArray[np.float64]) -> list[float]:
    network: ff.Network = ff.capture(model, rows[:1])
    far: ff.FarField = ff.at_infinity(network, rows.mean(axis=0), np.eye(rows.shape[1]))
    values: list[float] = far.confidence.tolist()
    return values


def repaired(model: object, rows: NDArray[np.float64]) -> str:
    safe = ff.guard(model, rows)
    if not isinstance(safe, ff.GuardedModel):
        raise InputError("a classifier was expected")
    return safe.certificate.statement()


def learner() -> ff.EnsembleClassifier:
    return ff.EnsembleClassifier(members=3, hidden=(8,), random_state=0)


def wrong(rows: NDArray[np.float64]) -> int:
    # Noticed: strict checkers complain of an exception that nothing needs.
    return confidence(1, rows)  # type: ignore[return-value]
