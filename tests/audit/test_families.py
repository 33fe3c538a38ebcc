"""Blind shares: exact where directions are all there, an interval where they are drawn."""

import math

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from audit_subjects import affine, random_subject, subject_of
from farfield.audit import families
from farfield.data import TableColumn
from farfield.evaluate import Estimate


def half_blind():
    """Logits (x, -x): sure along x, undecided along y."""
    rows = np.random.default_rng(0).standard_normal((50, 2))
    return subject_of(affine([[1.0, 0.0], [-1.0, 0.0]], [0.0, 0.0]), rows)


def test_axes_are_exact_and_count_both_ends():
    family = families.follow(half_blind(), families.axes(half_blind()), 0.99)
    assert family.share == 0.5
    assert isinstance(family.share, float)
    assert family.rays == 4
    assert family.confidence[0] == pytest.approx(0.5, abs=0.5)


def test_a_bounded_end_is_not_a_direction():
    rows = np.abs(np.random.default_rng(0).standard_normal((50, 2)))
    moving = (TableColumn("x", (0,), low=0.0), TableColumn("y", (1,), low=0.0, high=9.0))
    subject = subject_of(affine([[1.0, 0.0], [-1.0, 0.0]], [0.0, 0.0]), rows, moving=moving)
    rays = families.axes(subject)
    assert rays.direction[:].tolist() == [[1.0, 0.0]]
    assert families.random_directions(subject, 5, np.random.default_rng(0)) is None


def test_everything_bounded_leaves_no_direction():
    rows = np.random.default_rng(0).random((20, 1))
    moving = (TableColumn("x", (0,), low=0.0, high=1.0),)
    subject = subject_of(affine([[1.0], [-1.0]], [0.0, 0.0]), rows, moving=moving)
    assert families.axes(subject) is None
    assert families.towards(subject, "data", "t", rows, 10) is None


def test_random_directions_carry_an_interval_and_leave_categories_alone():
    rows = np.random.default_rng(0).standard_normal((60, 4))
    rows[:, 2:] = np.eye(2)[np.arange(60) % 2]
    moving = (
        TableColumn("a", (0,)),
        TableColumn("b", (1,)),
        TableColumn("kind", (2, 3), values=("u", "v"), counts=(30, 30)),
    )
    torch.manual_seed(0)
    subject = subject_of(affine(torch.randn(2, 4).tolist(), [0.0, 0.0]), rows, moving=moving)
    rays = families.random_directions(subject, 40, np.random.default_rng(1))
    assert not rays.direction[:, 2:].any()
    assert (rays.direction[:, :2] != 0).all()
    family = families.follow(subject, rays, 0.99)
    assert isinstance(family.share, Estimate)
    assert family.share.low <= family.share.value <= family.share.high


def test_whitened_directions_follow_the_scale_of_the_data():
    subject = random_subject(rows=2000)
    directions = subject.whitened_directions(4000, np.random.default_rng(0))
    spread = directions.std(axis=0) / subject.std
    assert spread == pytest.approx(np.full(4, 0.5), abs=0.03)


def test_towards_starts_at_the_mean_and_goes_through_the_rows():
    subject = random_subject()
    target = subject.rows[:7]
    rays = families.towards(subject, "data", "t", target, 100)
    np.testing.assert_allclose(rays.origin + rays.direction, target)
    np.testing.assert_allclose(rays.origin, np.tile(subject.mean, (7, 1)))


def test_settled_is_never_where_members_disagree():
    members = [affine([[1.0], [-1.0]], [0.0, 0.0]), affine([[-1.0], [1.0]], [0.0, 0.0])]
    rows = np.random.default_rng(0).standard_normal((20, 1))
    subject = subject_of(members, rows)
    family = families.follow(subject, families.axes(subject), 0.99)
    assert family.share == 0.0
    assert family.disagreeing == 1.0
    assert all(math.isinf(value) for value in family.settled)
    assert family.scores["mutual_information"][1] == pytest.approx(math.log(2))


def test_the_circle_of_two_inputs_is_exact():
    family = families.whole_circle(half_blind(), 0.99)
    # Every direction but the two along y is blind: a share of one, up to two points.
    assert family.share == pytest.approx(1.0)
    assert families.whole_circle(random_subject(), 0.99) is None


def test_a_regressor_is_blind_where_nothing_grows():
    rows = np.random.default_rng(0).standard_normal((20, 2))
    # mean = x, raw scale = y: along +y the scale grows, along -y it collapses, along x neither.
    subject = subject_of(
        affine([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), rows, task="regression", classes=("mean", "s")
    )
    rays = families.axes(subject)
    family = families.follow(subject, rays, 0.99)
    assert rays.direction[:].tolist() == [[-1, 0], [1, 0], [0, -1], [0, 1]]
    assert family.share == 0.75
    two = [
        affine([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]),
        affine([[2.0, 0.0], [0.0, 1.0]], [0.0, 0.0]),
    ]
    several = subject_of(two, rows, task="regression", classes=("mean", "s"))
    assert families.follow(several, rays, 0.99).share == 0.25


def test_quantiles_keep_infinity():
    found = families.quantiles(torch.tensor([1.0, math.inf, 2.0]), (0.05, 0.5, 0.95))
    assert found == (1.0, 2.0, math.inf)
    assert families.quantiles(torch.empty(0), (0.5,)) == ()


def test_the_telling_feature_is_found():
    rows = np.random.default_rng(0).standard_normal((100, 3))
    subject = subject_of(affine([[0.0, 5.0, 0.1], [0.0, 0.0, 0.0]], [0.0, 0.0]), rows)
    names = [feature.name for feature in subject.by_effect(np.random.default_rng(0))[:2]]
    assert names == ["f1", "f2"]


def stumps(rows, features):
    """The mean of trees of one split each: sure of what all features agree on."""
    forest = RandomForestClassifier(len(features)).fit(rows, rows[:, 0] > 0)
    forest.estimators_ = [
        DecisionTreeClassifier(max_depth=1).fit(rows * (np.arange(5) == k), rows[:, k] > 0)
        for k in features
    ]
    return forest


@pytest.mark.parametrize("directions", [4, 100])
def test_orthants_of_trees_are_counted(directions):
    rows = np.random.default_rng(0).standard_normal((40, 5))
    subject = subject_of(stumps(rows, (0, 1, 4)), rows)
    found = families.orthants(subject, 0.99, directions, np.random.default_rng(0))
    # All three up, or all three down: two of eight, however few are followed in detail.
    assert found.share == 2 / 8
    assert isinstance(found.share, float)
    assert found.rays == 8
    assert found.constant


def test_orthants_that_are_too_many_are_drawn(monkeypatch):
    monkeypatch.setattr(families, "MOST_ORTHANTS", 4)
    rows = np.random.default_rng(0).standard_normal((40, 5))
    subject = subject_of(stumps(rows, (0, 1, 4)), rows)
    found = families.orthants(subject, 0.99, 6, np.random.default_rng(0))
    assert isinstance(found.share, Estimate)
    assert found.rays == 6


def test_a_bounded_feature_stays_where_it_is():
    rows = np.random.default_rng(0).standard_normal((41, 5))
    columns = [TableColumn(f"x{k}", (k,), low=-9.0 if k == 4 else -math.inf) for k in range(5)]
    subject = subject_of(stumps(rows, (0, 1, 4)), rows, moving=tuple(columns))
    found = families.orthants(subject, 0.99, 100, np.random.default_rng(0))
    # Two features move: they agree with the third in one of four ways.
    assert (found.share, found.rays) == (1 / 4, 4)


def test_what_is_not_made_of_steps_has_no_orthants():
    assert families.orthants(half_blind(), 0.99, 100, np.random.default_rng(0)) is None
    assert not families.follow(half_blind(), families.axes(half_blind()), 0.99).constant
