"""Strict monotonicity on boxes: exact regions, sampled Jacobians, and boxes built by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from farfield.errors import InputError, UnsupportedOperation
from farfield.exact.local.intervals import Interval, IntervalDomain
from farfield.exact.local.monotonicity import check_monotonicity
from farfield.exact.local.region import linearize
from farfield.graph.program import walk
from oracles import Absolute, Pool, Residual
from small_networks import captured, dense

MODELS = {
    "relu": dense(0, 4, 6, 6, 3),
    "leaky": dense(1, 4, 6, 6, 3, act=lambda: nn.LeakyReLU(0.2)),
    "clamped": dense(2, 4, 6, 6, 2, act=nn.Hardtanh),
    "absolute": dense(3, 4, 6, 2, act=Absolute),
    "one logit": dense(4, 4, 6, 6, 1),
    "pooled": nn.Sequential(dense(5, 4, 6), Pool("max", 3), Residual(dense(6, 4, 4, 4))),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("radius", [0.02, 0.3, 3.0])
def test_answers_agree_with_sampled_jacobians(name, radius):
    network = captured(MODELS[name], 4)
    centre = torch.tensor([0.3, -0.2, 0.7, 0.1]).double()
    found = check_monotonicity(network, centre - radius, centre + radius, boxes=500)
    generator = torch.Generator().manual_seed(0)
    points = centre + radius * (2 * torch.rand(3000, 4, generator=generator).double() - 1)
    V = linearize(network, points).V[:, 1 if network.one_logit else 0 :]
    low, high = V.amin(dim=0), V.amax(dim=0)
    assert ((found.sign != 1) | (low > 0)).all()
    assert ((found.sign != -1) | (high < 0)).all()
    # What is refuted is so at the points that are given.
    for where, values in ((found.lowest_at, found.lowest), (found.highest_at, found.highest)):
        own = linearize(network, where.reshape(-1, 4)).V[:, 1 if network.one_logit else 0 :]
        own = own.reshape(*values.shape, *values.shape)
        picked = torch.einsum("cdcd->cd", own)
        torch.testing.assert_close(picked, values)
        assert ((where >= centre - radius) & (where <= centre + radius)).all()
    flat = (found.lowest == 0) | (found.highest == 0)
    assert (~found.broken | (found.lowest * found.highest < 0) | flat | (V == 0).any(dim=0)).all()
    if radius == 0.02:
        assert found.holds is not None


@pytest.mark.parametrize("name", MODELS)
def test_intervals_hold_every_value_and_derivative(name):
    network = captured(MODELS[name], 4)
    group = network.groups[0]
    generator = torch.Generator().manual_seed(1)
    low = torch.randn(10, 4, generator=generator).double()
    high = low + torch.rand(10, 4, generator=generator).double()
    basis = torch.eye(4).double()[:, None].expand(4, 10, 4)
    start = Interval(*(torch.cat([basis, end[None]]).reshape(-1, 4) for end in (low, high)))
    out = walk(group.program, IntervalDomain(4, 10, low), start, group.shared)
    bounds = [end.reshape(5, 10, -1) for end in (out.low, out.high)]
    shares = torch.rand(200, 10, 4, generator=generator).double()
    region = linearize(network, (low + shares * (high - low)).reshape(-1, 4))
    first = 1 if network.one_logit else 0
    derivatives = region.V[:, first:].reshape(200, 10, -1, 4).permute(0, 3, 1, 2)
    values = network.logits(region.x)[:, :, first:].reshape(200, 1, 10, -1)
    inside = torch.cat([derivatives, values], dim=1)
    assert (bounds[0] <= inside + 1e-12).all()
    assert (inside <= bounds[1] + 1e-12).all()


def test_two_inputs_are_settled_exactly():
    for seed in range(4):
        network = captured(dense(seed, 2, 8, 8, 3), 2)
        found = check_monotonicity(network, [-1.0, -1.0], [1.0, 1.0])
        assert not found.undecided.any()
        steps = torch.linspace(-0.999, 0.999, 100).double()
        V = linearize(network, torch.cartesian_prod(steps, steps)).V
        assert (found.lowest <= V.amin(dim=0) + 1e-12).all()
        assert (found.highest >= V.amax(dim=0) - 1e-12).all()


def test_a_kink_outside_the_box_is_no_kink():
    layer = nn.Linear(3, 2, dtype=torch.float64)
    layer.weight.data = torch.tensor([[1.0, 2.0, -3.0], [0.5, -1.0, -1.0]]).double()
    layer.bias.data = torch.tensor([7.0, 3.0]).double()
    network = captured(nn.Sequential(layer, nn.ReLU()), 3)
    inside = check_monotonicity(network, [-1.0, -1.0, -1.0], [1.0, 1.0, 1.0])
    assert inside.holds is True
    assert inside.sign.tolist() == [[1, 1, -1], [1, -1, -1]]
    # Both units die for large third inputs: the derivative is zero there.
    wider = check_monotonicity(network, [-1.0, -1.0, -1.0], [1.0, 1.0, 9.0])
    assert wider.holds is False
    assert wider.broken.all()


def test_undecided_is_said_when_the_budget_is_spent():
    network = captured(dense(0, 4, 16, 16, 3), 4)
    found = check_monotonicity(network, -0.3 * np.ones(4), 0.3 * np.ones(4), boxes=1)
    assert found.undecided.any()
    if not found.broken.any():
        assert found.holds is None


def test_bad_input_is_named():
    network = captured(dense(0, 3, 4, 2), 3)
    with pytest.raises(InputError, match="box is empty"):
        check_monotonicity(network, [0.0, 0.0, 0.0], [1.0, 0.0, 1.0])
    with pytest.raises(InputError, match="high holds NaN or infinite"):
        check_monotonicity(network, [0.0, 0.0, 0.0], [1.0, float("inf"), 1.0])
    with pytest.raises(UnsupportedOperation, match="monotonicity"):
        check_monotonicity(captured(dense(0, 3, 4, 2, act=nn.ELU), 3), np.zeros(3), np.ones(3))
