"""Regression metrics against scipy's distributions and closed forms."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from farfield.errors import InputError
from farfield.evaluate import (
    combine_members,
    gaussian_nll,
    laplace_nll,
    mixture_nll,
    regression,
)

RNG = np.random.default_rng(0)
Y = RNG.normal(size=40)
MEANS = RNG.normal(size=(3, 40))
STDS = RNG.uniform(0.2, 2.0, size=(3, 40))


def test_densities_equal_scipy():
    np.testing.assert_allclose(
        gaussian_nll(Y, MEANS[0], STDS[0]), -stats.norm.logpdf(Y, MEANS[0], STDS[0])
    )
    np.testing.assert_allclose(
        laplace_nll(Y, MEANS[0], STDS[0]),
        -stats.laplace.logpdf(Y, MEANS[0], STDS[0] / math.sqrt(2)),
    )


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_mixture_is_the_log_of_the_mean_density(family):
    density = stats.norm.pdf(Y, MEANS, STDS)
    if family == "laplace":
        density = stats.laplace.pdf(Y, MEANS, STDS / math.sqrt(2))
    got = mixture_nll(Y, MEANS, STDS, family)
    np.testing.assert_allclose(got, -np.log(density.mean(axis=0)))


def test_mixture_far_in_the_tails_does_not_underflow():
    got = mixture_nll(np.array([1e4]), np.zeros((2, 1)), np.ones((2, 1)))
    assert got[0] == pytest.approx(0.5e8, rel=1e-6)


def test_combination_equals_sampled_moments():
    mean, std = combine_members(MEANS, STDS)
    expected = (STDS**2 + MEANS**2).mean(axis=0) - MEANS.mean(axis=0) ** 2
    np.testing.assert_allclose(mean, MEANS.mean(axis=0))
    np.testing.assert_allclose(std**2, expected)


def test_combination_keeps_small_spreads_of_large_means():
    _, std = combine_members(np.full((3, 1), 1e9), np.full((3, 1), 1e-3))
    assert std[0] == pytest.approx(1e-3)


def test_one_member_equals_none():
    with_axis, without = regression(Y, MEANS[:1], STDS[:1]), regression(Y, MEANS[0], STDS[0])
    assert with_axis.nll == pytest.approx(without.nll)
    assert without.mixture_nll == pytest.approx(without.nll)
    assert with_axis.coverage == without.coverage


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_numbers_equal_their_definitions(family, level):
    got = regression(Y, MEANS, STDS, family=family, level=level)
    mean, std = combine_members(MEANS, STDS)
    single = gaussian_nll if family == "gaussian" else laplace_nll
    distribution = (
        stats.norm(mean, std) if family == "gaussian" else stats.laplace(mean, std / math.sqrt(2))
    )
    low, high = distribution.interval(level)
    assert got.rmse == pytest.approx(math.sqrt(np.mean((Y - mean) ** 2)))
    assert got.mae == pytest.approx(np.mean(np.abs(Y - mean)))
    assert got.nll == pytest.approx(single(Y, mean, std).mean())
    assert got.mixture_nll == pytest.approx(mixture_nll(Y, MEANS, STDS, family).mean())
    assert got.coverage == np.mean((low <= Y) & (high >= Y))
    assert (got.level, got.points) == (level, 40)


@settings(deadline=None)
@given(st.floats(0.01, 100), st.floats(-50, 50))
def test_units_shift_the_likelihood_by_their_logarithm(scale, shift):
    plain = regression(Y, MEANS, STDS)
    other = regression(scale * Y + shift, scale * MEANS + shift, scale * STDS)
    assert other.rmse == pytest.approx(scale * plain.rmse, rel=1e-6)
    assert other.nll == pytest.approx(plain.nll + math.log(scale), abs=1e-6)
    assert other.mixture_nll == pytest.approx(plain.mixture_nll + math.log(scale), abs=1e-6)


def test_intervals_are_on_every_number():
    got = regression(Y, MEANS, STDS, interval=0.95, random_state=1)
    assert set(got.intervals) == {"rmse", "mae", "nll", "mixture_nll", "coverage"}
    for name, estimate in got.intervals.items():
        assert estimate.value == getattr(got, name)
        assert estimate.low < estimate.value < estimate.high
    assert regression(Y, MEANS, STDS, interval=0.95, random_state=1) == got


def test_torch_is_welcome():
    tensors = (torch.tensor(Y), torch.tensor(MEANS, requires_grad=True), torch.tensor(STDS))
    assert regression(*tensors) == regression(Y, MEANS, STDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Y, MEANS[0], 0 * STDS[0]), "positive"),
        ((Y, MEANS[0], -STDS[0]), "positive"),
        ((Y, MEANS[0], STDS), r"got \(40,\) and \(3, 40\)"),
        ((Y, MEANS[:, :5], STDS[:, :5]), r"\(members, 40\)"),
        ((Y, MEANS[:0], STDS[:0]), r"\(0, 40\)"),
        ((Y[:, None], MEANS, STDS), r"y must have shape"),
        ((Y[:0], MEANS[0, :0], STDS[0, :0]), r"y must have shape"),
        ((np.full(40, np.nan), MEANS[0], STDS[0]), "y must be finite"),
        ((Y, np.full(40, np.inf), STDS[0]), "mean must be finite"),
        ((np.array(["a"] * 40), MEANS[0], STDS[0]), "real numbers"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        regression(*arguments)


def test_bad_settings_are_refused():
    with pytest.raises(InputError, match="'cauchy'"):
        regression(Y, MEANS, STDS, family="cauchy")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="'cauchy'"):
        mixture_nll(Y, MEANS, STDS, "cauchy")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="between 0 and 1"):
        regression(Y, MEANS, STDS, level=95)
    with pytest.raises(InputError, match="negative"):
        combine_members(MEANS, -STDS)
    with pytest.raises(InputError, match="shape"):
        combine_members(MEANS, STDS[0])
