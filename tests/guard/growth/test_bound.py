"""Bounds must hold for every pair of inputs: no sampled pair may beat one."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import farfield as ff
from farfield.errors import InputError
from farfield.guard.growth.bound import bound_growth
from farfield.guard.growth.cones import bound_by_cones
from farfield.guard.whitening import fit_whitening

DOUBLE = 2.0**-53


def metric_of(columns, kind="full", seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(200, columns)) @ rng.normal(size=(columns, columns)) + 1.0
    return fit_whitening(rows, kind)


def steepest(network, metric, scales=(0.1, 1.0, 10.0, 1000.0)):
    """The largest slope of a difference of logits that sampled points and pairs show."""
    generator = torch.Generator().manual_seed(3)
    back, _ = metric.inverse()
    shape = network.input_shape
    found = 0.0
    for scale in scales:
        u = torch.randn(2, 400, len(metric.mean), generator=generator, dtype=torch.float64) * scale
        z = [network.logits((each @ back + metric.mean).reshape(-1, *shape)) for each in u]
        gaps = [each[..., :, None] - each[..., None, :] for each in z]
        change = (gaps[0] - gaps[1]).abs().amax(dim=(-2, -1)) / (u[0] - u[1]).norm(dim=1)
        found = max(found, float(change.max()))
        # Short steps see the gradient.
        step = 1e-6 * torch.nn.functional.normalize(u[1], dim=1)
        near = network.logits(((u[0] + step) @ back + metric.mean).reshape(-1, *shape))
        gap = near[..., :, None] - near[..., None, :] - gaps[0]
        found = max(found, float((gap.abs().amax(dim=(-2, -1)) / 1e-6).max()) * (1 - 1e-5))
    return found


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.integers(1, 4), st.lists(st.integers(1, 12), max_size=3), st.integers(2, 4), st.integers(0)
)
def test_no_pair_of_inputs_beats_the_bound(quick, inputs, hidden, classes, seed):
    network = ff.capture(quick(inputs, *hidden, classes, seed=seed % 2**31))
    metric = metric_of(inputs)
    growth = bound_growth(network, metric, DOUBLE)
    assert steepest(network, metric) <= growth.slope
    assert bound_growth(network, metric, DOUBLE, room=0).slope >= growth.slope * (1 - 1e-6)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 6)
        self.slopes, self.last = nn.PReLU(6), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.slopes(x + self.second(torch.relu(self.first(x))) - 0.5 * x))


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.second, self.last = nn.Conv2d(4, 6, 3, stride=2, groups=2), nn.Linear(6, 3)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.norm(self.first(x))), 3, stride=2, padding=1)
        x = torch.cat([torch.nn.functional.leaky_relu(self.second(x), 0.1)], dim=1)
        return self.last(x.mean(dim=(2, 3)))


SMOOTH = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
CLIPPED = nn.Sequential(
    nn.Linear(6, 8), nn.ReLU6(), nn.Linear(8, 8), nn.Hardtanh(), nn.Linear(8, 2)
)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (Residual(), (6,)),
        (Pooled().eval(), (1, 9, 9)),
        (SMOOTH, (6,)),
        (CLIPPED, (6,)),
        (nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1)), (6,)),
        (nn.Linear(6, 3), (6,)),
    ],
    ids=["residual", "pooled", "smooth", "clipped", "one logit", "linear"],
)
@pytest.mark.parametrize("room", [1 << 22, 0])
def test_other_operations_are_bounded_too(model, shape, room):
    network = ff.capture(model, torch.zeros(1, *shape))
    metric = metric_of(int(np.prod(shape)), "diagonal")
    growth = bound_growth(network, metric, DOUBLE, room=room)
    worst = steepest(network, metric)
    assert 0 < worst <= growth.slope < 1e4 * worst


def test_a_linear_model_is_bounded_exactly():
    layer = nn.Linear(3, 2, dtype=torch.float64)
    metric = metric_of(3)
    network = ff.capture(layer, torch.zeros(1, 3))
    growth = bound_growth(network, metric, DOUBLE)
    back, _ = metric.inverse()
    exact = float((back @ (layer.weight[0] - layer.weight[1]).detach()).norm())
    at_mean = layer(metric.mean).detach()
    assert growth.slope == pytest.approx(exact, rel=1e-6)
    assert growth.offset == pytest.approx(float((at_mean[0] - at_mean[1]).abs()), rel=1e-6)


def test_single_precision_is_allowed_for(mlp):
    model, metric = mlp(5, 32, 32, 3), metric_of(5)
    network = ff.capture(model, torch.zeros(1, 5))
    growth = bound_growth(network, metric, 2.0**-24)
    back, _ = metric.inverse()
    u = torch.randn(500, 5, dtype=torch.float64) * torch.logspace(-2, 6, 500)[:, None].double()
    rows = (u @ back + metric.mean).float()
    with torch.no_grad():
        own, exact = model(rows).double(), network.logits(rows.double())[0]
    gaps = [z[:, :, None] - z[:, None, :] for z in (own, exact)]
    off = (gaps[0] - gaps[1]).abs().amax(dim=(1, 2))
    units = metric.apply(rows.double()).norm(dim=1)
    assert bool((off <= growth.error_offset + growth.error_slope * units).all())


def test_an_ensemble_grows_like_its_fastest_member(quick):
    members = [quick(4, 8, 3, seed=seed) for seed in range(3)]
    metric = metric_of(4)
    each = [bound_growth(ff.capture(m), metric, DOUBLE).slope for m in members]
    together = bound_growth(ff.capture(members), metric, DOUBLE)
    assert together.slope == pytest.approx(max(each))


def test_jumps_have_no_bound():
    model = nn.Sequential(nn.Linear(2, 4), nn.Threshold(0.5, 0.0), nn.Linear(4, 2))
    network = ff.capture(model, torch.zeros(1, 2))
    with pytest.raises(InputError, match="jumps"):
        bound_growth(network, metric_of(2), DOUBLE)


@pytest.mark.parametrize("inputs", [1, 2, 3])
def test_cones_bound_every_direction(quick, inputs):
    network = ff.capture(quick(inputs, 12, 12, 3))
    metric = metric_of(inputs)
    lipschitz = bound_growth(network, metric, DOUBLE)
    cones = bound_by_cones(network, metric, lipschitz)
    assert cones is not None
    assert cones.slope <= lipschitz.slope
    back, _ = metric.inverse()
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(4000, inputs, generator=generator, dtype=torch.float64)
    far = ff.at_infinity(network, metric.mean, u @ back)
    slopes = (far.slope.amax(dim=-1) - far.slope.amin(dim=-1))[0] / u.norm(dim=1)
    assert float(slopes.max()) <= cones.slope
    if inputs < 3:
        assert cones.slope <= 1.05 * float(slopes.max())
    u = u * torch.logspace(-2, 4, 4000)[:, None].double()
    z = network.logits(u @ back + metric.mean)[0]
    gap = z.amax(dim=1) - z.amin(dim=1)
    assert bool((gap <= cones.offset + cones.slope * u.norm(dim=1)).all())


def test_cones_are_for_few_inputs_and_affine_pieces(quick):
    metric = metric_of(2)
    smooth = ff.capture(
        nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2)), torch.zeros(1, 2)
    )
    growth = bound_growth(smooth, metric, DOUBLE)
    assert bound_by_cones(smooth, metric, growth) is None
    wide = ff.capture(quick(9, 4, 2))
    metric = metric_of(9)
    assert bound_by_cones(wide, metric, bound_growth(wide, metric, DOUBLE)) is None
