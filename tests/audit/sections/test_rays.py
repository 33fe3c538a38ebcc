"""Rays through to infinity."""

import numpy as np
import pytest
from torch import nn

from audit_subjects import affine, subject_of
from farfield.audit.sections.rays import rays


def test_a_ray_has_its_limit_and_its_exact_first_crossing():
    # Logits (2x, 0) from x = 0 upwards: 99.9% at log(999) / 2; the deviation of the data is 2.
    rows = np.array([[-2.0], [2.0]])
    subject = subject_of(affine([[2.0], [0.0]], [0.0, 0.0]), rows)
    (found,) = rays(subject, ["x up"], [np.array([0.0])], [np.array([1.0])])
    assert found.unit == "standard deviations"
    assert found.first == pytest.approx(np.log(999) / 2 / 2)
    assert found.limits["confidence"] == 1.0
    assert found.scores["confidence"][0] == 0.5
    assert found.t[-1] == pytest.approx(1e6)
    assert found.pieces == 1
    (in_units,) = rays(subject, ["x up"], [np.array([0.0])], [np.array([1.0])], unit="mg")
    assert in_units.first == pytest.approx(np.log(999) / 2)


def test_a_ray_says_from_where_on_its_answer_stands_and_not_only_its_units():
    # Logits (relu(x) - 140, 0) from x = -21.5: the unit settles at 21.5, the class at 161.5.
    late = nn.Sequential(nn.ReLU(), affine([[1.0], [0.0]], [-140.0, 0.0]))
    subject = subject_of(late, np.array([[-1.0], [1.0]]))
    (found,) = rays(subject, ["x up"], [np.array([-21.5])], [np.array([1.0])])
    assert found.reach == pytest.approx(21.5)
    assert found.final == pytest.approx(161.5)
    assert found.settled == pytest.approx(161.5 + np.log(999))
    assert found.exact


def test_members_that_part_are_never_settled():
    members = [affine([[1.0], [-1.0]], [0.0, 0.0]), affine([[-1.0], [1.0]], [0.0, 0.0])]
    subject = subject_of(members, np.array([[-1.0], [1.0]]))
    (found,) = rays(subject, ["x up"], [np.array([0.0])], [np.array([1.0])])
    assert found.settled == found.final == np.inf
