"""The papers' sets: the same points for the same seed, and what their sources say about them."""

import dataclasses

import numpy as np
import pytest
from sklearn.datasets import make_moons

from farfield.datasets import cubic, half_moons, nine_clusters, spirals
from farfield.errors import InputError

SETS = [half_moons, spirals, cubic, nine_clusters]


@pytest.mark.parametrize("draw", SETS)
def test_one_seed_one_set_and_no_global_state(draw):
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - it must not move
    first, again, other = draw(random_state=5), draw(random_state=5), draw(random_state=6)
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.X, other.X)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


@pytest.mark.parametrize("draw", SETS)
def test_shapes_fit_and_nothing_changes(draw):
    data = draw()
    assert data.X.dtype == np.float64
    assert data.X.shape == (len(data.y), len(data.window))
    low, high = np.array(data.window).T
    assert ((low < data.X) & (high > data.X)).all()
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.X = data.X  # type: ignore[misc]


def test_half_moons_are_the_first_500_and_the_last_250_of_750():
    X, y = make_moons(750, noise=0.125, random_state=3)
    moons = half_moons(random_state=3)
    np.testing.assert_array_equal(moons.X, X[:500])
    np.testing.assert_array_equal(moons.y, y[:500])
    assert moons.X_validation is not None
    assert moons.y_validation is not None
    np.testing.assert_array_equal(moons.X_validation, X[500:])
    np.testing.assert_array_equal(moons.y_validation, y[500:])


def test_spirals_are_those_of_the_practical():
    """The practical prints the smallest and largest angle of every arm for seed 0."""
    printed = [
        (-0.6210700567572351, 9.160761050479454),
        (7.506810982132371, 16.88345105834359),
        (15.192239293196302, 25.21297645733773),
    ]
    state = np.random.RandomState(0)
    arms, radius = spirals(), np.linspace(0, 1, 1000)
    for j, extremes in enumerate(printed):
        noise = state.randn(1000) * 0.3 * (radius + 1)
        angle = np.linspace(8 * j, 8 * (j + 1), 1000) + noise
        assert (angle.min(), angle.max()) == extremes
        expected = np.column_stack([radius * np.sin(angle), radius * np.cos(angle)])
        np.testing.assert_allclose(arms.X[arms.y == j], expected, atol=1e-14)


def test_cubic_is_that_of_the_practical():
    """Drawn there point by point from seed 173: first every x, then every noise."""
    state = np.random.RandomState(173)
    x = [state.uniform(-4, 4) for _ in range(40)]
    y = [value**3 + state.normal(0, 3.0) for value in x]
    data = cubic()
    np.testing.assert_allclose(data.X[:, 0], x)
    np.testing.assert_allclose(data.y, y)


def test_nine_clusters_are_apart():
    data = nine_clusters()
    assert np.bincount(data.y).tolist() == [50] * 9
    centres = np.array([data.X[data.y == k].mean(axis=0) for k in range(9)])
    nearest = ((data.X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == data.y).mean() > 0.98
    np.testing.assert_allclose(centres.mean(axis=0), 0, atol=0.1)


@pytest.mark.parametrize("draw", SETS)
@pytest.mark.parametrize("seed", [-1, None, 0.5, 2**32])
def test_bad_seeds_are_refused(draw, seed):
    with pytest.raises(InputError, match="random_state"):
        draw(random_state=seed)


@pytest.mark.parametrize(
    ("draw", "options", "message"),
    [
        (half_moons, {"points": 0}, "points must be at least 1"),
        (half_moons, {"validation": -5}, "validation must be"),
        (half_moons, {"noise": -1.0}, "got -1"),
        (spirals, {"classes": 0}, "classes must be"),
        (spirals, {"noise": float("nan")}, "got nan"),
        (cubic, {"noise": float("inf")}, "got inf"),
        (nine_clusters, {"points_per_class": 0}, "points_per_class"),
    ],
)
def test_bad_sizes_are_refused(draw, options, message):
    with pytest.raises(InputError, match=message):
        draw(**options)
