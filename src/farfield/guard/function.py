"""A black box behind a guard: anything that returns probabilities."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.data.columns import Columns, one_row
from farfield.distributions import as_distributions
from farfield.errors import InputError
from farfield.guard.certificate import Certificate
from farfield.guard.covered import Covered
from farfield.guard.guarded import GuardedProbabilities
from farfield.guard.members import Predict
from farfield.guard.mix import mix


@final
class GuardedFunction(GuardedProbabilities):
    """A function of rows that returns probabilities, mixed with the uniform answer outside.

    Attributes:
        predict: The function, ``(rows, classes)``.
        classes: Number of classes.
    """

    def __init__(
        self,
        predict: Predict,
        classes: int,
        covered: Covered,
        columns: Columns,
        certificate: Certificate,
    ) -> None:
        self.predict, self.classes = predict, classes
        self.covered, self.columns, self.certificate = covered, columns, certificate

    def __call__(self, X: Any) -> NDArray[Any]:
        """Guarded probabilities."""
        return self.predict_proba(X)

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Guarded probabilities, ``(rows, classes)``: bit-identical where rows are inside."""
        rows = self.columns.look(X)
        return self.mix(self._own(X, rows), self.temperatures_of(rows))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the views and the certificate, without the function, to one file."""
        from farfield.guard.archive import save

        save(self, path)

    def own_proba(self, X: Any) -> NDArray[Any]:
        """The function's own probabilities, NaN for rows that it cannot take."""
        return self._own(X, self.columns.look(X))

    def _own(self, X: Any, rows: NDArray[Any]) -> NDArray[Any]:
        """The function's own probabilities; one row by itself is a batch of one."""
        X = one_row(X)
        one = not hasattr(X, "columns") and np.shape(X) == self.columns.shape
        return answers(self.predict, np.asarray(X)[None] if one else X, rows, self.classes)

    @staticmethod
    def mix(own: NDArray[Any], temperatures: NDArray[np.float64]) -> NDArray[Any]:
        """Mix probabilities with the uniform answer; most rows need not be touched."""
        own = own.astype(np.promote_types(own.dtype, np.float32), copy=False)
        hot = temperatures != 1.0
        if math.isfinite(own.sum()) and not hot.any():
            return own
        hot |= np.isnan(own).any(axis=1)
        mixed = own.copy()
        mixed[hot] = mix(torch.from_numpy(own[hot]), torch.from_numpy(temperatures[hot])).numpy()
        return mixed


def answers(predict: Predict, X: Any, values: NDArray[Any], classes: int) -> NDArray[Any]:
    """A function's own probabilities, ``(rows, classes)``; NaN for rows that it cannot take.

    Args:
        predict: The function.
        X: What it is shown.
        values: ``(rows, columns)`` the same, read as numbers.
        classes: Number of classes.

    Raises:
        InputError: If the function does not return probabilities.
    """
    return of_able(lambda x, n: as_distributions(predict(x), n, classes), X, values, classes)


def of_able(
    ask: Callable[[Any, int], NDArray[Any]], X: Any, values: NDArray[Any], width: int
) -> NDArray[Any]:
    """What a function says of rows, ``(rows, width)``; NaN for those that it cannot take.

    Rows with values that are no numbers are only shown to a function that was made with such rows;
    if one fails on values beyond single precision, those rows are left out too.

    Args:
        ask: The function, of rows and how many there are.
        X: What it is shown.
        values: ``(rows, columns)`` the same, read as numbers.
        width: Numbers for each row.
    """
    if len(values) == 0:
        return np.zeros((0, width))
    infinite = np.isinf(values)
    able = np.ones(len(values), dtype=np.bool_)
    if infinite.any():
        able = np.asarray(~infinite.any(axis=1))
    try:
        return _asked(ask, X, able, width)
    except InputError:
        raise
    except Exception:
        single = float(np.finfo(np.float32).max)
        usual = np.isfinite(values) & (np.abs(values) <= single)
        fewer = np.asarray(usual.all(axis=1))
        if bool((fewer == able).all()):
            raise
        return _asked(ask, X, fewer, width)


def _asked(
    ask: Callable[[Any, int], NDArray[Any]], X: Any, able: NDArray[np.bool_], width: int
) -> NDArray[Any]:
    if not able.any():
        return np.full((len(able), width), np.nan)
    if able.all():
        return ask(X, len(able))
    own = ask(X.loc[able] if hasattr(X, "loc") else np.asarray(X)[able], int(able.sum()))
    whole = np.full((len(able), *own.shape[1:]), np.nan, dtype=own.dtype)
    whole[able] = own
    return whole
