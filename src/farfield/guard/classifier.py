"""A guarded classifier with scikit-learn's life cycle."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from farfield.errors import InputError
from farfield.estimators.ensemble import ReLUClassifier
from farfield.guard.archive import save
from farfield.guard.certificate import Certificate
from farfield.guard.drawn import MIN_ROWS, Options
from farfield.guard.function import GuardedFunction, answers
from farfield.guard.guarded import Explanation
from farfield.guard.protect import guard_function
from farfield.levels import EPSILON, KEEP, RADII


@final
@dataclass(kw_only=True, eq=False, repr=False)
class GuardedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """Fit a classifier, then guard it on the same rows; see :func:`farfield.guard`.

    Attributes:
        estimator: Any classifier with ``predict_proba``; ``None`` for ``ReLUClassifier()``.
        radii: Within how many data radii the promise is to hold.
        epsilon: How far any class may be above ``1 / K`` there.
        keep: The share of new rows that is to stay bit-identical.
        held_out: Share of the rows that only count how many are inside. They train the
            classifier like all others.
        categorical: Positions of code columns, and lists of positions of one-hot blocks.
        numeric: Positions of columns that are numbers, though they hold only 0 and 1.
        min_rows: No mean of fewer rows is stored.
        envelope: ``predict_proba`` is the estimator's own; what the guard says is beside it, in
            ``is_inside``, ``distance`` and ``explain``.
        prefit: The estimator is fitted already; ``fit`` only guards it.
        random_state: Seed of the guard.

    >>> X, y = np.linspace(-2, 2, 40)[:, None], ["a"] * 20 + ["b"] * 20
    >>> model = GuardedClassifier(ReLUClassifier(hidden=(8,), random_state=0)).fit(X, y)
    >>> model.predict_proba([[1e6]]).max().round(3) <= 0.51
    np.True_
    """

    estimator: Any = field(default=None, kw_only=False)
    radii: float = RADII
    epsilon: float = EPSILON
    keep: float = KEEP
    held_out: float = 0.1
    categorical: Sequence[int | Sequence[int]] | None = None
    numeric: Sequence[int] = ()
    min_rows: int = MIN_ROWS
    envelope: bool = False
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
        known = None if y is None else np.searchsorted(self.classes_, np.asarray(y).ravel())
        options = Options(
            radii=self.radii,
            epsilon=self.epsilon,
            keep=self.keep,
            held_out=self.held_out,
            labels=known,
            categorical=self.categorical,
            numeric=self.numeric,
            min_rows=self.min_rows,
            random_state=self.random_state,
        )
        self.guard_ = guard_function(self.estimator_.predict_proba, rows, options)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may expect: missing values where the estimator takes them."""
        tags = super().__sklearn_tags__()
        if self.estimator is not None:
            tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags

    @property
    def certificate_(self) -> Certificate:
        """The promise, and the constants that prove it."""
        check_is_fitted(self)
        return self.guard_.certificate

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Guarded probabilities, ``(rows, classes)``: bit-identical where rows are inside.

        With ``envelope`` the estimator's own, everywhere.
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        values = self.guard_.columns.look(rows)
        own = answers(self.estimator_.predict_proba, X, values, len(self.classes_))
        if self.envelope:
            return own
        return GuardedFunction.mix(own, self.guard_.temperatures_of(values))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable label of every row: the estimator's own."""
        check_is_fitted(self)
        self._rows(X, reset=False)
        return np.asarray(self.estimator_.predict(X))

    def is_inside(self, X: Any) -> NDArray[np.bool_]:
        """Whether rows are in the covered set, where nothing is changed, ``(rows,)``."""
        check_is_fitted(self)
        return self.guard_.is_inside(self._rows(X, reset=False))

    def distance(self, X: Any) -> NDArray[np.float64]:
        """How far rows are outside, ``(rows,)``: at most 0 inside, 1 where nothing is left."""
        check_is_fitted(self)
        return self.guard_.distance(self._rows(X, reset=False))

    def explain(self, row: Any) -> Explanation:
        """Say in words which view and which column put one row outside, and by how much."""
        check_is_fitted(self)
        return self.guard_.explain(row)

    def save_views(self, path: str | os.PathLike[str]) -> None:
        """Write the views and the certificate, without the classifier, to one file."""
        check_is_fitted(self)
        save(self.guard_, path)

    def _rows(self, X: Any, *, reset: bool) -> Any:
        """Check inputs as scikit-learn does; tables stay tables."""
        table = hasattr(X, "dtypes")
        finite = "allow-nan" if self.__sklearn_tags__().input_tags.allow_nan else True
        checks = {"dtype": [np.float64, np.float32], "ensure_all_finite": finite}
        try:
            checked = validate_data(
                self, X, reset=reset, skip_check_array=table, **({} if table else checks)
            )
        except ValueError as error:
            raise InputError(str(error)) from error
        return X if table else np.asarray(checked)
