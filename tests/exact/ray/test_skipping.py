"""Skipping windows changes what a search costs, never what it finds."""

import functools
import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import farfield as ff
from farfield.errors import InputError
from farfield.exact.ray import skipping, stretches
from farfield.exact.ray.line import along, walks
from farfield.exact.ray.rays import rays_of
from farfield.exact.ray.stretches import first_reaching
from farfield.exact.ray.window_walk import WindowWalk
from line_oracle import exact_line
from oracles import Residual
from small_networks import mlp

INF = float("inf")


@functools.cache
def captured(kind, seed):
    torch.manual_seed(seed)
    if kind == "mlp":
        module, shape = mlp(3, 24, 24, 4, seed=seed), (3,)
    elif kind == "one logit":
        module, shape = mlp(3, 30, 20, 1, seed=seed), (3,)
    elif kind == "leaky":
        inner = nn.Sequential(nn.LeakyReLU(0.2), nn.Linear(20, 20), nn.Hardtanh(-1.0, 2.0))
        module, shape = nn.Sequential(nn.Linear(3, 20), Residual(inner), nn.Linear(20, 3)), (3,)
    else:
        parts = [nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3)]
        module = nn.Sequential(*parts, nn.ReLU(), nn.Flatten(), nn.Linear(4 * 2 * 2, 3))
        shape = (1, 8, 8)
    for parameter in module.parameters():
        parameter.data *= 1.5
    return ff.capture(module.double(), torch.zeros(1, *shape, dtype=torch.float64))


def ray_of(network, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, *network.input_shape, generator=generator, dtype=torch.float64)


@settings(max_examples=10, deadline=None)
@given(
    kind=st.sampled_from(["mlp", "one logit", "leaky", "image"]),
    seed=st.integers(0, 10_000),
    confidence=st.sampled_from([0.6, 0.9, 0.999, 1 - 1e-9]),
    stop=st.sampled_from([INF, 3.0]),
    box=st.sampled_from([None, ff.Box(-1.0, [1.5]), ff.Box(-0.5, INF)]),
)
def test_skipping_finds_what_following_finds(kind, seed, confidence, stop, box):
    network = captured(kind, seed % 3)
    origin, direction = ray_of(network, seed)
    arguments = (network, origin, direction, confidence, stop)
    plain = first_reaching(*arguments, box=box, leaving="project", skip=False)
    quick = first_reaching(*arguments, box=box, leaving="project", skip=True)
    assert quick.t == pytest.approx(plain.t, rel=1e-10)
    assert plain.skipped == 0
    assert plain.walked == 1
    assert quick.pieces <= plain.pieces + 2 * quick.walked


def test_rational_arithmetic_sees_nothing_earlier():
    module, confidence = mlp(2, 8, 8, 3, seed=3), 0.97
    network = ff.capture(module, torch.zeros(1, 2, dtype=torch.float64))
    found = 0
    for seed in range(6):
        origin, direction = ray_of(network, seed)
        result = first_reaching(network, origin, direction, confidence, skip=True)
        exact = exact_line(module, origin.tolist(), direction.tolist())
        for t, logits in zip(exact.breakpoints, exact.logits, strict=True):
            if float(t) < result.t * (1 - 1e-9):
                largest = max(map(float, logits))
                rest = sum(math.exp(float(z) - largest) for z in logits)
                assert 1 / rest < confidence
        if result.t < INF:
            found += 1
            point = origin + result.t * direction
            seen = float(network.probabilities(point[None])[0].amax())
            assert seen == pytest.approx(confidence, abs=1e-9) or result.t == 0
    assert found >= 2


class Spike(nn.Module):
    """A network that is unsure everywhere but in a tiny interval."""

    def __init__(self, place, width):
        super().__init__()
        self.rest = mlp(1, 20, 20, 2, seed=5)
        self.last = nn.Linear(2, 2, dtype=torch.float64)
        self.place, self.width = place, width

    def forward(self, x):
        rising = (x - self.place).relu() / self.width
        falling = (x - self.place - self.width).relu() * (2 / self.width)
        gone = (x - self.place - 2 * self.width).relu() / self.width
        spike = 12 * (rising - falling + gone)
        unsure = self.last(self.rest(x)).clamp(-1.0, 1.0)
        return unsure + torch.cat([spike, 0 * spike], dim=1)


@pytest.mark.parametrize(("place", "width"), [(0.01, 1e-3), (1.2345, 1e-7), (77.7, 1e-10)])
def test_a_planted_spike_is_never_skipped(place, width):
    network = ff.capture(Spike(place, width), torch.zeros(1, 1, dtype=torch.float64))
    result = first_reaching(network, [0.0], [1.0], 0.999, skip=True)
    assert place < result.t < place + width
    assert result.skipped > 0
    assert first_reaching(network, [0.0], [1.0], 0.999, place, skip=True).t == INF


def test_most_windows_are_skipped_far_from_the_goal():
    network = captured("mlp", 0)
    origin, direction = ray_of(network, 1)
    highest = float(along(network, origin, direction, 5.0).highest_confidence())
    plain = first_reaching(network, origin, direction, 0.5 + highest / 2, 5.0, skip=False)
    quick = first_reaching(network, origin, direction, 0.5 + highest / 2, 5.0, skip=True)
    assert plain.t == quick.t == INF
    assert quick.skipped > 0
    assert quick.pieces < plain.pieces
    assert quick.forward_passes > 0


def test_large_networks_skip_by_themselves(monkeypatch):
    network = captured("image", 0)
    origin, direction = ray_of(network, 2)
    program = network.groups[0].program
    assert stretches.kinks(program) == 4 * 8 * 8 + 4 * 4 * 4 + 4 * 2 * 2
    assert first_reaching(network, origin, direction, 0.9999).skipped == 0
    monkeypatch.setattr(stretches, "MANY_UNITS", 300)
    assert first_reaching(network, origin, direction, 0.9999).skipped > 0


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), confidence=st.sampled_from([0.7, 0.99, 0.99999]))
def test_margins_hold_on_dense_grids(seed, confidence):
    network = captured("mlp", seed % 3)
    origin, direction = ray_of(network, seed)
    rays = rays_of(network, origin, direction, INF, None, "stop")
    ((_, line),) = walks(network, None, 1 << 20)
    walk = WindowWalk(line.program, line.constants)
    skipper = skipping.Skipper(network, walk, rays, confidence)
    edges = 0.05 * (seed % 7) * torch.arange(5, dtype=torch.float64)
    with torch.no_grad():
        margins, apart, _ = skipper._look(edges)
    assert bool((apart >= margins - 1e-9).all())
    goal = math.log(confidence / (1 - confidence))
    for window, (low, high) in enumerate(pairwise(edges.tolist())):
        t = torch.linspace(low, high, 200, dtype=torch.float64)
        logits = network.logits(origin + t[:, None] * direction)[0]
        gaps = logits[:, None, :] - logits[:, :, None]
        gaps = gaps.masked_fill(torch.eye(logits.shape[1], dtype=torch.bool), -INF)
        highest = -float(torch.logsumexp(gaps, dim=2).amin())
        assert goal - highest >= float(margins[window]) - 1e-9


def test_rays_of_no_length_and_of_one_piece():
    network = captured("mlp", 0)
    origin, direction = ray_of(network, 4)
    own = float(network.probabilities(origin[None])[0].amax())
    assert first_reaching(network, origin, direction, own - 1e-6, 0.0, skip=True).t == 0
    assert first_reaching(network, origin, direction, own + 1e-6, 0.0, skip=True).t == INF
    flat = ff.capture(nn.Linear(3, 2).double(), torch.zeros(1, 3, dtype=torch.float64))
    plain = first_reaching(flat, origin, direction, 0.9, skip=False)
    assert first_reaching(flat, origin, direction, 0.9, skip=True).t == plain.t < INF


def test_skipping_needs_plain_single_precision(monkeypatch):
    network = captured("image", 0)
    origin, direction = ray_of(network, 2)
    monkeypatch.setattr(stretches, "MANY_UNITS", 300)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "medium")
    assert first_reaching(network, origin, direction, 0.9999).skipped == 0
    with pytest.raises(InputError, match="plain single precision"):
        first_reaching(network, origin, direction, 0.9999, skip=True)


def test_where_clipped_rays_come_to_rest():
    network = captured("mlp", 0)
    box = ff.Box([-1.0, -INF, 0.0], [1.0, INF, INF])
    rays = rays_of(network, [0.0, 2.0, -3.0], [2.0, 1.0, 0.5], INF, box, "project")
    origin, direction, past = skipping._clipped(rays.clip, rays.origins, rays.directions)
    assert origin.tolist() == [[1.0, 2.0, -3.0]]
    assert direction.tolist() == [[0.0, 1.0, 0.5]]
    assert past == 6.0
    still = rays_of(network, [0.0, 0.5, 0.5], [2.0, 1.0, 0.5], INF, ff.Box(0.0, 1.0), "project")
    assert skipping.settled(network, still) == 1.0
    assert skipping.settled(network, rays_of(network, *ray_of(network, 0), 2.0, None, "stop")) == 2


def skipper():
    """A search that has seen nothing yet."""
    network = captured("mlp", 0)
    rays = rays_of(network, *ray_of(network, 1), INF, None, "stop")
    ((_, walk),) = walks(network, None, stretches.BUDGET)
    windows = WindowWalk(walk.program, walk.constants, None)
    return skipping.Skipper(network, windows, rays, 0.999)


@pytest.mark.parametrize("kinks", [0.0, 5.0, 500.0])
def test_rays_end_however_often_bounds_fail(monkeypatch, kinks):
    # Rounding alone can leave a unit open: then no window is short enough.
    def hopeless(self, edges):
        count = len(edges) - 1
        return torch.full((count,), -0.03), torch.full((count,), 0.004), torch.full((count,), kinks)

    monkeypatch.setattr(skipping.Skipper, "_look", hopeless)
    search, low, rounds = skipper(), 0.0, 0
    while low < 1e6:
        low = search.advance(low, 1e6)
        rounds += 1
    assert rounds < 80
    assert search.skipped == 0


@pytest.mark.parametrize("floor", [0.0, 0.2, 0.25, 0.3])
def test_windows_stay_wide_where_narrow_ones_are_no_better(monkeypatch, floor):
    # Of a distance of 0.319, bounds take a part whatever the width, and a part with its square.
    looks = []

    def bounded(self, edges):
        width = float(edges[1] - edges[0])
        looks.append(width)
        count = len(edges) - 1
        apart = torch.full((count,), 0.319, dtype=torch.float64)
        return apart - floor - (width / 10) ** 2, apart, torch.full((count,), 40.0)

    monkeypatch.setattr(skipping.Skipper, "_look", bounded)
    search = skipper()
    assert search.advance(0.0, 1000.0) == 1000.0
    # Windows of width 1 would do for any of these; there are eight in a look.
    assert len(looks) < 250
