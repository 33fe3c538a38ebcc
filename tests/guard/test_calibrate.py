"""Conformal thresholds of several views at once."""

import numpy as np
import pytest

from farfield.guard.calibrate import choose_views, enough, levels, likelihood_lost


@pytest.mark.parametrize("views", [1, 3])
@pytest.mark.parametrize("keep", [0.9, 0.99])
def test_new_rows_are_inside_of_all_views_together(views, keep):
    """Over many draws, the share of new rows inside is at least what was asked for."""
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(200):
        scores = rng.standard_exponential((300, views)) ** 2
        found = levels(scores[:200], [0.1] * views, keep)
        shares.append((found.distances(scores[200:]) <= 0).mean())
    assert np.mean(shares) >= keep - 0.004


def test_views_that_are_always_content_cost_nothing():
    rng = np.random.default_rng(0)
    scores = np.stack([rng.standard_normal(500), np.zeros(500)], axis=1)
    alone, both = levels(scores[:, :1], [0.1], 0.95), levels(scores, [0.1, 0.1], 0.95)
    assert alone.thresholds[0] == both.thresholds[0]


def test_too_few_rows_for_the_share_say_so():
    found = levels(np.arange(20.0)[:, None], [1.0], 0.99)
    assert found.share == pytest.approx(20 / 21)
    assert 19.0 < found.thresholds[0] < 30.0


def test_a_view_that_notices_nothing_is_dropped():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((500, 3))
    synthetic = {"moved": scores[:200] + np.array([0.0, 5.0, 0.0])}
    assert choose_views(scores, synthetic, [0.1] * 3, [0], 0.99, 0.1) == [0, 1]


def test_the_share_is_raised_until_little_is_lost():
    rng = np.random.default_rng(0)
    scores = rng.standard_exponential((4000, 1))
    sure = np.tile([0.999, 0.001], (4000, 1))
    labels = np.zeros(4000, dtype=np.int64)
    cheap = enough(scores, [0.1], 0.99, 0.1, likelihood_lost(np.full((4000, 2), 0.5), labels))
    dear = enough(scores, [0.1], 0.99, 0.1, likelihood_lost(sure, labels))
    assert cheap.share == 0.99
    assert dear.share > 0.99


def test_likelihood_lost():
    p = np.array([[0.9, 0.1]])
    assert likelihood_lost(p, np.array([0]))(np.array([1.0])) == 0.0
    assert likelihood_lost(p, np.array([0]))(np.array([2.0])) == pytest.approx(np.log(0.9 / 0.7))
    assert likelihood_lost(p, None)(np.array([2.0])) > 0
