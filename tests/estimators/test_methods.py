"""Anchored ensembles, MC dropout and Bayes by backprop, each against its definition."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons
from torch import nn

from farfield.errors import InputError
from farfield.estimators import (
    AnchoredEnsembleClassifier,
    BayesByBackpropClassifier,
    EnsembleClassifier,
    MCDropoutClassifier,
    RBFClassifier,
    ReLUClassifier,
)
from farfield.estimators.anchored import Anchored
from farfield.estimators.bayes_by_backprop import MixturePrior
from farfield.estimators.method import Architecture
from farfield.networks.stack import Parameters


def architecture(**options: Any) -> Architecture:
    return Architecture(
        (4, 50, 2), "relu", 0.0, options.get("batch_norm", False), options.get("factory")
    )


def test_the_pull_of_an_anchor_is_pearces() -> None:
    method = Anchored(members=200, prior_variance=3.0, noise=0.5)
    stack = method.stack(architecture(), 100, 0)
    pull = method.pull(stack, 100, 0)
    values = stack.parameters.values.clone().requires_grad_()
    first, second = Parameters([(200, 50, 5), (200, 2, 51)]).views
    first[..., :-1], first[..., -1] = 3.0 / 4, 3.0
    second[..., :-1], second[..., -1] = 3.0 / 50, 3.0
    variance = torch.cat([first.flatten(), second.flatten()])
    assert pull.centre is not None
    penalty = 0.5 / (2 * 100) * ((values - pull.centre).square() / variance).sum()
    (expected,) = torch.autograd.grad(penalty, values)
    pull.add_gradient(stack.parameters)
    torch.testing.assert_close(stack.parameters.gradient, expected)
    # Anchors are draws from the prior.
    standard = pull.centre / variance.sqrt()
    assert float(standard.mean()) == pytest.approx(0, abs=0.02)
    assert float(standard.std()) == pytest.approx(1, abs=0.02)


def test_a_strong_prior_leaves_the_members_at_their_anchors(moons: Any) -> None:
    X, y = moons
    shared: dict[str, Any] = {"members": 2, "hidden": (5,), "standardize": False, "random_state": 0}
    model = AnchoredEnsembleClassifier(
        noise=1e6, epochs=400, batch_size=200, learning_rate=0.05, **shared
    )
    model.fit(X, y)
    method = Anchored(2, 2.0, 1e6)
    small = Architecture((2, 5, 2), "relu", 0.0, False, None)
    pull = method.pull(method.stack(small, len(X), 0), len(X), 0)
    assert pull.centre is not None
    anchor = pull.centre[:30].view(2, 5, 3)
    for member, instance in enumerate(model.instances_):
        np.testing.assert_allclose(instance[0].weight, anchor[member, :, :-1], atol=0.05)
    free = EnsembleClassifier(**shared, epochs=40).fit(X, y)
    assert free.score(X, y) > model.score(X, y)


def test_a_mask_is_an_instance(moons: Any) -> None:
    X, y = moons
    model = MCDropoutClassifier(samples=40, dropout=0.3, hidden=(30, 20), epochs=20, random_state=0)
    model.fit(X, y)
    plain = (
        ReLUClassifier(dropout=0.3, hidden=(30, 20), epochs=20, random_state=0).fit(X, y).module_
    )
    factors = []
    for instance in model.instances_:
        torch.testing.assert_close(instance[0].weight, plain[0].weight)
        factor = instance[2].weight / plain[2].weight
        # One factor per unit, the same for all that read it: 0 or 1 / (1 - p).
        torch.testing.assert_close(factor, factor[:1].expand_as(factor), atol=1e-5, rtol=1e-5)
        assert set(np.round(factor[0].tolist(), 4)) <= {0.0, round(1 / 0.7, 4)}
        factors.append(factor[0])
    share = float((torch.stack(factors) == 0).float().mean())
    assert share == pytest.approx(0.3, abs=0.04)
    assert model.uncertainty(X, "class_variance").max() > 1e-3
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(X))
    with pytest.raises(InputError, match="dropout > 0"):
        MCDropoutClassifier(dropout=0.0).fit(X, y)
    with pytest.raises(InputError, match="hidden units"):
        MCDropoutClassifier(hidden=()).fit(X, y)


def test_mixture_prior_density() -> None:
    prior = MixturePrior(0.3, 0.5, 2.0)
    values = torch.linspace(-3, 3, 7)
    first, second = torch.distributions.Normal(0, 0.5), torch.distributions.Normal(0, 2.0)
    expected = (0.3 * first.log_prob(values).exp() + 0.7 * second.log_prob(values).exp()).log()
    torch.testing.assert_close(prior.log_density(values), expected)


@pytest.mark.parametrize("reparameterization", ["weights", "local"])
def test_bayes_by_backprop_is_sure_on_half_moons_and_unsure_away(reparameterization: Any) -> None:
    X, y = make_moons(750, noise=0.125, random_state=1)
    model = BayesByBackpropClassifier(
        hidden=(20,),
        epochs=60,
        learning_rate=0.05,
        batch_size=125,
        reparameterization=reparameterization,
        random_state=1,
    )
    model.fit(X[:250], y[:250])
    assert model.score(X[500:], y[500:]) >= 0.95
    angles = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    ring = X.mean(0) + 5 * np.column_stack([np.cos(angles), np.sin(angles)])
    near = model.uncertainty(X[500:], "mutual_information").mean()
    far = model.uncertainty(ring, "mutual_information").mean()
    assert far >= 3 * near


def test_bayes_by_backprop_refuses_what_it_cannot_do(moons: Any) -> None:
    with pytest.raises(InputError, match="batch_norm=False"):
        BayesByBackpropClassifier(batch_norm=True).fit(*moons)
    with pytest.raises(InputError, match="dropout=0"):
        BayesByBackpropClassifier(dropout=0.1, reparameterization="local").fit(*moons)
    with pytest.raises(InputError, match="prior_pi must be"):
        BayesByBackpropClassifier(prior_pi=1.0).fit(*moons)
    wobbly = BayesByBackpropClassifier(dropout=0.1, epochs=3, samples=2, random_state=0)
    assert wobbly.fit(*moons).predict_instances(moons[0]).shape == (2, 200, 2)


def test_a_posterior_without_data_is_the_prior() -> None:
    # With a huge KL weight the data is void: deviations reach that of the (single) prior.
    X, y = make_moons(64, noise=0.1, random_state=0)
    model = BayesByBackpropClassifier(
        hidden=(20,),
        kl_weight=1e4,
        prior_pi=0.5,
        prior_sigma1=0.7,
        prior_sigma2=0.7,
        epochs=150,
        annealing=0.0,
        learning_rate=0.05,
        batch_size=64,
        samples=80,
        standardize=False,
        random_state=0,
    ).fit(X, y)
    weights = torch.stack([instance[0].weight.flatten() for instance in model.instances_])
    assert float(weights.std(0).mean()) == pytest.approx(0.7, abs=0.1)
    assert float(weights.mean(0).abs().mean()) < 0.15


def test_rbf_classifier_certificate_holds_in_the_units_of_the_inputs(moons: Any) -> None:
    X, y = moons
    stretched = X * [1.0, 20.0] + [0.0, 300.0]
    for centres in (15, "data"):
        model = RBFClassifier(
            centres=centres, epochs=40, batch_size=200, learning_rate=0.05, random_state=0
        ).fit(stretched, y)
        assert model.score(stretched, y) > 0.9
        assert model.centres_.shape == (15 if centres == 15 else 200, 2)
        radius = model.certificate_radius(0.05)
        angles = np.linspace(0, 2 * np.pi, 20)
        circle = np.column_stack([np.cos(angles), np.sin(angles)])
        points = np.concatenate([c + r * radius * circle for c in model.centres_ for r in (1, 1.5)])
        apart = np.linalg.norm(points[:, None] - model.centres_, axis=2).min(1)
        beyond = points[apart >= radius]
        assert len(beyond) > 100
        assert np.abs(model.predict_proba(beyond) - 0.5).max() <= 0.05
        assert model.predict_proba(stretched).max() > 0.8
        far = model.predict_proba([[1e30, -1e30]])
        np.testing.assert_array_equal(far, [[0.5, 0.5]])


def test_rbf_classifier_refuses_bad_parameters(moons: Any) -> None:
    with pytest.raises(InputError, match="centres must be 'data'"):
        RBFClassifier(centres=0).fit(*moons)
    with pytest.raises(InputError, match="gamma must be a positive number"):
        RBFClassifier(gamma=-1.0).fit(*moons)
    with pytest.raises(InputError, match="module must be None"):
        RBFClassifier(module=lambda: nn.Linear(2, 2)).fit(*moons)
