"""Objectives on networks small enough to work out by hand."""

import pytest
import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.networks.streams import Purpose, Streams
from farfield.objectives import (
    NLL,
    Adversarial,
    Batch,
    MemberNetwork,
    VirtualAdversarial,
    name_of,
    resolve,
)
from farfield.objectives.likelihood import Categorical, Squared

NOISE = Streams(0, 2, Purpose.NOISE)
ZERO, ONE = torch.zeros(1), torch.ones(1)


def linear(weights: Tensor) -> MemberNetwork:
    """Members ``x -> w x``."""
    return lambda inputs, *, training=True: inputs @ weights.unsqueeze(-1)


def batch(inputs: Tensor, targets: Tensor, spread: Tensor) -> Batch:
    weights = torch.full(inputs.shape[:2], 1 / inputs.shape[1])
    return Batch(inputs, targets, weights, torch.zeros_like(spread), spread, Squared())


def test_nll_is_the_weighted_mean_of_the_rows() -> None:
    inputs, targets = torch.tensor([[[1.0], [2.0]]]), torch.tensor([[[0.0], [0.0]]])
    rows = Batch(inputs, targets, torch.tensor([[0.25, 0.75]]), ZERO, ONE, Squared())
    loss = NLL()(linear(torch.tensor([[2.0]])), rows, NOISE)
    assert loss.tolist() == [0.25 * 4 + 0.75 * 16]


def test_adversarial_moves_each_feature_by_its_range_up_the_loss() -> None:
    weights = torch.tensor([[2.0, -3.0], [1.0, 1.0]])
    inputs = torch.tensor([[[1.0, 0.0]], [[0.0, 0.0]]])
    targets = torch.tensor([[[0.0]], [[5.0]]])
    spread = torch.tensor([10.0, 1.0])
    loss = Adversarial(epsilon=0.1)(linear(weights), batch(inputs, targets, spread), NOISE)
    # Member 0: residual 2 > 0, so x moves by (+1, -0.1): output 2 * 2 + 0.3. Member 1: residual
    # -5 < 0, x moves by (-1, -0.1): output -1.1.
    expected = [(2.0**2 + 4.3**2) / 2, (5.0**2 + 6.1**2) / 2]
    assert loss.tolist() == pytest.approx(expected)


def test_adversarial_gradient_treats_the_perturbation_as_constant() -> None:
    weights = torch.tensor([[2.0]], requires_grad=True)
    rows = batch(torch.tensor([[[1.0]]]), torch.tensor([[[0.0]]]), torch.ones(1))
    loss = Adversarial(epsilon=0.5)(linear(weights), rows, NOISE)
    (slope,) = torch.autograd.grad(loss.sum(), weights)
    # d/dw of (w^2 + (1.5 w)^2) / 2 at w = 2.
    assert slope.item() == pytest.approx((1 + 2.25) * 2)


def test_virtual_adversarial_finds_the_worst_direction_without_labels() -> None:
    weights = torch.tensor([[3.0, 4.0], [1.0, 0.0]])
    inputs = torch.zeros(2, 6, 2)
    objective = VirtualAdversarial(epsilon=0.5, weight=2.0)
    rows = batch(inputs, torch.zeros(2, 6, 1), torch.ones(2))
    network = linear(weights)
    smooth = objective.smoothness(network, rows, Streams(0, 2, Purpose.NOISE), network(inputs))
    # KL of unit normals is half the squared distance; the worst direction is w / |w|.
    assert smooth.tolist() == pytest.approx([0.5 * (0.5 * 5) ** 2, 0.5 * 0.5**2], rel=1e-4)
    other = batch(inputs, torch.full((2, 6, 1), 9.0), torch.ones(2))
    again = objective.smoothness(network, other, Streams(0, 2, Purpose.NOISE), network(inputs))
    assert torch.equal(smooth, again)
    total = objective(network, rows, Streams(0, 2, Purpose.NOISE))
    assert total.tolist() == pytest.approx((2 * smooth).tolist())


def test_virtual_adversarial_survives_a_flat_network() -> None:
    network = linear(torch.zeros(2, 2))
    rows = batch(torch.zeros(2, 3, 2), torch.zeros(2, 3, 1), torch.ones(2))
    assert VirtualAdversarial()(network, rows, NOISE).tolist() == [0, 0]


def test_draws_in_front_are_averaged() -> None:
    rows = Batch(
        torch.zeros(1, 2, 1),
        torch.eye(2)[None],
        torch.full((1, 2), 0.5),
        ZERO,
        ONE,
        Categorical(2),
    )
    outputs = torch.randn(5, 1, 2, 2)
    each = torch.stack([rows.loss(draw) for draw in outputs])
    torch.testing.assert_close(rows.loss(outputs), each.mean(0))


def test_names() -> None:
    assert resolve("nll") == NLL()
    custom = Adversarial(epsilon=0.3)
    assert resolve(custom) is custom
    assert name_of(custom) == "adversarial"
    with pytest.raises(InputError, match="'fast'"):
        resolve("fast")
