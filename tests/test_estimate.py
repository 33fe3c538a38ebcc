"""Estimates carry a consistent interval; Clopper and Pearson's covers what it promises."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from farfield.errors import InputError
from farfield.evaluate import Estimate, clopper_pearson


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 20), (7, 20), (20, 20), (499, 1000)])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_equals_scipy(k, n, level):
    expected = stats.binomtest(k, n).proportion_ci(level, method="exact")
    got = clopper_pearson(k, n, level)
    assert (got.low, got.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert got.value == k / n
    assert got.level == level


@pytest.mark.parametrize("p", [0.01, 0.3, 0.5, 0.97])
def test_covers_at_least_as_often_as_promised(p):
    n = 40
    covered = sum(
        stats.binom.pmf(k, n, p)
        for k in range(n + 1)
        if clopper_pearson(k, n, 0.9).low <= p <= clopper_pearson(k, n, 0.9).high
    )
    assert covered >= 0.9


def test_numpy_integers_are_welcome():
    assert clopper_pearson(np.int64(3), np.int32(4)).value == 0.75


@pytest.mark.parametrize(("k", "n"), [(-1, 3), (4, 3), (0, 0)])
def test_impossible_counts_are_refused(k, n):
    with pytest.raises(InputError, match=f"got {k} of {n}"):
        clopper_pearson(k, n)


def test_fractions_and_bad_levels_are_refused():
    with pytest.raises(InputError, match="whole numbers"):
        clopper_pearson(0.5, 3)  # type: ignore[arg-type]
    for level in (0.0, 1.0, 95.0, float("nan")):
        with pytest.raises(InputError, match="between 0 and 1"):
            clopper_pearson(1, 3, level)


def test_estimate_is_frozen_consistent_and_no_float():
    estimate = Estimate(0.5, 0.4, 0.6, 0.95, "by hand")
    assert str(estimate) == "0.5 [0.4, 0.6] at 95%"
    assert not isinstance(estimate, float)
    with pytest.raises(dataclasses.FrozenInstanceError):
        estimate.value = 1.0  # type: ignore[misc]
    with pytest.raises(InputError, match="inside of its interval"):
        Estimate(0.3, 0.4, 0.6, 0.95, "by hand")
    with pytest.raises(InputError, match="inside of its interval"):
        Estimate(float("nan"), 0.4, 0.6, 0.95, "by hand")
