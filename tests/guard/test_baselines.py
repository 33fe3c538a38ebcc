"""The two remedies from the literature keep what their papers prove."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.errors import InputError
from farfield.guard import ccu, last_layer_laplace
from farfield.guard.penultimate import split_last_layer


@pytest.fixture(scope="module")
def mixed(classifier, moons):
    return ccu(classifier, moons[0], components=8)


def test_ccu_never_exceeds_its_bound(mixed, moons):
    rng = np.random.default_rng(0)
    rows = moons[0].mean(axis=0) + rng.normal(size=(2000, 2)) * np.logspace(-2, 3, 2000)[:, None]
    probabilities = mixed.predict_proba(rows)
    assert np.allclose(probabilities.sum(axis=1), 1.0)
    assert (probabilities.max(axis=1) <= mixed.bound(torch.tensor(rows)) + 1e-9).all()


def test_ccu_is_uniform_beyond_its_radius(mixed, moons):
    radius = mixed.certificate_radius(0.01)
    assert 0 < radius < math.inf
    angles = torch.linspace(0, 2 * math.pi, 500, dtype=torch.float64)
    circle = torch.stack([angles.cos(), angles.sin()], dim=1)
    for factor in (1.0, 1.1, 3.0, 100.0):
        rows = mixed.metric.inputs(circle * radius * factor)
        assert mixed.predict_proba(rows.numpy()).max() <= 0.51 + 1e-9
    with pytest.raises(InputError, match="epsilon"):
        mixed.certificate_radius(0.7)


def test_ccu_keeps_the_class_and_the_data(mixed, classifier, moons):
    own = classifier.predict_proba(moons[0])
    new = mixed.predict_proba(moons[0])
    assert (own.argmax(axis=1) == new.argmax(axis=1)).all()
    assert np.abs(own - new).mean() < 0.02


@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_laplace_reaches_its_limit(mlp, outputs):
    model = mlp(3, 12, outputs)
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(200, 3, generator=generator)
    laplace = last_layer_laplace(model, rows, prior_precision=0.5)
    directions = torch.randn(50, 3, generator=generator, dtype=torch.float64)
    limit = laplace.at_infinity(torch.zeros(3, dtype=torch.float64), directions)
    far = laplace.predict_proba(directions * 1e9)
    assert torch.allclose(limit, far, atol=1e-5)
    assert limit.shape == (50, max(2, outputs))
    if outputs <= 2:
        # Less certain than the network itself, which saturates, and not uniform.
        assert float(limit.max()) < 1.0
        assert float(limit.amax(dim=1).min()) > 0.5


def test_laplace_limit_by_hand():
    """One feature relu(x): it decides to the right, the bias alone to the left."""
    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)).double()
    with torch.no_grad():
        for layer, values in ((model[0], (1.0, 0.0)), (model[2], (2.0, 0.5))):
            layer.weight.fill_(values[0])
            layer.bias.fill_(values[1])
    rows = torch.linspace(-2, 2, 9, dtype=torch.float64)[:, None]
    laplace = last_layer_laplace(model, rows, prior_precision=1.0)
    features = torch.stack([rows[:, 0].relu(), torch.ones(9, dtype=torch.float64)])
    p = torch.sigmoid(2.0 * features[0] + 0.5)
    precision = (features * (p * (1 - p))) @ features.T + torch.eye(2, dtype=torch.float64)
    spread = torch.linalg.inv(precision)
    right, left = laplace.at_infinity([0.0], [[1.0], [-1.0]])[:, 1]
    assert float(right) == pytest.approx(
        1 / (1 + math.exp(-2.0 / math.sqrt(math.pi / 8 * float(spread[0, 0]))))
    )
    still = 0.5 / math.sqrt(1 + math.pi / 8 * float(spread[1, 1]))
    assert float(left) == pytest.approx(1 / (1 + math.exp(-still)))


def test_a_smaller_prior_precision_is_less_certain(classifier, moons):
    rays = np.eye(2)
    levels = [
        float(
            last_layer_laplace(classifier, moons[0], prior_precision=precision)
            .at_infinity(np.zeros(2), rays)
            .max()
        )
        for precision in (1e-3, 1.0, 1e3)
    ]
    assert levels == sorted(levels)
    with pytest.raises(InputError, match="prior_precision"):
        last_layer_laplace(classifier, moons[0], prior_precision=0.0)


def test_the_last_layer_is_taken_off(mlp):
    model = mlp(3, 7, 5, 2)
    network = ff.capture(model, torch.zeros(1, 3))
    parts = split_last_layer(network)
    x = torch.randn(6, 3, dtype=torch.float64)
    logits = parts.features.logits(x)[0] @ parts.weight.T + parts.bias
    assert torch.allclose(logits, network.logits(x)[0])
    with pytest.raises(InputError, match="instances"):
        split_last_layer(ff.capture([model, model], torch.zeros(1, 3)))
    with pytest.raises(InputError, match="linear layer"):
        split_last_layer(ff.capture(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), torch.zeros(1, 3)))
