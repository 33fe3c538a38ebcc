"""Calibration against scikit-learn and against bins filled by hand."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, log_loss

from farfield.errors import InputError
from farfield.evaluate import calibration, clopper_pearson, mean_max_confidence

NUMBERS = ("nll", "brier", "ece", "adaptive_ece", "classwise_ece", "accuracy")


def sample(points=300, classes=3, seed=0, sharpness=1.0):
    """Labels drawn from p itself: calibrated by construction."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, sharpness), size=points)
    y = (p.cumsum(axis=1) < rng.random(points)[:, None]).sum(axis=1)
    return p, np.minimum(y, classes - 1)


def oracle_error(confidence, right, edges):
    """Sum over half-open bins, one point at a time; the first bin takes its lower edge."""
    total = 0.0
    for lower, upper in itertools.pairwise(edges):
        inside = [
            k for k, c in enumerate(confidence) if lower < c <= upper or c == lower == edges[0]
        ]
        total += abs(sum(right[k] - confidence[k] for k in inside)) / len(confidence)
    return total


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("bins", [1, 2, 15])
def test_equals_definitions_and_scikit_learn(classes, bins):
    p, y = sample(classes=classes)
    got = calibration(p, y, bins=bins)
    labels = list(range(classes))
    onehot = np.eye(classes)[y]
    edges = [k / bins for k in range(bins + 1)]
    assert got.nll == pytest.approx(log_loss(y, p, labels=labels))
    assert got.accuracy == pytest.approx(accuracy_score(y, p.argmax(axis=1)))
    assert got.brier == pytest.approx(((p - onehot) ** 2).sum(axis=1).mean())
    assert got.ece == pytest.approx(oracle_error(p.max(axis=1), p.argmax(axis=1) == y, edges))
    assert got.classwise_ece == pytest.approx(
        np.mean([oracle_error(p[:, c], onehot[:, c], edges) for c in labels])
    )


@pytest.mark.parametrize(("points", "bins"), [(300, 15), (301, 15), (7, 3), (5, 15)])
def test_adaptive_bins_hold_equal_numbers(points, bins):
    p, y = sample(points)
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    order = np.argsort(confidence)
    ends = [math.ceil(k * points / bins) for k in range(bins + 1)]
    expected = sum(
        abs((right[order[a:b]].astype(float) - confidence[order[a:b]]).sum())
        for a, b in itertools.pairwise(ends)
    )
    assert calibration(p, y, bins=bins).adaptive_ece == pytest.approx(expected / points)


def test_by_hand():
    """Two bins. (0, 1/2]: none. (1/2, 1]: confidences .6 .6 .9 1., right 1 0 1 1."""
    p = np.array([[0.6, 0.4], [0.6, 0.4], [0.1, 0.9], [0.0, 1.0]])
    got = calibration(p, np.array([0, 1, 1, 1]), bins=2)
    assert got.accuracy == 0.75
    assert got.ece == pytest.approx(abs(0.75 - 3.1 / 4))
    # Equal numbers: {.6 .6} gap |1 - 1.2|, {.9 1.} gap |2 - 1.9|
    assert got.adaptive_ece == pytest.approx((0.2 + 0.1) / 4)
    # Class 1: (0, 1/2] holds .4 .4 with one right, (1/2, 1] holds .9 1. both right; class 0 alike.
    assert got.classwise_ece == pytest.approx((0.2 + 0.1) / 4)
    (only,) = got.reliability
    assert (only.lower, only.upper, only.points) == (0.5, 1.0, 4)
    assert (only.confidence, only.accuracy) == pytest.approx((3.1 / 4, 0.75))


def test_bin_edges_belong_to_the_lower_bin_and_one_to_the_last():
    p = np.array([[0.8, 0.2], [1.0, 0.0]])
    bins = calibration(p, np.array([0, 1]), bins=5).reliability
    assert [(b.upper, b.points, b.accuracy) for b in bins] == [(0.8, 1, 1.0), (1.0, 1, 0.0)]


def test_saturated_models_keep_their_error():
    """All confidence 1 and half right: every error is a half, none is dropped with the last bin."""
    p = np.repeat([[1.0, 0.0]], 10, axis=0)
    got = calibration(p, np.repeat([0, 1], 5))
    assert (got.ece, got.adaptive_ece, got.classwise_ece) == (0.5, 0.5, 0.5)
    assert got.brier == 1.0
    assert got.nll == math.inf


def test_impossible_labels_have_infinite_intervals():
    p = np.array([[1.0, 0.0]] + [[0.5, 0.5]] * 20)
    y = np.array([1] + [0] * 20)
    estimate = calibration(p, y, interval=0.9, resamples=200).intervals["nll"]
    assert estimate.value == math.inf
    assert estimate.high == math.inf
    assert estimate.low == pytest.approx(math.log(2))


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(2, 4), st.integers(1, 20))
def test_invariants(seed, points, classes, bins):
    rng = np.random.default_rng(seed)
    p = rng.integers(0, 4, size=(points, classes)) + 1e-3
    p /= p.sum(axis=1, keepdims=True)
    y = rng.integers(0, classes, size=points)
    got = calibration(p, y, bins=bins)
    for name in ("ece", "adaptive_ece", "classwise_ece", "accuracy"):
        assert 0 <= getattr(got, name) <= 1 + 1e-12
    assert 0 <= got.brier <= 2
    assert got.nll > 0
    assert sum(b.points for b in got.reliability) == points
    total = sum(b.points * abs(b.confidence - b.accuracy) for b in got.reliability)
    assert got.ece == pytest.approx(total / points, abs=1e-12)
    overall = abs(got.accuracy - mean_max_confidence(p))
    assert min(got.ece, got.adaptive_ece) >= overall - 1e-12
    order = rng.permutation(points)
    shuffled = calibration(p[order], y[order], bins=bins)
    for name in NUMBERS:
        assert getattr(shuffled, name) == pytest.approx(getattr(got, name), abs=1e-12)


def test_instances_are_averaged_and_torch_is_welcome():
    p, y = sample()
    members = np.stack([p, p[:, ::-1]])
    expected = calibration(members.mean(axis=0), y)
    assert calibration(members, y) == expected
    tensor = torch.tensor(members, requires_grad=True)
    assert calibration(tensor, torch.tensor(y)) == expected
    half = calibration(torch.tensor(members).bfloat16(), torch.tensor(y))
    assert half.brier == pytest.approx(expected.brier, abs=0.02)


def test_perfect_calibration_is_covered_by_the_intervals():
    """The true error is 0, which every plug-in value exceeds; 90% intervals must reach it."""
    covered = dict.fromkeys(("ece", "adaptive_ece", "classwise_ece"), 0)
    for seed in range(100):
        p, y = sample(points=200, seed=seed)
        got = calibration(p, y, interval=0.9, resamples=100)
        for name in covered:
            assert getattr(got, name) > 0
            covered[name] += got.intervals[name].low == 0
    assert all(80 <= count <= 98 for count in covered.values()), covered


def test_a_wrong_model_is_told_from_a_calibrated_one():
    p, y = sample(points=500)
    sharp = p**4 / (p**4).sum(axis=1, keepdims=True)
    assert calibration(sharp, y, interval=0.95).intervals["ece"].low > 0


def test_intervals_cover_accuracy():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(100):
        p = np.repeat([[0.7, 0.3]], 100, axis=0)
        y = (rng.random(100) < 0.3).astype(int)
        estimate = calibration(p, y, interval=0.9, resamples=200).intervals["accuracy"]
        covered += estimate.low <= 0.7 <= estimate.high
    assert 80 <= covered <= 99


def test_intervals_are_on_every_number_and_reproducible():
    p, y = sample(points=60)
    first = calibration(p, y, interval=0.95, random_state=1)
    assert set(first.intervals) == set(NUMBERS)
    for name, estimate in first.intervals.items():
        assert estimate.value == getattr(first, name)
        assert estimate.low < estimate.high
    assert calibration(p, y, interval=0.95, random_state=1) == first
    assert calibration(p, y, interval=0.95, random_state=2) != first
    assert calibration(p, y).intervals == {}
    dataclasses.asdict(first)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([0, 1, 3]), "from 0 to 3"),
        (np.array([-1, 1, 0]), "from -1"),
        (np.array([0.0, 1.0, 2.0]), "float64"),
        (np.array(["a", "b", "c"]), "searchsorted"),
        (np.array([0, 1]), r"shape \(3,\)"),
        (np.zeros((3, 3), int), r"\(3, 3\)"),
    ],
)
def test_bad_labels_are_refused(y, message):
    with pytest.raises(InputError, match=message):
        calibration(np.full((3, 3), 1 / 3), y)


def test_logits_and_bad_bins_are_refused():
    y = np.array([0])
    with pytest.raises(InputError, match="softmax"):
        calibration(np.array([[4.0, -2.0]]), y)
    with pytest.raises(InputError, match="NaN"):
        calibration(np.array([[np.nan, 1.0]]), y)
    with pytest.raises(InputError, match="bins"):
        calibration(np.array([[0.5, 0.5]]), y, bins=0)
    with pytest.raises(InputError, match="at least one point"):
        calibration(np.empty((0, 2)), np.empty(0, int))


def test_a_model_that_is_always_right_is_not_certainly_so():
    p = np.tile([0.9, 0.1], (50, 1))
    accuracy = calibration(p, np.zeros(50, dtype=int), interval=0.95).intervals["accuracy"]
    assert accuracy == clopper_pearson(50, 50, 0.95)
    assert accuracy.low < 0.94
