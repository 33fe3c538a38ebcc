"""One feature at a time: limits, distances, bounds, categories."""

import math

import numpy as np
import pandas
import pytest
import torch

import farfield as ff
from audit_subjects import affine, random_subject, subject_of
from farfield.audit.sections.features import CURVE_STEPS, sampled_rows, table
from farfield.data import TableColumn
from small_networks import mlp


def described(subject, threshold=0.99):
    steps = []
    found = table(subject, threshold, steps.append, sampled_rows(subject))
    assert steps[-1] == 1.0
    return found


def test_a_known_distance_in_units_and_in_deviations_beyond_the_range():
    # Logits (2x, 0): 99.9% at x = log(999) / 2, whatever the row.
    rows = np.linspace(-1.0, 1.0, 21)[:, None]
    (feature,) = described(subject_of(affine([[2.0], [0.0]], [0.0, 0.0]), rows))
    goal = math.log(999) / 2
    assert feature.up.label == "c0"
    assert feature.down.label == "c1"
    assert feature.up.distance[1] == pytest.approx(goal - 0.0, abs=0.11)
    assert feature.up.beyond == pytest.approx([(goal - 1.0) / rows.std()] * 3)
    assert feature.down.beyond == pytest.approx([(goal - 1.0) / rows.std()] * 3)
    assert feature.up.blind == 1.0
    assert feature.up.assumptions == 0.0  # the second logit's row of V is zero


def test_agrees_with_at_infinity_row_by_row():
    subject = random_subject(seed=3)
    found = described(subject)
    for place, feature in enumerate(found):
        direction = np.zeros(4)
        direction[place] = 1.0
        far = ff.at_infinity(subject.network, subject.spread(100), direction)
        assert feature.up.confidence[1] == pytest.approx(float(far.confidence.median()))
        label = int(torch.bincount(far.label).argmax())
        assert feature.up.label == subject.classes[label]
        middle = float(ff.at_infinity(subject.network, subject.centre, direction).confidence)
        assert feature.curve[-1] == pytest.approx(middle, abs=1e-4)


def test_curves_are_the_median_row_moved():
    subject = random_subject(seed=5)
    feature = described(subject)[2]
    assert len(feature.curve) == len(CURVE_STEPS)
    row = subject.centre.copy()
    row[2] += CURVE_STEPS[3] * subject.std[2]
    p = subject.network.probabilities(row).mean(dim=0).amax()
    assert feature.curve[3] == pytest.approx(float(p), abs=1e-4)


def test_a_bounded_end_is_evaluated_at_its_bound():
    rows = np.random.default_rng(0).random((30, 1))
    moving = (TableColumn("share", (0,), unit="%", low=0.0, high=2.0),)
    subject = subject_of(affine([[3.0], [0.0]], [0.0, 0.0]), rows, moving=moving)
    (feature,) = described(subject)
    assert feature.kind == "bounded"
    assert feature.up.bound == 2.0
    assert feature.up.confidence[1] == pytest.approx(1 / (1 + math.exp(-6)))
    assert all(math.isinf(value) for value in feature.up.distance)
    assert all(math.isinf(value) for value in feature.up.value)
    assert feature.curve[-1] == pytest.approx(1 / (1 + math.exp(-6)), abs=1e-4)


def test_categories_are_moved_not_scaled():
    rows = np.zeros((40, 3))
    rows[:, 0] = np.linspace(-1, 1, 40)
    rows[:, 1:] = np.eye(2)[np.arange(40) % 2]
    moving = (
        TableColumn("x", (0,)),
        TableColumn("ward", (1, 2), values=("a", "b"), counts=(20, 20)),
    )
    subject = subject_of(
        affine([[0.0, 9.0, -9.0], [0.0, 0.0, 0.0]], [0.0, 0.0]), rows, moving=moving
    )
    x, ward = described(subject)
    assert ward.kind == "categorical"
    assert [value.value for value in ward.values] == ["a", "b"]
    assert [value.changed for value in ward.values] == [0.5, 0.5]
    assert ward.up is None
    assert x.up.blind == 1.0  # x does nothing, and the wards alone are sure


def test_votes_of_members_that_disagree():
    members = [affine([[1.0], [-1.0]], [0.0, 0.0]), affine([[-1.0], [1.0]], [0.0, 0.0])]
    (feature,) = described(subject_of(members, np.linspace(-1, 1, 9)[:, None]))
    assert feature.up.votes == {"c0": 0.5, "c1": 0.5}
    assert feature.up.scores["mutual_information"] == pytest.approx(math.log(2))
    assert feature.up.blind == 0.0


def test_a_bounded_end_says_from_where_on_up_to_its_bound():
    # Logits (9x, 0): 99.9% from x = log(999) / 9 on, which lies before the bound.
    rows = np.linspace(-0.2, 0.2, 21)[:, None]
    moving = (TableColumn("share", (0,), low=-0.5, high=2.0),)
    (feature,) = described(subject_of(affine([[9.0], [0.0]], [0.0, 0.0]), rows, moving=moving))
    goal = math.log(999) / 9
    assert feature.up.exact
    assert feature.up.value == pytest.approx([goal] * 3)
    assert feature.up.beyond == pytest.approx([(goal - 0.2) / rows.std()] * 3)
    assert feature.up.distance == pytest.approx([goal - 0.18, goal, goal + 0.18], abs=0.021)
    assert feature.down.bound == -0.5
    assert all(math.isinf(value) for value in feature.down.distance)


def test_a_row_beyond_its_bound_is_moved_back_and_needs_no_way():
    rows = np.array([[3.0], [0.0], [0.1]])
    moving = (TableColumn("share", (0,), low=-1.0, high=2.0),)
    (feature,) = described(subject_of(affine([[9.0], [0.0]], [0.0, 0.0]), rows, moving=moving))
    assert feature.up.distance[0] == 0.0
    assert feature.up.distance[2] == pytest.approx(math.log(999) / 9)
    assert feature.up.value[2] == 2.0


def test_values_reached_are_where_brute_force_finds_them():
    for subject in (sure_subject(7), sure_subject(7, 8, 9)):
        for place, feature in enumerate(described(subject)):
            for sign, end in ((-1.0, feature.down), (1.0, feature.up)):
                assert end.exact
                brute = [last_unsure(subject, row, place, sign) for row in subject.spread(100)]
                outward = np.sort([sign * value for value in brute])
                middle = outward[int(0.5 * len(outward))]
                assert sign * end.value[1] == pytest.approx(middle, rel=5e-3, abs=2e-2)


def sure_subject(*seeds):
    """Networks that are sure long before their last unit settles."""
    rows = np.random.default_rng(seeds[0]).standard_normal((5, 3)) * (1, 2, 3)
    models = [mlp(3, 16, 16, 3, seed=seed, gain=3.0) for seed in seeds]
    return subject_of(models if len(models) > 1 else models[0], rows)


def last_unsure(subject, row, place, sign):
    """The value of a feature from which on all members are sure, from a fine grid."""
    steps = np.concatenate([np.linspace(0, 60, 6001), np.geomspace(60.1, 1e7, 4000)])
    rows = np.tile(row, (len(steps), 1))
    rows[:, place] += sign * steps
    p = subject.network.probabilities(rows)
    final = p[:, -1].argmax(dim=-1)
    if len(set(final.tolist())) > 1 or bool((p[:, -1].amax(dim=-1) < 0.999).any()):
        return sign * math.inf
    unsure = (p[:, :, int(final[0])] < 0.999).any(dim=0).numpy()
    return row[place] + sign * (steps[np.flatnonzero(unsure)[-1]] if unsure.any() else 0.0)


def test_a_budget_that_is_spent_makes_bounds(monkeypatch):
    exact = described(sure_subject(3))
    monkeypatch.setattr("farfield.audit.sections.features.WALKING", 0.0)
    bounds = described(sure_subject(3))
    assert all(feature.up.exact and feature.down.exact for feature in exact)
    assert not all(feature.up.exact for feature in bounds)
    for bound, known in zip(bounds, exact, strict=True):
        assert bound.up.distance >= known.up.distance
        assert bound.up.beyond >= known.up.beyond


def test_wide_tables_draw_the_curves_that_a_report_shows(monkeypatch):
    monkeypatch.setattr("farfield.audit.sections.features.MOST_CURVES", 1)
    found = described(sure_subject(3))
    soonest = min(found, key=lambda feature: feature.soonest)
    assert [len(feature.curve) for feature in found if feature is soonest] == [len(CURVE_STEPS)]
    assert all(not feature.curve for feature in found if feature is not soonest)


def test_values_of_binary_columns_with_gaps_are_counted():
    frame = pandas.DataFrame({"smoker": [0.0, 1.0, 1.0, None] * 25, "x": np.arange(100.0)})
    network = affine([[1.0, 1.0], [0.0, 0.0]], [0.0, 0.0])
    found = ff.audit(network, frame, impute="mean", directions=5, samples=100)
    (smoker,) = [each for each in found.features if each.name == "smoker"]
    assert smoker.kind == "categorical"
    assert [(each.value, each.rows) for each in smoker.values] == [("0", 25), ("1", 50)]
    assert any("taken for categories" in note for note in found.data.notes)
