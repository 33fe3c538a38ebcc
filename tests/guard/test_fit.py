"""Views are fitted to rows."""

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

import farfield as ff
from farfield.guard import fit
from farfield.guard.fit import FOLDS


def blas_threads():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_numpy_multiplies_on_one_thread_while_views_are_fitted(monkeypatch):
    seen, own = [], fit.fit_units

    def noted(*given):
        seen.append(blas_threads())
        return own(*given)

    monkeypatch.setattr(fit, "fit_units", noted)
    rows = np.random.default_rng(0).standard_normal((60, 2))
    with threadpool_limits(limits=2, user_api="blas"):
        ff.guard(lambda X: np.full((len(X), 2), 0.5), rows)
        assert seen == [{1}] * (FOLDS + 1)
        assert blas_threads() == {2}
