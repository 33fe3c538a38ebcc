"""Radial basis function networks: their own numbers, and 1/K far away."""

import numpy as np
import torch
from sklearn.datasets import make_moons

import farfield as ff


def test_rbf_classifiers_say_one_half_far_away():
    rows, labels = make_moons(60, noise=0.1, random_state=0)
    model = ff.RBFClassifier(centres=8, epochs=20, random_state=0).fit(rows, labels)
    network = ff.capture(model)
    assert network.labels == (0, 1)
    found = network.probabilities(np.concatenate([rows, [[1e30, 0.0]]]))[0]
    expected = model.predict_proba(np.concatenate([rows, [[1e30, 0.0]]]))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    ways = np.array([[1.0, 0.0], [0.0, -1.0], [1.0, 2.0]])
    far = ff.at_infinity(network, rows[0], ways)
    assert torch.equal(far.probabilities, torch.full((1, 3, 2), 0.5, dtype=torch.float64))
    np.testing.assert_allclose(model.predict_proba(rows[0] + 1e6 * ways), 0.5)
