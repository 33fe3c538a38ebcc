"""Losses, gradients and divergences against torch's own distributions."""

import pytest
import torch
from torch import distributions
from torch.distributions import kl_divergence

from farfield.objectives.likelihood import (
    SCALE_EPSILON,
    Absolute,
    Bernoulli,
    Categorical,
    Gaussian,
    Laplace,
    Likelihood,
    Squared,
)

ROWS = 40
GENERATOR = torch.Generator().manual_seed(0)


def outputs_of(likelihood: Likelihood) -> torch.Tensor:
    return 2 * torch.randn(3, likelihood.outputs, ROWS, generator=GENERATOR, dtype=torch.float64)


def distribution(likelihood: Likelihood, outputs: torch.Tensor) -> distributions.Distribution:
    if isinstance(likelihood, Categorical):
        return distributions.Categorical(logits=outputs.transpose(1, 2))
    if isinstance(likelihood, Bernoulli):
        return distributions.Bernoulli(logits=outputs[:, 0])
    if isinstance(likelihood, Squared):
        return distributions.Normal(outputs[:, 0], 1.0)
    if isinstance(likelihood, Absolute):
        return distributions.Laplace(outputs[:, 0], 1.0)
    scale = torch.nn.functional.softplus(outputs[:, 1]) + SCALE_EPSILON
    family = distributions.Normal if isinstance(likelihood, Gaussian) else distributions.Laplace
    return family(outputs[:, 0], scale)


CASES = pytest.mark.parametrize(
    "likelihood",
    [Categorical(4), Bernoulli(), Gaussian(), Laplace(), Squared(), Absolute()],
    ids=lambda value: type(value).__name__,
)


def encoded(likelihood: Likelihood, values: torch.Tensor) -> torch.Tensor:
    if isinstance(likelihood, Categorical):
        return torch.nn.functional.one_hot(values, 4).double().transpose(1, 2)
    return values.double().unsqueeze(1)


@CASES
def test_loss_is_the_negative_log_likelihood(likelihood: Likelihood) -> None:
    outputs = outputs_of(likelihood)
    torch.manual_seed(0)
    values = distribution(likelihood, outputs_of(likelihood)).sample()
    loss = likelihood.loss(outputs, encoded(likelihood, values))
    assert loss.shape == (3, ROWS)
    expected = -distribution(likelihood, outputs).log_prob(values)
    if isinstance(likelihood, Squared):
        expected = 2 * expected - torch.log(torch.tensor(2 * torch.pi))
    if isinstance(likelihood, Absolute):
        expected = expected - torch.log(torch.tensor(2.0))
    torch.testing.assert_close(loss, expected)


@CASES
def test_gradient_is_the_derivative_of_the_loss(likelihood: Likelihood) -> None:
    outputs = outputs_of(likelihood).requires_grad_()
    torch.manual_seed(1)
    targets = encoded(likelihood, distribution(likelihood, outputs_of(likelihood)).sample())
    (expected,) = torch.autograd.grad(likelihood.loss(outputs, targets).sum(), outputs)
    out = torch.empty_like(expected)
    likelihood.gradient(outputs.detach(), targets, out)
    torch.testing.assert_close(out, expected)


@CASES
def test_divergence_is_the_kl_divergence(likelihood: Likelihood) -> None:
    a, b = outputs_of(likelihood), outputs_of(likelihood)
    expected = kl_divergence(distribution(likelihood, a), distribution(likelihood, b))
    torch.testing.assert_close(likelihood.divergence(a, b), expected)
    torch.testing.assert_close(likelihood.divergence(a, a), torch.zeros(3, ROWS).double())


def test_extreme_logits_stay_finite() -> None:
    logits = torch.tensor([[[1e4], [-1e4]]])
    target = torch.tensor([[[0.0], [1.0]]])
    assert Categorical(2).loss(logits, target).item() == pytest.approx(2e4)
    assert Bernoulli().loss(logits[:, :1], target[:, :1]).item() == pytest.approx(1e4)
    assert Bernoulli().loss(logits[:, 1:], target[:, :1]).item() == pytest.approx(0)
