"""The gradient magnitude of a score, against finite differences and closed forms."""

import numpy as np
import pytest
import torch

from farfield import scores
from farfield.errors import InputError


def network(seed=0):
    """Three small members as one function to (instances, points, classes)."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(3, 2, 8, generator=generator, dtype=torch.float64)
    second = torch.randn(3, 8, 3, generator=generator, dtype=torch.float64)
    return lambda x: (torch.relu(x @ first) @ second).softmax(dim=-1)


POINTS = np.random.default_rng(0).standard_normal((7, 2))


@pytest.mark.parametrize("name", scores.PROBABILITY_SCORES)
def test_equals_finite_differences(name):
    model, step = network(), 1e-6
    score = scores.PROBABILITY_SCORES[name]
    slopes = [
        (
            score(model(torch.tensor(POINTS + step * e)))
            - score(model(torch.tensor(POINTS - step * e)))
        )
        / (2 * step)
        for e in np.eye(2)
    ]
    expected = np.hypot(*(slope.numpy() for slope in slopes))
    got = scores.gradient_magnitude(model, POINTS, name)
    assert isinstance(got, np.ndarray)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-8)


def test_kind_batches_and_gradient_mode_do_not_matter():
    model = network()
    expected = scores.gradient_magnitude(model, POINTS)
    x = torch.tensor(POINTS)
    for size in (1, 3, 100):
        got = scores.gradient_magnitude(model, x, batch_size=size)
        assert isinstance(got, torch.Tensor)
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12)
    with torch.no_grad():
        np.testing.assert_allclose(scores.gradient_magnitude(model, x).numpy(), expected)
    with torch.inference_mode():
        np.testing.assert_allclose(scores.gradient_magnitude(model, x).numpy(), expected)
    assert not x.requires_grad


def test_images_have_one_norm_each():
    def logits(x):
        return torch.stack([2 * x.flatten(1).sum(dim=1), torch.zeros(len(x))], dim=1)

    got = scores.gradient_magnitude(logits, torch.ones(4, 3, 5, 5), "negative_max_logit")
    assert got.tolist() == pytest.approx([2 * 75**0.5] * 4)


def test_objects_with_probabilities_and_logits():
    class Network:
        def logits(self, x):
            return torch.stack([x.sum(dim=1), torch.zeros(len(x))], dim=1)[None]

        def probabilities(self, x):
            return self.logits(x).softmax(dim=-1)

    x = torch.tensor([[2.0, 1.0]])
    assert scores.gradient_magnitude(Network(), x, "negative_max_logit")[0] == pytest.approx(2**0.5)
    sigmoid = 1 / (1 + np.exp(-3.0))
    slope = sigmoid * (1 - sigmoid) * 2**0.5
    got = scores.gradient_magnitude(Network(), x, "one_minus_max_probability")
    assert got[0] == pytest.approx(slope)
    custom = scores.gradient_magnitude(Network(), x, lambda p: p[0, :, 0])
    assert custom[0] == pytest.approx(slope)


def test_parameters_collect_no_gradients():
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Softmax(dim=-1))
    scores.gradient_magnitude(module, torch.ones(2, 2))
    assert all(parameter.grad is None for parameter in module.parameters())


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.array([[1, 2]]), "int64"),
        (np.array([1.0, 2.0]), r"shape \(2,\)"),
        (np.empty((0, 2)), r"shape \(0, 2\)"),
        (np.array([[np.nan, 1.0]]), "finite"),
    ],
)
def test_bad_points_are_refused(x, message):
    with pytest.raises(InputError, match=message):
        scores.gradient_magnitude(network(), x)


def test_bad_models_scores_and_sizes_are_refused():
    x = torch.tensor(POINTS)
    with pytest.raises(InputError, match=r"Unknown score 'entropy'.*energy"):
        scores.gradient_magnitude(network(), x, "entropy")
    with pytest.raises(InputError, match="batch_size"):
        scores.gradient_magnitude(network(), x, batch_size=0)
    with pytest.raises(InputError, match="got int"):
        scores.gradient_magnitude(3, x)
    with pytest.raises(InputError, match="does not depend on x"):
        scores.gradient_magnitude(lambda x: network()(x.detach()), x)
    with pytest.raises(InputError, match=r"shape \(7,\), got \(7, 3\)"):
        scores.gradient_magnitude(network(), x, lambda p: p[0])
    with pytest.raises(InputError, match="apply softmax"):
        scores.gradient_magnitude(lambda x: 3 * x, x)
