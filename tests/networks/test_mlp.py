"""Stacked perceptrons against plain torch."""

import copy
import pickle
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from farfield.networks.backprop import Backprop
from farfield.networks.mlp import StackedMLP
from farfield.networks.stack import Parameters
from farfield.networks.streams import Purpose, Streams
from farfield.objectives.likelihood import (
    Absolute,
    Bernoulli,
    Categorical,
    Gaussian,
    Laplace,
    Likelihood,
    Squared,
)

LIKELIHOODS = [Categorical(3), Bernoulli(), Gaussian(), Laplace(), Squared(), Absolute()]


def stacked(sizes: tuple[int, ...], members: int = 3, **options: Any) -> StackedMLP:
    return StackedMLP(
        sizes,
        Streams(0, members, Purpose.INITIAL),
        Streams(0, members, Purpose.NOISE),
        **options,
    )


def targets_for(likelihood: Likelihood, members: int, rows: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    if isinstance(likelihood, Categorical):
        codes = torch.randint(likelihood.classes, (members, rows), generator=generator)
        return nn.functional.one_hot(codes, likelihood.classes).float().transpose(1, 2)
    if isinstance(likelihood, Bernoulli):
        return torch.randint(2, (members, 1, rows), generator=generator).float()
    return torch.randn(members, 1, rows, generator=generator)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("activation", ["relu", "leaky_relu"])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("hidden", [(), (4,), (5, 7, 3)])
def test_gradient_by_hand_equals_autograd(
    likelihood: Likelihood, activation: Any, dropout: float, hidden: tuple[int, ...]
) -> None:
    sizes = (2, *hidden, likelihood.outputs)
    # Two stacks with equal streams: each path draws its own masks, and they must be the same.
    by_hand = stacked(sizes, activation=activation, dropout=dropout)
    reference = stacked(sizes, activation=activation, dropout=dropout)
    inputs = torch.randn(3, 11, 2, generator=torch.Generator().manual_seed(0))
    targets = targets_for(likelihood, 3, 11)

    leaves = reference.parameters.leaves()
    outputs = reference.apply(leaves, inputs, training=True)
    torch.autograd.backward(likelihood.loss(outputs.transpose(1, 2), targets).mean(1).sum())

    kernel = Backprop(by_hand, 11)
    with torch.inference_mode():
        values = kernel.forward(torch.cat([inputs, torch.ones(3, 11, 1)], dim=2))
        torch.testing.assert_close(values, outputs.detach().transpose(1, 2))
        likelihood.gradient(values, targets, kernel.error)
        kernel.error.mul_(1 / 11)
        kernel.backward()
    assert reference.parameters.gradient.abs().max() > 0
    torch.testing.assert_close(
        by_hand.parameters.gradient, reference.parameters.gradient, atol=1e-6, rtol=1e-4
    )


@pytest.mark.parametrize("batch_norm", [False, True])
def test_a_member_as_a_module_gives_the_same_outputs(batch_norm: bool) -> None:
    stack = stacked((3, 6, 5, 2), batch_norm=batch_norm)
    inputs = torch.randn(3, 20, 3, generator=torch.Generator().manual_seed(0))
    stack.apply(stack.parameters.views, inputs, training=True)
    outputs = stack.apply(stack.parameters.views, inputs, training=False)
    for member in range(3):
        module = stack.module(member)
        torch.testing.assert_close(module(inputs[member]), outputs[member])
    assert not torch.equal(outputs[0], outputs[1])


def test_batch_norm_follows_torch() -> None:
    stack = stacked((3, 6, 2), members=1, batch_norm=True)
    module = stack.module(0).train()
    for step in range(3):
        inputs = torch.randn(8, 3, generator=torch.Generator().manual_seed(step)) * 2 + 1
        ours = stack.apply(stack.parameters.views, inputs[None], training=True)[0]
        torch.testing.assert_close(ours, module(inputs), atol=1e-5, rtol=1e-5)
    norm = module[1]
    torch.testing.assert_close(
        stack.buffers[0][0], torch.stack([norm.running_mean, norm.running_var])
    )


def test_starting_weights_have_the_bounds_of_torch() -> None:
    weights = stacked((50, 200, 2), members=1).parameters.views[0]
    bound = 50**-0.5
    assert weights.abs().max() <= bound
    assert weights.abs().max() > 0.99 * bound
    assert abs(float(weights.mean())) < 0.05 * bound


def test_dropout_scales_what_it_keeps() -> None:
    stack = stacked((2, 400, 2), members=2, dropout=0.25)
    (mask,) = stack.masks(50)
    assert mask.unique().tolist() == pytest.approx([0, 1 / 0.75])
    assert float(mask.mean()) == pytest.approx(1, abs=0.02)
    assert not torch.equal(mask[0], mask[1])


@given(few=st.integers(1, 3), many=st.integers(4, 7), seed=st.integers(0, 2**64 - 1))
@settings(max_examples=20, deadline=None)
def test_a_member_draws_the_same_whoever_is_beside_it(few: int, many: int, seed: int) -> None:
    for purpose in Purpose:
        a, b = Streams(seed, few, purpose), Streams(seed, many, purpose)
        assert torch.equal(a.normal(3, 2), b.normal(3, 2)[:few])
        assert torch.equal(a.uniform(5), b.uniform(5)[:few])
        assert torch.equal(a.permutations(9), b.permutations(9)[:few])
        assert a.seeds() == b.seeds()[:few]


def test_streams_differ_between_members_and_purposes() -> None:
    draws = [Streams(0, 5, purpose).normal(4) for purpose in Purpose]
    rows = torch.cat(draws)
    assert len(rows.unique(dim=0)) == len(rows)


def test_uniform_draws_do_not_depend_on_how_they_are_cut() -> None:
    whole = Streams(5, 2, Purpose.NOISE).uniform(21)
    parts = Streams(5, 2, Purpose.NOISE)
    assert torch.equal(torch.cat([parts.uniform(7), parts.uniform(14)], dim=1), whole)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_views_of_a_copy_are_views_of_the_copy(duplicate: Any) -> None:
    parameters = Parameters([(2, 3), (2, 1, 4)])
    twin = duplicate(parameters)
    twin.values.fill_(7)
    assert all(bool((view == 7).all()) for view in twin.views)
    assert not parameters.values.any()
