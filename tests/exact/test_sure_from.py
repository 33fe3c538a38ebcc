"""From where on a class is there for good: planted answers, dense grids, and honest bounds."""

import dataclasses
import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import farfield as ff
from line_oracle import exact_line
from oracles import Absolute, Pool, Residual
from small_networks import captured, dense, mlp

LOG999 = math.log(999)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()


def winning(network, far, origin, direction, t):
    """The probability of each ray's last class at ``t`` of shape ``(places, rays)``."""
    rows = origin + t[..., None] * direction
    p = network.probabilities(rows.reshape(-1, rows.shape[-1]))
    p = p.reshape(network.instances, *t.shape, -1)
    return p.gather(-1, far.winner[:, None, :, None].expand(*p.shape[:-1], 1))[..., 0]


class Bump(nn.Module):
    """One logit, ``20 - depth * hat((x - place) / width)``: sure but for one narrow dip."""

    def __init__(self, place, width, depth, late=0.0):
        super().__init__()
        self.place, self.width, self.depth, self.late = place, width, depth, late

    def forward(self, x):
        u = (x - self.place) / self.width
        hat = torch.relu(u + 1) - 2 * torch.relu(u) + torch.relu(u - 1)
        # A unit that settles late and changes nothing.
        late = 0.0 * torch.relu(x - self.late)
        return 20 - self.depth * hat + late


@pytest.mark.parametrize(
    ("place", "width"), [(5.0, 1e-6), (80.0, 1.0), (0.25, 0.125), (900.0, 3.0)]
)
def test_a_planted_dip_is_found_however_narrow(place, width):
    network = captured(Bump(place, width, depth=16.0, late=1000.0), 1)
    far = ff.at_infinity(network, [0.0], [1.0])
    assert far.reach.item() == 1000.0
    # 20 - 16 hat(u) = log 999 on the way out of the dip.
    expected = place + width * (1 - (20 - LOG999) / 16)
    found = far.sure_from(0.999)
    assert found.t.item() == pytest.approx(expected, rel=1e-12)
    assert found.exact.item()
    assert far.distance(0.999).item() == found.t.item()


def test_a_class_that_was_there_all_along_has_distance_zero():
    network = captured(Bump(5.0, 1.0, depth=2.0, late=1000.0), 1)
    far = ff.at_infinity(network, [0.0], [1.0])
    assert far.sure_from(0.999).t.item() == 0.0
    assert far.sure_from(0.999).exact.item()


def test_the_place_lies_beyond_the_reach_where_the_class_is_still_lost_there():
    layer = nn.Linear(1, 2, dtype=torch.float64)
    layer.weight.data = torch.tensor([[1.0], [0.0]]).double()
    layer.bias.data = torch.tensor([-140.0, 0.0]).double()
    network = captured(nn.Sequential(nn.ReLU(), layer), 1)
    far = ff.at_infinity(network, [-21.5], [1.0])
    assert far.reach.item() == 21.5
    assert far.final_from().t.item() == pytest.approx(161.5)
    assert far.distance(0.999).item() == pytest.approx(161.5 + LOG999)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    confidence=st.sampled_from([0.4, 0.9, 0.999, 1 - 1e-9]),
    gain=st.floats(0.3, 3.0),
    classes=st.integers(2, 5),
)
def test_before_the_place_too_little_and_never_after(seed, confidence, gain, classes):
    network = captured(mlp(3, 12, 12, classes, seed=seed, gain=gain), 3)
    origin, direction = normal(10, 3, seed=seed), normal(10, 3, seed=seed + 1)
    far = ff.at_infinity(network, origin, direction)
    found = far.sure_from(confidence)
    assert found.exact.all()
    t = found.t[0]
    finite = torch.isfinite(t)
    limit = far.probabilities.amax(-1)[0]
    assert torch.equal(finite, limit >= confidence)
    top = torch.where(finite, torch.maximum(t, far.reach[0]), 1.0) * 1.5 + 1.0
    low = torch.where(finite, t, 0.0)
    share = torch.linspace(0, 1, 2001, dtype=torch.float64)[1:, None]
    after = winning(network, far, origin, direction, low + share**3 * (top - low))[0]
    assert (after[:, finite] >= confidence - 1e-9).all()
    some = finite & (t > 0)
    at = winning(network, far, origin, direction, low[None])[0, 0]
    torch.testing.assert_close(at[some], torch.full_like(at[some], confidence), atol=1e-9, rtol=0)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_every_rational_breakpoint_beyond_the_final_class_keeps_it(seed):
    parts = dense(seed, 2, 6, 6, 3)
    model = nn.Sequential(*parts[:2], Pool("max", 2), Residual(Absolute()), nn.Linear(5, 3))
    model = model.double()
    origin, direction = normal(1, 2, seed=seed), normal(1, 2, seed=seed + 1)
    network = captured(model, 2)
    far = ff.at_infinity(network, origin, direction)
    final = far.final_from()
    assert final.exact.all()
    line = exact_line(model, origin[0].tolist(), direction[0].tolist())
    winner, t = int(far.winner), Fraction(float(final.t))
    start = network.logits(origin)[0, 0].tolist()
    places = [Fraction(0), *line.breakpoints]
    logits = [list(map(Fraction, start)), *line.logits]
    # On a piece the leader at both ends leads throughout: the last loss is found by hand.
    last = Fraction(0)
    for place, values, slopes in zip(places, logits, line.slopes, strict=True):
        end = next((other for other in places if other > place), None)
        for other in range(3):
            gap = values[other] - values[winner]
            growth = slopes[other] - slopes[winner]
            crossing = place - gap / growth if growth else None
            if gap > 0 and growth < 0 and (end is None or crossing <= end):
                last = max(last, crossing)
            elif gap > 0 and end is not None:
                last = max(last, end)
    assert float(last) == pytest.approx(float(t), rel=1e-9, abs=1e-9)


def test_jointly_the_last_instance_decides():
    models = [mlp(2, 10, 10, 2, seed=seed) for seed in range(4)]
    network = ff.capture(models, torch.zeros(1, 2, dtype=torch.float64))
    origin, direction = normal(60, 2), normal(60, 2, seed=1)
    far = ff.at_infinity(network, origin, direction)
    found = far.sure_from(0.95)
    for index, model in enumerate(models):
        alone = ff.at_infinity(captured(model, 2), origin, direction).distance(0.95)[0]
        torch.testing.assert_close(found.t[index], alone)
    joint = found.jointly
    assert torch.equal(joint.t, found.t.amax(dim=0))
    assert joint.exact.all()
    finite = torch.isfinite(joint.t)
    later = torch.where(finite, joint.t, 0.0)[None] * (1 + 1e-9)
    assert (winning(network, far, origin, direction, later)[:, 0, finite] >= 0.95 - 1e-9).all()


def test_what_does_not_fit_the_budget_is_a_bound_and_says_so():
    network = captured(mlp(4, 40, 40, 3, seed=1), 4)
    far = ff.at_infinity(network, normal(30, 4), normal(30, 4, seed=1))
    exact = far.sure_from(0.99)
    assert exact.exact.all()
    for budget in (0, 2e5, 5e5):
        bound = far.sure_from(0.99, budget=budget)
        assert not bound.exact.all()
        assert (bound.t >= exact.t * (1 - 1e-12)).all()
        torch.testing.assert_close(bound.t[bound.exact], exact.t[bound.exact])
    untouched = far.sure_from(0.99, budget=0)
    rest = ~untouched.exact
    assert torch.equal(untouched.t[rest], far.reach[rest])


def test_a_far_field_without_its_rays_knows_bounds_only():
    network = captured(mlp(2, 10, 10, 2, seed=3), 2)
    far = ff.at_infinity(network, normal(50, 2), normal(50, 2, seed=1))
    bare = dataclasses.replace(far, rays=None).sure_from(0.9)
    full = far.sure_from(0.9)
    assert not bare.exact.all()
    assert (bare.t >= full.t).all()
    torch.testing.assert_close(bare.t[bare.exact], full.t[bare.exact])


class Jump(nn.Module):
    def forward(self, x):
        return 5 * nn.functional.threshold(x - 3, 0.0, -20.0) + 30 * torch.relu(x)


class SettledCurve(nn.Module):
    """A smooth activation of something that ends: the reach is finite, pieces there are none."""

    def forward(self, x):
        return 20 * torch.relu(x) + torch.sigmoid(torch.relu(3 - x))


def test_a_class_that_is_found_again_by_a_jump():
    """-10 up to 3, and 90 behind it."""
    far = ff.at_infinity(captured(Jump(), 1), [0.0], [1.0])
    for found in (far.sure_from(0.999), far.final_from()):
        assert found.t.item() == far.reach.item() == 3.0
        assert found.exact.item()


def test_rays_that_cannot_be_walked_give_bounds():
    far = ff.at_infinity(captured(SettledCurve(), 1), [0.0], [1.0])
    found = far.sure_from(0.999)
    assert found.t.item() == far.reach.item() == 3.0
    assert not found.exact.item()
    assert not far.final_from().exact.item()


def test_smooth_activations_have_bounds():
    network = captured(dense(0, 2, 8, 3, act=nn.GELU), 2)
    origin, direction = normal(20, 2), normal(20, 2, seed=1)
    far = ff.at_infinity(network, origin, direction)
    found = far.sure_from(0.6)
    assert torch.isfinite(found.t).all()
    assert not found.exact.any()
    beyond = found.t[0] * torch.logspace(0, 4, 50).double()[:, None]
    assert bool((winning(network, far, origin, direction, beyond) >= 0.6).all())
    assert bool((far.final_from().t <= found.t).all())
    # Without work there are no bounds.
    assert torch.isnan(far.sure_from(0.6, budget=0.0).t).all()


def test_single_precision_networks_are_walked_in_double():
    model = mlp(3, 20, 20, 3, seed=5)
    origin, direction = normal(40, 3), normal(40, 3, seed=1)
    double = ff.at_infinity(captured(model, 3), origin, direction).sure_from(0.99)
    network = ff.capture(model.float(), torch.zeros(1, 3), dtype=torch.float32)
    single = ff.at_infinity(network, origin.float(), direction.float()).sure_from(0.99)
    assert single.t.dtype == torch.float32
    assert single.exact.all()
    torch.testing.assert_close(single.t.double(), double.t, rtol=1e-3, atol=1e-3)


def test_numbers_that_overflow_before_the_reach_leave_a_bound():
    first, second = nn.Linear(1, 2).double(), nn.Linear(2, 2).double()
    first.weight.data = torch.tensor([[1.0], [1e-200]], dtype=torch.float64)
    first.bias.data = torch.tensor([0.0, -1e50], dtype=torch.float64)
    second.weight.data = torch.tensor([[1e100, 1e200], [0.0, 0.0]], dtype=torch.float64)
    second.bias.data.zero_()
    network = captured(nn.Sequential(first, nn.ReLU(), second), 1)
    far = ff.at_infinity(network, [0.0], [1.0])
    found = far.sure_from(0.999)
    assert found.t.item() <= far.reach.item() == pytest.approx(1e250)
    assert not found.exact.item()
