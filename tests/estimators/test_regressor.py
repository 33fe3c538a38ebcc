"""Predictive mixtures and the regressor around them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from farfield.errors import InputError
from farfield.estimators import EnsembleRegressor
from farfield.estimators.mixture import Mixture


@given(seed=st.integers(0, 1000), family=st.sampled_from(["gaussian", "laplace"]))
@settings(max_examples=12, deadline=None)
def test_mixture_against_scipy(seed: int, family: Any) -> None:
    generator = np.random.default_rng(seed)
    means, scales = generator.normal(0, 3, (4, 5)), generator.uniform(0.1, 2, (4, 5))
    values = generator.normal(0, 3, 5)
    mixture = Mixture(family, means, scales)
    parts = (stats.norm if family == "gaussian" else stats.laplace)(means, scales)
    np.testing.assert_allclose(np.exp(mixture.log_density(values)), parts.pdf(values).mean(0))
    np.testing.assert_allclose(mixture.cdf(values), parts.cdf(values).mean(0))
    # Equations 5 to 8 of the practical.
    np.testing.assert_allclose(mixture.mean, means.mean(0))
    second = (2 if family == "laplace" else 1) * scales**2 + means**2
    np.testing.assert_allclose(mixture.variance, second.mean(0) - means.mean(0) ** 2)
    for share in (0.001, 0.3, 0.5, 0.975):
        np.testing.assert_allclose(mixture.cdf(mixture.quantile(share)), share, atol=1e-9)
    whole = (
        stats.norm(mixture.mean, mixture.std)
        if family == "gaussian"
        else stats.laplace(mixture.mean, mixture.std / np.sqrt(2))
    )
    np.testing.assert_allclose(mixture.collapsed_nll(values), -whole.logpdf(values))


def test_a_single_gaussian_has_its_usual_interval() -> None:
    mixture = Mixture("gaussian", np.array([[2.0]]), np.array([[3.0]]))
    np.testing.assert_allclose(
        mixture.interval(0.95), [[2 - 1.959964 * 3, 2 + 1.959964 * 3]], rtol=1e-6
    )
    with pytest.raises(InputError, match="level"):
        mixture.interval(1.0)


@pytest.mark.parametrize("likelihood", ["gaussian", "laplace"])
def test_noise_that_grows_is_learned(likelihood: Any) -> None:
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 1, (2000, 1))
    noise = 0.05 + 0.5 * X[:, 0]
    draws = (
        generator.normal(size=2000) if likelihood == "gaussian" else generator.laplace(size=2000)
    )
    y = 100 + 40 * (X[:, 0] + noise * draws)
    model = EnsembleRegressor(
        likelihood=likelihood, hidden=(30,), members=3, epochs=30, batch_size=100,
        learning_rate=0.015, random_state=0,
    )  # fmt: skip
    model.fit(X, y)
    scales = model.predict_instances([[0.1], [0.9]])[:, :, 1].mean(0)
    np.testing.assert_allclose(scales, [40 * 0.1, 40 * 0.5], rtol=0.25)
    inside = model.predict_interval(X, 0.9)
    assert ((y > inside[:, 0]) & (y < inside[:, 1])).mean() == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize(("likelihood", "scale"), [("mse", 2.0), ("mae", 2.0)])
def test_losses_without_a_scale_estimate_one(likelihood: Any, scale: float) -> None:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(1500, 1))
    draw = generator.normal if likelihood == "mse" else generator.laplace
    y = 5 * X[:, 0] + draw(0, scale, 1500)
    model = EnsembleRegressor(
        likelihood=likelihood, hidden=(), epochs=40, members=2, random_state=0
    )
    np.testing.assert_allclose(model.fit(X, y).member_scale_, scale, rtol=0.1)


def test_units_do_not_matter(cubic: Any) -> None:
    X, y = cubic
    model = EnsembleRegressor(hidden=(20,), epochs=30, members=2, random_state=0)
    mean, std = model.fit(X, y).predict(X, return_std=True)
    nll = model.nll(X, y)
    scaled_mean, scaled_std = model.fit(X * 1e3, y * 1e-4 + 7).predict(X * 1e3, return_std=True)
    np.testing.assert_allclose((scaled_mean - 7) * 1e4, mean, atol=0.05)
    np.testing.assert_allclose(scaled_std * 1e4, std, rtol=1e-2)
    assert model.nll(X * 1e3, y * 1e-4 + 7) == pytest.approx(nll + np.log(1e-4), abs=1e-2)


def test_far_from_the_data_members_disagree(cubic: Any) -> None:
    X, y = cubic
    model = EnsembleRegressor(hidden=(30, 30), epochs=150, members=5, random_state=0).fit(X, y)
    near = model.predict_mixture(X).knowledge_variance.mean()
    far = model.predict_mixture([[-12.0], [12.0]]).knowledge_variance.mean()
    assert far > 10 * near


def test_bad_use_is_refused(cubic: Any) -> None:
    X, y = cubic
    with pytest.raises(InputError, match="likelihood must be one of"):
        EnsembleRegressor(likelihood="poisson").fit(X, y)
    with pytest.raises(InputError, match="variant must be"):
        EnsembleRegressor(variant="boosted").fit(X, y)
    with pytest.raises(InputError, match="dropout > 0"):
        EnsembleRegressor(variant="mc-dropout").fit(X, y)
    with pytest.raises(InputError, match=r"positive entry|non-zero"):
        EnsembleRegressor().fit(X, y, sample_weight=np.zeros(len(X)))
    model = EnsembleRegressor(epochs=1).fit(X, y)
    with pytest.raises(InputError, match="shape"):
        model.nll(X, y[:-1])
    constant = EnsembleRegressor(epochs=5, random_state=0).fit(X, np.full(len(X), 3.0))
    np.testing.assert_allclose(constant.predict(X), 3.0, atol=1.0)
