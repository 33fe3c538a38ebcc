"""An envelope: a model's own outputs, bit for bit, with a guard's view of the rows beside them."""

from __future__ import annotations

import os
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from farfield.errors import InputError
from farfield.guard.certificate import Certificate
from farfield.guard.function import GuardedFunction
from farfield.guard.guarded import Explanation, Look
from farfield.guard.model import GuardedModel
from farfield.guard.protect import guard


@final
class Envelope:
    """Outputs as they are; whether to trust them beside.

    Attributes:
        guard: The guarded model, whose probabilities are shown beside.
    """

    def __init__(self, safe: GuardedModel | GuardedFunction) -> None:
        self.guard = safe

    @property
    def certificate(self) -> Certificate:
        """The guard's promise."""
        return self.guard.certificate

    def __call__(self, X: Any) -> NDArray[Any]:
        """The model's own probabilities."""
        return self.predict_proba(X)

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The model's own probabilities, ``(rows, classes)``, wherever rows are."""
        return self.guard.own_proba(X)

    def look(self, X: Any) -> Look:
        """Inside or not, distance, worst view and column, and guarded probabilities."""
        return self.guard.look(X)

    def is_inside(self, X: Any) -> NDArray[np.bool_]:
        """Whether rows are in the covered set, ``(rows,)``; new rows are with ``keep``."""
        return self.guard.is_inside(X)

    def explain(self, row: Any) -> Explanation:
        """Say in words which view and which column put one row outside, and by how much."""
        return self.guard.explain(row)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the guard to one file."""
        self.guard.save(path)


def envelope(model: Any, X: Any, **options: Any) -> Envelope:
    """Look at a model's inputs without touching its outputs.

    Args:
        model: As for :func:`farfield.guard`; a classifier.
        X: ``(rows, *input)`` training rows.
        **options: As for :func:`farfield.guard`: ``keep=0.99`` is the share of new rows that are to
            be inside, so one minus the rate of false alarms.

    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> found = envelope(lambda rows: np.tile([0.9, 0.1], (len(rows), 1)), X)
    >>> look = found.look([[0.0, 0.0], [0.0, 99.0]])
    >>> look.inside.tolist(), look.column[1].item(), found.predict_proba([[0.0, 99.0]]).tolist()
    ([True, False], 'column 1', [[0.9, 0.1]])
    """
    safe = guard(model, X, **options)
    if not isinstance(safe, GuardedModel | GuardedFunction):
        raise InputError("an envelope is for classifiers; guard a regressor for its spread")
    return Envelope(safe)
