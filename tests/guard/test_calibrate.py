"""Conformal thresholds of several views at once."""

import numpy as np
import pytest

from farfield.guard import calibrate
from farfield.guard.calibrate import (
    BUDGET,
    STEEPS,
    Judge,
    Ranked,
    choose_views,
    enough,
    likelihood_lost,
)


@pytest.mark.parametrize("views", [1, 3])
@pytest.mark.parametrize("keep", [0.9, 0.99])
def test_new_rows_are_inside_of_all_views_together(views, keep):
    """Over many draws, the share of new rows inside is at least what was asked for."""
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(200):
        scores = rng.standard_exponential((300, views)) ** 2
        found = Ranked.of(scores[:200]).levels([0.1] * views, keep)
        shares.append((found.distances(scores[200:]) <= 0).mean())
    assert np.mean(shares) >= keep - 0.004


def test_views_that_are_always_content_cost_nothing():
    rng = np.random.default_rng(0)
    scores = np.stack([rng.standard_normal(500), np.zeros(500)], axis=1)
    alone, both = (
        Ranked.of(scores[:, :1]).levels([0.1], 0.95),
        Ranked.of(scores).levels([0.1, 0.1], 0.95),
    )
    assert alone.thresholds[0] == both.thresholds[0]


def test_too_few_rows_for_the_share_say_so():
    found = Ranked.of(np.arange(20.0)[:, None]).levels([1.0], 0.99)
    assert found.share == pytest.approx(20 / 21)
    assert 19.0 < found.thresholds[0] < 30.0


def _judge(scores, synthetic=None, p=None, labels=None):
    made = {} if synthetic is None else {"moved": synthetic}
    bases = np.arange(0 if synthetic is None else len(synthetic))
    return Judge(scores, made, bases, p, labels, 0.1)


def test_a_view_that_notices_nothing_is_dropped():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((500, 3))
    judge = _judge(scores, scores[:200] + np.array([0.0, 5.0, 0.0]))
    assert choose_views(judge, [0.1] * 3, [0], 0.99) == [0, 1]


def test_widths_and_shares_are_raised_until_little_is_lost():
    """Of a model that is sure, rows just outside may lose less; of one that is not, nothing."""
    rng = np.random.default_rng(0)
    scores = rng.standard_exponential((4000, 1))
    far, labels = scores[:500] + 10.0, np.zeros(4000, dtype=np.int64)
    sure, unsure = np.tile([0.999, 0.001], (4000, 1)), np.full((4000, 2), 0.5)
    dear, cheap = (_judge(scores, far, p, labels) for p in (sure, unsure))
    narrow = Ranked.of(scores).levels([0.1], 0.99)
    found = enough(dear, [0], [0.1], 0.99)[0]
    ranked = Ranked.of(scores)
    near, beyond = (ranked.outside(own.thresholds) for own in (narrow, found))
    assert dear.lost(narrow, near) > BUDGET >= dear.lost(found, beyond)
    assert found.widths[0] > narrow.widths[0]
    assert cheap.lost(narrow, near) == 0.0


def test_new_rows_lose_what_is_allowed():
    """Over many draws, rows that nothing was calibrated on lose less than the budget."""
    rng = np.random.default_rng(0)
    lost = []
    for _ in range(100):
        scores = rng.standard_exponential((600, 2))
        p, labels = np.tile([0.99, 0.01], (600, 1)), (rng.random(600) > 0.99).astype(np.int64)
        judge = _judge(scores[:300], scores[:300] + 4.0, p[:300], labels[:300])
        own = enough(judge, [0, 1], [0.1] * 2, 0.99)[0]
        hot = judge.temperatures(own, scores[300:])
        lost.append(likelihood_lost(p[300:], labels[300:], hot).mean())
    assert np.mean(lost) <= BUDGET


def test_gains_of_a_model_that_is_wrong_are_not_set_off():
    """Flattening helps a model that is sure and half wrong on average; with few rows, by chance."""
    scores = np.random.default_rng(0).standard_exponential((300, 1))
    sure, labels = np.tile([0.999, 0.001], (300, 1)), np.arange(300) % 2
    judge = _judge(scores, scores + 10.0, sure, labels)
    ranked = Ranked.of(scores)
    narrow = ranked.levels([0.1], 0.95)
    hot = judge.temperatures(narrow, ranked.further[1.0])
    assert likelihood_lost(sure, labels, hot).mean() < 0
    assert judge.lost(narrow, ranked.outside(narrow.thresholds)) > BUDGET


def test_of_pairs_that_notice_alike_the_cheapest_is_taken():
    scores = np.random.default_rng(0).standard_exponential((4000, 1))
    sure, labels = np.tile([0.999, 0.001], (4000, 1)), np.zeros(4000, dtype=np.int64)
    far = _judge(scores, scores[:500] + 1e6, sure, labels)
    found, noticed = enough(far, [0], [0.1], 0.99)
    usual = float(np.median(scores))
    assert found.widths[0] == pytest.approx(STEEPS[-1] * (found.thresholds[0] - usual))
    assert noticed > 0.99


def test_the_widest_set_if_nothing_is_cheap_enough(monkeypatch):
    monkeypatch.setattr(calibrate, "BUDGET", -1.0)
    scores = np.random.default_rng(0).standard_exponential((200, 1))
    found = enough(_judge(scores, scores), [0], [0.1], 0.9)[0]
    assert found.widths == Ranked.of(scores).levels([0.1], 1.0, 1.0, STEEPS[-1]).widths


def test_likelihood_lost():
    p, first = np.array([[0.9, 0.1]]), np.array([0])
    assert likelihood_lost(p, first, np.array([1.0])) == 0.0
    assert likelihood_lost(p, first, np.array([2.0])) == pytest.approx(np.log(0.9 / 0.7))
    assert likelihood_lost(p, None, np.array([2.0])) > 0
    assert likelihood_lost(np.array([[np.nan, 0.5]]), first, np.array([2.0])) == 0.0


def test_noticed_is_an_auroc():
    scores = np.array([[0.0], [0.0], [0.0], [1.0]])
    judge = _judge(scores, np.array([[9.0], [9.0]]))
    assert judge.noticed(Ranked.of(scores).levels([0.1], 0.5), [0]) == 1.0
    assert _judge(scores, scores[:2]).noticed(Ranked.of(scores).levels([0.1], 1.0), [0]) == 0.5
