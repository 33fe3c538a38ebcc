"""K-means and mixtures find what scikit-learn's find."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from farfield.guard.kmeans import kmeans
from farfield.guard.mixture import Gaussians


def clumps(rows, columns, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, columns)) + 3.0 * rng.integers(0, 3, (rows, 1))


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize(("rows", "columns", "count"), [(200, 2, 90), (500, 4, 7), (70_000, 2, 2)])
def test_groups_are_those_of_scikit_learn(rows, columns, count, apart):
    X = clumps(rows, columns)
    init = "k-means++" if apart else "random"
    theirs = KMeans(count, init=init, n_init=1, max_iter=12, random_state=3).fit_predict(X)
    ours = kmeans(X, count, np.random.RandomState(3), apart=apart, most=12)
    np.testing.assert_array_equal(ours, theirs)


def test_equal_rows_leave_groups_empty_and_nothing_breaks():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 5, axis=0)
    labels = kmeans(X, 4, np.random.RandomState(0))
    assert len(set(labels[:5])) == len(set(labels[5:])) == 1
    assert labels[0] != labels[-1]


@pytest.mark.parametrize("count", [1, 4])
def test_mixtures_are_those_of_scikit_learn(count):
    X = clumps(600, 3)
    theirs = GaussianMixture(count, reg_covar=1e-2, tol=1e-2, random_state=5).fit(X)
    ours = Gaussians.fit(X, count, 5, least=1e-2, still=1e-2)
    assert ours.arrived == theirs.converged_
    np.testing.assert_allclose(ours.weights, theirs.weights_, rtol=1e-9)
    np.testing.assert_allclose(ours.means, theirs.means_, rtol=1e-9)
    np.testing.assert_allclose(ours.factors, theirs.precisions_cholesky_, rtol=1e-9, atol=1e-12)
    shares, likelihood = ours.shares(X)
    np.testing.assert_allclose(shares, theirs.predict_proba(X), atol=1e-9)
    assert likelihood == pytest.approx(theirs.score(X))
