"""Detection against scikit-learn, against counting pairs, and by hand where ties matter."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from farfield.errors import InputError
from farfield.evaluate import Estimate, clopper_pearson, detection

NAMES = ("auroc", "aupr_out", "aupr_in", "fpr95")
TIED = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=25).map(np.array)
ANY = st.lists(st.floats(allow_nan=False, width=64), min_size=1, max_size=25).map(np.array)


def oracle_auroc(inside, outside):
    """Count every pair."""
    wins = sum(Fraction(2 * (o > i) + (o == i), 2) for o in outside for i in inside)
    return float(wins / (len(inside) * len(outside)))


def oracle_average_precision(positive, negative):
    """Sum precision over positives, each at the threshold that just includes it."""
    total = Fraction(0)
    for score in positive:
        found = sum(p >= score for p in positive)
        total += Fraction(int(found), int(found + sum(n >= score for n in negative)))
    return float(total / len(positive))


@settings(deadline=None)
@given(TIED | ANY, TIED | ANY)
def test_equals_counting(inside, outside):
    got = detection(inside, outside)
    assert got.auroc == oracle_auroc(inside, outside)
    assert got.aupr_out == pytest.approx(oracle_average_precision(outside, inside), rel=1e-12)
    assert got.aupr_in == pytest.approx(oracle_average_precision(-inside, -outside), rel=1e-12)


@settings(deadline=None)
@given(TIED, TIED)
def test_fpr_equals_percentile_of_confidence(inside, outside):
    threshold = np.percentile(-inside, 5)
    assert detection(inside, outside).fpr95 == np.mean(-outside >= threshold - 1e-12)


@pytest.mark.parametrize("digits", [0, 1, 6])
def test_equals_scikit_learn(digits):
    rng = np.random.default_rng(digits)
    inside = rng.normal(size=700).round(digits)
    outside = rng.normal(1.0, 2.0, size=300).round(digits)
    is_out = np.repeat([0, 1], [700, 300])
    scores = np.concatenate([inside, outside])
    got = detection(inside, outside)
    assert got.auroc == pytest.approx(roc_auc_score(is_out, scores), abs=1e-12)
    assert got.aupr_out == pytest.approx(average_precision_score(is_out, scores), abs=1e-12)
    assert got.aupr_in == pytest.approx(average_precision_score(1 - is_out, -scores), abs=1e-12)


def test_by_hand_with_ties():
    """In: 1 2 2 3; out: 2 3 4. The 2 wins 1 + 2/2 pairs, the 3 wins 3 + 1/2, the 4 wins 4."""
    got = detection(np.array([1.0, 2, 2, 3]), np.array([2.0, 3, 4]))
    assert got.auroc == (2.0 + 3.5 + 4.0) / 12
    assert got.aupr_out == pytest.approx((1 + 2 / 3 + 3 / 6) / 3)
    assert got.aupr_in == pytest.approx((1 + 2 * 3 / 4 + 4 / 6) / 4)
    # The 95th percentile of 1 2 2 3 is 2.85: of the out-points only the 2 is below it.
    assert got.fpr95 == 1 / 3
    assert (got.in_points, got.out_points) == (4, 3)


@pytest.mark.parametrize("scale", [1e6, 1e30, 1e300])
def test_large_scores_do_not_saturate(scale):
    rng = np.random.default_rng(0)
    inside, outside = rng.normal(size=100), rng.normal(2.0, 1.0, size=100)
    plain, scaled = detection(inside, outside), detection(scale * inside, scale * outside)
    assert plain.auroc > 0.8
    for name in NAMES:
        assert getattr(plain, name) == getattr(scaled, name)
    shifted = detection(inside - 1e6, outside - 1e6)
    assert shifted.auroc == plain.auroc


@settings(deadline=None)
@given(TIED, TIED)
def test_invariants(inside, outside):
    got = detection(inside, outside)
    assert all(0 <= getattr(got, name) <= 1 for name in NAMES)
    assert detection(outside, inside).auroc == pytest.approx(1 - got.auroc)
    monotone = detection(np.exp(inside), np.exp(outside))
    assert monotone.auroc == got.auroc
    assert monotone.aupr_out == got.aupr_out


def test_constant_scores_are_chance():
    got = detection(np.zeros(30), np.zeros(10))
    assert (got.auroc, got.fpr95) == (0.5, 1.0)
    assert (got.aupr_out, got.aupr_in) == (0.25, 0.75)


def test_perfect_and_reversed():
    low, high = np.arange(5.0), np.arange(10.0, 13.0)
    perfect = detection(low, high)
    assert [getattr(perfect, name) for name in NAMES] == [1.0, 1.0, 1.0, 0.0]
    reversed_ = detection(high, low)
    assert (reversed_.auroc, reversed_.fpr95) == (0.0, 1.0)


def test_infinite_scores_are_extreme_ranks():
    inside = np.array([-np.inf, 0.0, 1.0])
    got = detection(inside, np.array([np.inf, 2.0]))
    assert (got.auroc, got.fpr95) == (1.0, 0.0)
    # The percentile lies between 1 and infinity: the more uncertain neighbour decides.
    assert detection(np.array([0.0, 1.0, np.inf]), np.array([5.0, np.inf])).fpr95 == 1.0
    assert detection(np.array([-np.inf, 1.0]), np.array([0.0, 2.0])).fpr95 == 0.5
    both = detection(np.array([-np.inf, np.inf]), np.array([0.0]), interval=0.9, resamples=200)
    assert both.auroc == 0.5


def test_percentile_at_a_data_point_is_exact():
    """With 21 points the 95th percentile is the 20th smallest, itself included."""
    inside = np.arange(21) / 10
    assert detection(inside, np.array([1.9, np.nextafter(1.9, 2)])).fpr95 == 0.5


def test_kinds_of_arrays():
    inside, outside = [1.0, 2.0, 2.0], [2.0, 3.0]
    expected = detection(np.array(inside), np.array(outside))
    assert detection(np.array(inside, np.float32), np.array(outside, np.float16)) == expected
    tensor = torch.tensor(inside, requires_grad=True)
    assert detection(tensor, torch.tensor(outside).bfloat16()) == expected
    assert detection(np.array([1, 2, 2]), np.array([2, 3])) == expected


def test_repr_names_the_positive_class():
    text = repr(detection(np.zeros(2), np.ones(3)))
    assert "out-of-distribution is positive" in text
    assert "auroc=1" in text
    assert "2 in, 3 out" in text


def test_intervals_cover_the_truth():
    """N(0, 1) against N(1, 1): the AUROC of the distributions is Phi(1 / sqrt 2)."""
    truth = 0.7602499389065233
    rng = np.random.default_rng(0)
    covered = 0
    for seed in range(100):
        inside, outside = rng.normal(size=80), rng.normal(1.0, 1.0, size=60)
        got = detection(inside, outside, interval=0.9, resamples=200, random_state=seed)
        estimate = got.intervals["auroc"]
        assert estimate.value == got.auroc
        covered += estimate.low <= truth <= estimate.high
    assert 80 <= covered <= 98


def test_intervals_of_every_number_are_reproducible():
    rng = np.random.default_rng(0)
    inside, outside = rng.normal(size=50).round(1), rng.normal(1.0, 1.0, size=40).round(1)
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - it must not move
    first = detection(inside, outside, interval=0.95, random_state=3)
    assert set(first.intervals) == set(NAMES)
    for name, estimate in first.intervals.items():
        assert isinstance(estimate, Estimate)
        assert estimate.value == getattr(first, name)
        assert estimate.low < estimate.value < estimate.high
        assert "1000 resamples" in estimate.method
    assert detection(inside, outside, interval=0.95, random_state=3) == first
    assert detection(inside, outside, interval=0.95, random_state=4) != first
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
    wide = detection(inside, outside, interval=0.99, random_state=3)
    assert wide.intervals["auroc"].low < first.intervals["auroc"].low
    dataclasses.asdict(first)


def with_unseen(inside, outside, level):
    """Add to one kind as many points, beyond all others, as can be missed by chance."""
    for kind, points in enumerate((inside, outside)):
        share = clopper_pearson(0, len(points), level).high
        more = int(np.ceil(len(points) * share / (1 - share) - 1e-9))
        for end in (-np.inf, np.inf):
            both = [inside, outside]
            both[kind] = np.append(points, [end] * more)
            yield detection(*both)


def test_bootstrap_equals_measuring_resamples(monkeypatch):
    """Draw the same resamples, in the same order, and measure each on its own."""
    inside, outside = np.array([1.0, 2, 2, 3, 5]), np.array([2.0, 3, 4])
    monkeypatch.setattr("farfield.evaluate.bootstrap._CHUNK_ENTRIES", 8)
    got = detection(inside, outside, interval=0.9, resamples=50, random_state=1)
    rng = np.random.default_rng(1)
    singles = [
        detection(inside[rng.integers(5, size=5)], outside[rng.integers(3, size=3)])
        for _ in range(50)
    ]
    for name in NAMES:
        values = [getattr(single, name) for single in singles]
        unseen = [getattr(each, name) for each in with_unseen(inside, outside, 0.9)]
        low = min(np.quantile(values, 0.05, method="lower"), getattr(got, name), *unseen)
        high = max(np.quantile(values, 0.95, method="higher"), getattr(got, name), *unseen)
        assert got.intervals[name].low == pytest.approx(low)
        assert got.intervals[name].high == pytest.approx(high)


def test_a_perfect_separation_is_not_certain():
    """Clopper and Pearson's bound for as many independent pairs as there are points."""
    got = detection(np.arange(50.0), np.arange(50.0) + 99, interval=0.95, resamples=100)
    auroc = got.intervals["auroc"]
    bound = clopper_pearson(50, 50).low
    assert (auroc.value, auroc.high) == (1.0, 1.0)
    assert bound - 0.01 < auroc.low <= bound
    for name in ("aupr_out", "aupr_in"):
        assert 0.5 < got.intervals[name].low < 1.0
    # Fifty points may all lie below the 95th percentile of where they come from; 400 do not.
    assert got.intervals["fpr95"].high == 1.0
    many = detection(np.arange(400.0), np.arange(400.0) + 999, interval=0.95, resamples=100)
    assert 0.0 < many.intervals["fpr95"].high < 0.02


def test_intervals_hold_the_truth_near_the_edge():
    """Uniform on [0, 1] and on [0.9, 1.9]: an out-point is below an in-point in 1 of 200 pairs."""
    rng, held = np.random.default_rng(0), 0
    for seed in range(200):
        inside, outside = rng.random(20), 0.9 + rng.random(20)
        got = detection(inside, outside, interval=0.95, resamples=50, random_state=seed)
        held += got.intervals["auroc"].low <= 0.995 <= got.intervals["auroc"].high
    assert held >= 186  # of 200, at 95%: fewer would come once in a hundred times


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.array([0.1, np.nan]), "NaN, first at point 1"),
        (np.array([]), r"shape \(0,\)"),
        (np.zeros((3, 2)), "one score per point"),
        (np.float64(1.0), r"shape \(\)"),
        (np.array(["a"]), "real numbers"),
        (np.array([True]), "real numbers"),
    ],
)
def test_bad_scores_are_refused(bad, message):
    good = np.array([0.5, 0.6])
    with pytest.raises(InputError, match=f"in_scores.*{message}"):
        detection(bad, good)
    with pytest.raises(InputError, match=f"out_scores.*{message}"):
        detection(good, bad)


def test_bad_bootstrap_settings_are_refused():
    a = np.array([0.0, 1.0])
    with pytest.raises(InputError, match="at least 40 resamples"):
        detection(a, a, interval=0.95, resamples=39)
    with pytest.raises(InputError, match="between 0 and 1"):
        detection(a, a, interval=95)
    with pytest.raises(InputError, match="random_state"):
        detection(a, a, interval=0.9, random_state=-1)
    with pytest.raises(InputError, match="random_state"):
        detection(a, a, interval=0.9, random_state=None)  # type: ignore[arg-type]
