"""The covariance that is shrunk, beside scikit-learn's."""

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf as referee

from farfield.shrinkage import ledoit_wolf


@pytest.mark.parametrize("shape", [(50, 1), (3, 2), (40, 7), (5, 60)])
@pytest.mark.parametrize("centred", [False, True])
def test_it_is_the_estimate_of_scikit_learn(shape, centred):
    rows = np.random.default_rng(0).standard_normal(shape) @ np.diag(1.0 + np.arange(shape[1]))
    expected, _ = referee(rows, assume_centered=centred)
    np.testing.assert_allclose(ledoit_wolf(rows, centred=centred), expected, rtol=1e-13)


def test_rows_that_are_all_the_same_have_no_spread():
    assert not ledoit_wolf(np.ones((4, 3))).any()
