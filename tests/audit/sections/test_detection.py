"""Distances to the data, and what the last layer reads."""

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from audit_subjects import random_subject
from farfield.audit.sections.detection import Reference, penultimate
from farfield.networks.lenet import lenet


def test_mahalanobis_of_a_known_gaussian():
    rows = np.random.default_rng(0).standard_normal((2000, 3)) * [1.0, 10.0, 0.1]
    reference = Reference.fit(rows)
    found = reference.distances(np.array([[0.0, 30.0, 0.0], [3.0, 0.0, 0.0]]))
    assert found["mahalanobis"] == pytest.approx([3.0, 3.0], rel=0.06)


def test_nearest_is_the_tenth_neighbour():
    rows = np.arange(20.0)[:, None]
    found = Reference.fit(rows).distances(np.array([[0.0]]))
    assert found["nearest"][0] * rows.std() == pytest.approx(9.0)


def test_one_row_and_constant_columns():
    one = Reference.fit(np.ones((1, 2)))
    assert "mahalanobis" not in one.distances(np.zeros((3, 2)))
    flat = Reference.fit(np.stack([np.ones(30), np.arange(30.0)], axis=1))
    assert np.isfinite(flat.distances(np.array([[5.0, 3.0]]))["mahalanobis"]).all()


def test_penultimate_features_feed_the_last_layer():
    subject = random_subject(hidden=16, members=2)
    body = penultimate(subject.network)
    inner = body.logits(subject.rows[:5])[0].numpy()
    assert inner.shape == (5, 16)
    assert (inner >= 0).all()
    group = subject.network.groups[0]
    weights = {tuple(t.shape): t for t in group.instance(0).values()}
    logits = torch.from_numpy(inner) @ weights[(3, 16)].T + weights[(3,)]
    expected = subject.network.logits(subject.rows[:5])[0]
    torch.testing.assert_close(logits, expected)


def test_penultimate_of_an_image_network_is_what_its_last_layer_reads():
    network = ff.capture(lenet(), torch.zeros(1, 1, 28, 28))
    body = penultimate(network)
    assert body.logits(np.random.default_rng(0).random((2, 1, 28, 28))).shape == (1, 2, 1024)


def test_an_affine_model_has_none():
    assert penultimate(ff.capture(nn.Linear(3, 2), torch.zeros(1, 3))) is None
