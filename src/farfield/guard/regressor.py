"""A regressor behind a guard: the same mean, and a spread that grows with the distance.

``sigma'(x)^2 = sigma(x)^2 + (c relu(d(x)))^2``: where ``d <= 0`` nothing is touched, and beyond the
certified radius, where ``d >= 1``, no predicted deviation is below c.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from farfield.data.columns import Columns
from farfield.errors import InputError
from farfield.guard.certificate import Certificate
from farfield.guard.covered import Covered
from farfield.guard.function import of_able
from farfield.guard.guarded import Guarded

Floats = NDArray[np.float64]
# From rows to means and deviations, each ``(rows,)``.
Spread = Callable[[Any], tuple[Any, Any]]


@final
class GuardedRegressor(Guarded):
    """A regressor whose predicted deviation grows outside of the covered set.

    Attributes:
        spread: From rows to means and deviations.
    """

    def __init__(
        self, spread: Spread, covered: Covered, columns: Columns, certificate: Certificate
    ) -> None:
        self.spread = spread
        self.covered, self.columns, self.certificate = covered, columns, certificate

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Means, ``(rows,)``, which are the model's own; with ``return_std`` deviations too.

        A mean that the model cannot tell is NaN, and its deviation infinite.
        """
        both = of_able(lambda x, _: np.stack(self.spread(x), axis=1), X, self.columns.look(X), 2)
        mean, own = both[:, 0], both[:, 1]
        if not return_std:
            return mean
        beyond = self.certificate.spread * np.maximum(self.distance(X), 0.0)
        own = np.where(np.isnan(own), np.inf, own)
        return mean, np.where(beyond > 0, np.hypot(own, beyond), own)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the views and the certificate, without the regressor, to one file."""
        from farfield.guard.archive import save

        save(self, path)


def spread_of(model: Any) -> Spread | None:
    """How a regressor, or a pipeline that ends in one, gives means and deviations, if it does."""
    predict = getattr(model, "predict", None)
    if predict is None or hasattr(model, "predict_proba"):
        return None
    last = model
    while hasattr(last, "steps"):  # a pipeline hands options on to its last step
        last = last.steps[-1][1]
    names = getattr(getattr(getattr(last, "predict", None), "__code__", None), "co_varnames", ())
    if "return_std" not in names:
        return None
    return lambda X: predict(X, return_std=True)


def target_deviation(labels: Any, means: Any) -> float:
    """The deviation of the targets; of the model's own means where targets are not known."""
    if np.ndim(means) != 1:
        raise InputError(
            f"the regressor predicts {np.shape(means)[1]} targets at once; guard one for each"
        )
    values = np.asarray(means if labels is None else labels, dtype=np.float64)
    found = float(values.std())
    if not 0 < found < np.inf:
        raise InputError(f"the targets have a deviation of {found:g}; a spread needs a scale")
    return found
