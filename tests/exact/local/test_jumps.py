"""Regions of models that jump: boxes, or polytopes behind affine maps."""

import numpy as np
import pytest
import torch

import farfield as ff
from step_models import MODELS, X, step_model, stumps


@pytest.mark.parametrize("name", MODELS)
def test_the_model_is_constant_in_a_region(name):
    model, network = step_model(name)
    points = X[:10]
    region = ff.linearize(network, points)
    assert not region.V.any()
    assert torch.equal(region.a, network.logits(points)[0])
    assert region.contains(points).all()
    radius = region.radius("linf").numpy()[:, None]
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=points.shape)
    near = model.predict_proba(points + 0.999 * radius * signs)
    assert np.allclose(torch.softmax(region.a, dim=-1), near, atol=1e-12)
    for index in range(3):
        A, b = (each.numpy() for each in region.halfspaces(index, minimal=True))
        assert (A @ points[index] <= b + 1e-12).all()
        inside = np.random.default_rng(1).uniform(-0.05, 0.05, size=(400, 4)) + points[index]
        same = (model.predict_proba(inside) == model.predict_proba(points[[index]])).all(axis=1)
        assert same[(b[:, None] > A @ inside.T).all(axis=0)].all()


def test_the_sides_of_an_interval():
    low, high = np.array([2.0, 0.0]), np.array([0.0, 2.0])
    network = stumps(2, [(0, -1.0, low, high), (0, 3.0, high, low), (1, 0.0, low, high)])
    region = ff.linearize(network, [[1.0, -0.5], [3.0, 2.0]])
    A, b = region.halfspaces(0, minimal=True)
    sides = sorted((*row, bound) for row, bound in zip(A.tolist(), b.tolist(), strict=True))
    assert sides == [(-1.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 3.0)]
    assert region.radius().tolist() == [0.5, 0.0]
    assert region.distance([1.0, 0.0]).tolist() == [2.0, 0.0]
    assert region.contains([[0.0, -9.0], [3.5, 2.0]]).tolist() == [True, False]
    assert region.is_bounded().tolist() == [False, False]


def test_nothing_changes_at_infinity():
    _, network = step_model("rotated")
    far = ff.at_infinity(network, X[:3], X[3:6])
    assert not far.jacobian().any()
    assert far.assumptions().share_with_zeros == 1.0
