"""A guarded classifier with scikit-learn's life cycle."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from farfield.errors import InputError
from farfield.estimators.relu import ReLUClassifier
from farfield.guard.certificate import Certificate
from farfield.guard.protect import guard


@final
@dataclass(kw_only=True, eq=False, repr=False)
class GuardedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """Fit a classifier, then guard it on the same rows; see :func:`farfield.guard`.

    Attributes:
        estimator: A farfield classifier, or a scikit-learn ``MLPClassifier`` (alone or behind
            affine scalers); ``None`` for ``ReLUClassifier()``.
        radii: Beyond how many data radii the promise is to hold.
        epsilon: How far any class may be above ``1 / K`` there.
        prototypes: Number of balls that cover the data.
        held_out: Share of the rows that only count how many are inside. They train the
            classifier like all others.
        categorical: Positions of code columns, and lists of positions of one-hot blocks.
        prefit: The estimator is fitted already; ``fit`` only guards it.
        random_state: Seed of the guard.

    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), ["a", "a", "b", "b"]
    >>> model = GuardedClassifier(ReLUClassifier(hidden=(8,), random_state=0)).fit(X, y)
    >>> model.predict_proba([[1e6]]).max().round(3) <= 0.51
    np.True_
    """

    estimator: Any = field(default=None, kw_only=False)
    radii: float = 3.0
    epsilon: float = 0.01
    prototypes: int = 64
    held_out: float = 0.1
    categorical: Sequence[int | Sequence[int]] | None = None
    prefit: bool = False
    random_state: int = 0

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train the estimator, unless ``prefit``, and guard it.

        Args:
            X: ``(rows, features)``.
            y: Labels.
            sample_weight: Weights of the rows in training, where the estimator takes them.
        """
        if self.prefit:
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
            rows = self._rows(X, reset=True)
        else:
            base = ReLUClassifier() if self.estimator is None else clone(self.estimator)
            if y is None:
                raise InputError(
                    "GuardedClassifier requires y to be passed, but the target y is None"
                )
            weights = {} if sample_weight is None else {"sample_weight": sample_weight}
            self.estimator_ = base.fit(X, y, **weights)
            rows = self._rows(X, reset=True)
        self.classes_ = self.estimator_.classes_
        self.module_ = guard(
            self.estimator_,
            rows,
            radii=self.radii,
            epsilon=self.epsilon,
            prototypes=self.prototypes,
            held_out=self.held_out,
            labels=None if y is None else np.searchsorted(self.classes_, np.asarray(y).ravel()),
            categorical=self.categorical,
            random_state=self.random_state,
        )
        return self

    @property
    def certificate_(self) -> Certificate:
        """The promise, and the constants that prove it."""
        check_is_fitted(self)
        return self.module_.certificate

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Guarded probabilities, ``(rows, classes)``."""
        check_is_fitted(self)
        return self.module_.predict_proba(self._rows(X, reset=False))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable label of every row: the estimator's own."""
        check_is_fitted(self)
        rows = self.module_.rows(self._rows(X, reset=False))
        with torch.no_grad():
            codes = self.module_.unguarded(rows).argmax(dim=1).numpy()
        labels: NDArray[Any] = self.classes_[codes]
        return labels

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the guarded model to one file; read it with :func:`farfield.guard.load`."""
        check_is_fitted(self)
        self.module_.save(path)

    def _rows(self, X: Any, *, reset: bool) -> NDArray[Any]:
        """Check inputs as scikit-learn does."""
        try:
            values = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
        except ValueError as error:
            raise InputError(str(error)) from error
        return np.asarray(values)
