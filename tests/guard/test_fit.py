"""Views are fitted to rows."""

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from farfield.data.columns import Columns
from farfield.guard import fit
from farfield.guard.fit import Maker


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
        Maker(Columns((2,)), None, 1, 0).fit(rows)
        assert seen == [{1}]
        assert blas_threads() == {2}
