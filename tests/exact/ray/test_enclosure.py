"""Enclosures over windows hold everything that a dense grid sees, for every operation."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import farfield as ff
from campaigns.drawing import INPUTS, name_of, template
from farfield.errors import UnsupportedOperation
from farfield.exact.piecewise import require_piecewise_affine
from farfield.exact.ray.bend import Bend
from farfield.exact.ray.enclosure import Enclosure
from farfield.exact.ray.enclosure_domain import EnclosureDomain
from farfield.exact.ray.line import walks
from farfield.exact.ray.remainder import _beside
from farfield.exact.ray.window_walk import WindowWalk
from farfield.graph.activations import RELU
from farfield.graph.rules import RULES
from rule_cases import CASES, EXTRA

SHARES = torch.linspace(0, 1, 33, dtype=torch.float64)
# Edges of windows, and how much they may lose: none, narrow ones, and wide ones.
WINDOWS = (
    ((0.0, 0.0, 1e-3, 2e-3, 0.2, 0.4), 0.0),
    ((0.0, 0.2, 0.4, 0.6), 0.5),
    ((0.0, 3.0, 6.0, 9.0), 1e9),
)
SIDES = torch.tensor([1.0, 2.0, 4.0, 8.0], dtype=torch.float64)


def operations():
    """The operations that compute, around which the rule table itself is tested.

    Of those that only move values, the one that treats a single row differently from several.
    """
    computes = ("affine", "piecewise affine", "largest")
    moved = torch.ops.aten.squeeze.default
    cases = [each for each in CASES if RULES[each].kind in computes or each is moved]
    return [*cases, *EXTRA]


def window_walk(network, clip=None):
    ((_, line),) = walks(network, clip, 1 << 20)
    return WindowWalk(line.program, line.constants, clip)


def check(enclosure, values, slack=1e-12):
    """Values ``(windows, samples, *row)`` lie inside, and so do differences of two units."""
    count = len(enclosure.box)
    for window in range(count):
        start, stop = enclosure.ends[:, window]
        share = SHARES.reshape(-1, *[1] * start.ndim)
        chord = torch.lerp(start, stop, share)
        radius = (enclosure.mass + enclosure.box)[window].double()
        off = (values[window] - chord).abs()
        assert bool((off <= radius + slack * (1 + chord.abs())).all())
        waves = enclosure.whole().old
        own = waves.parts[waves.window == window].flatten(1).double()
        apart = (own[:, None, :2] - own[:, :2, None]).abs().sum(dim=0)
        box = enclosure.box[window].flatten()[:2].double()
        apart = apart + box[None] + box[:, None]
        gap = (values[window] - chord).flatten(1)[:, :2]
        gap = (gap[:, None, :] - gap[:, :, None]).abs()
        assert bool((gap <= apart * (1 + 1e-3) + slack * (1 + chord.abs().amax())).all())


def check_remainder(walk, enclosure, values, slack=1e-12):
    """What slopes miss, walked back, is all that outputs are away from their chords."""
    remainder = walk.domain.remainder
    effects, bounds, lost = remainder.effects()
    left = bounds @ effects.abs().T + lost
    for window, course in enumerate(remainder.courses()):
        start, stop = enclosure.ends[:, window].flatten(1)
        after = torch.searchsorted(course.places, SHARES).clamp(1, len(course.places) - 1)
        low, high = course.places[after - 1], course.places[after]
        share = ((SHARES - low) / (high - low).clamp(min=1e-300))[:, None]
        known = torch.lerp(course.values[after - 1], course.values[after], share)
        chord = torch.lerp(start, stop, SHARES[:, None])
        off = (values[window].flatten(1) - chord - known).abs()
        assert bool((off <= left[window] * (1 + 1e-9) + slack * (1 + chord.abs())).all())


def sampled(network, origin, direction, edges, clip=None):
    """Logits on dense grids of windows, ``(windows, samples, classes)``."""
    t = torch.lerp(edges[:-1, None], edges[1:, None], SHARES)
    points = origin + t.reshape(-1, *[1] * (origin.ndim - 1)) * direction
    if clip is not None:
        points = torch.clamp(points, *clip)
    return network.logits(points)[0].reshape(len(edges) - 1, len(SHARES), -1)


def enclosed(walk, origin, direction, edges, tolerance):
    points = origin + edges.reshape(-1, *[1] * (origin.ndim - 1)) * direction
    with torch.no_grad():
        if tolerance > 0 and not walk.weights:
            walk.enclose(points[:1].repeat(2, *[1] * (points.ndim - 1)), 0.0)
            walk.learn()
        return walk.enclose(torch.cat([points[:-1], points[1:]]), tolerance)


@pytest.mark.parametrize("target", operations(), ids=name_of)
def test_every_operation_is_enclosed(target):
    """Rays end at the sides of a box, one feature after the other: kinks before the operation."""
    _, network = template(name_of(target))
    try:
        require_piecewise_affine(network, "a window", continuous=True)
    except UnsupportedOperation:
        return
    walk = window_walk(network, Bend.clip(-SIDES, SIDES))
    direction = torch.randn(1, INPUTS, dtype=torch.float64)
    origin = torch.randn(1, INPUTS, dtype=torch.float64)
    for places, tolerance in WINDOWS:
        edges = torch.tensor(places, dtype=torch.float64)
        result = enclosed(walk, origin, direction, edges, tolerance)
        values = sampled(network, origin, direction, edges, (-SIDES, SIDES))
        check(result, values)
        if walk.domain.remainder is not None:
            check_remainder(walk, result, values)
        if tolerance == 0:
            # A window of no width is a point: nothing but rounding is left.
            off, size = (result.mass + result.box)[0], result.chord[:, 0].abs()
            assert float(off.max()) < 1e-10 * (1 + float(size.max()))


class Unit(nn.Module):
    """A residual unit with a stride, a shortcut that is averaged, and new channels."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.stride, self.more = stride, outputs - inputs

    def forward(self, x):
        active = F.relu(x)
        edge = (0, 1, 0, 1) if self.stride == 2 else (1, 1, 1, 1)
        branch = self.second(F.relu(self.norm(self.first(F.pad(active, edge)))))
        short = F.avg_pool2d(active, 2) if self.stride == 2 else x
        return F.pad(short, (0, 0, 0, 0, self.more // 2, self.more - self.more // 2)) + branch


def residual_network(seed=0):
    torch.manual_seed(seed)
    units = [nn.Conv2d(1, 3, 3, padding=1), Unit(3, 3, 1), Unit(3, 3, 1), Unit(3, 5, 2)]
    module = nn.Sequential(*units, Unit(5, 5, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    module = nn.Sequential(module, nn.Linear(5, 3)).double().eval()
    for name, buffer in module.named_buffers():
        if "running" in name:
            buffer.copy_(torch.rand_like(buffer) + 0.2)
    for parameter in module.parameters():
        parameter.data *= 1.7
    return ff.capture(module, torch.zeros(1, 1, 16, 16, dtype=torch.float64))


@pytest.fixture(scope="module")
def network():
    return residual_network()


@settings(max_examples=4, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    width=st.sampled_from([1e-4, 0.01, 0.1]),
    tolerance=st.sampled_from([0.0, 0.3, 30.0]),
    clipped=st.booleans(),
)
def test_residual_networks_on_images_are_enclosed(network, seed, width, tolerance, clipped):
    generator = torch.Generator().manual_seed(seed)
    origin, direction = torch.randn(2, 1, 1, 16, 16, generator=generator, dtype=torch.float64)
    low, high = -torch.rand(2, 1, 16, 16, generator=generator, dtype=torch.float64)
    clip = Bend.clip(low, -high) if clipped else None
    walk = window_walk(network, clip)
    edges = 0.3 + width * torch.arange(4, dtype=torch.float64)
    result = enclosed(walk, origin, direction, edges, tolerance)
    values = sampled(network, origin, direction, edges, (low, -high) if clipped else None)
    check(result, values)
    if tolerance > 0:
        check_remainder(walk, result, values)


def test_remainders_that_are_walked_back_are_of_third_order(network):
    generator = torch.Generator().manual_seed(3)
    origin, direction = torch.randn(2, 1, 1, 16, 16, generator=generator, dtype=torch.float64)
    spent = []
    for width in (4e-3, 1e-3):
        walk = window_walk(network)
        enclosed(walk, origin, direction, 0.3 + width * torch.arange(5).double(), 1e-3)
        effects, bounds, _ = walk.domain.remainder.effects()
        spent.append(float((bounds @ effects.abs().T).mean()))
    assert spent[1] < spent[0] / 20


def test_slopes_of_long_ago_still_bound_what_they_miss(network):
    generator = torch.Generator().manual_seed(4)
    origin, direction = torch.randn(2, 1, 1, 16, 16, generator=generator, dtype=torch.float64)
    walk = window_walk(network)
    enclosed(walk, origin, direction, torch.tensor([0.0, 1e-3]).double(), 0.1)
    edges = 2.0 + 0.01 * torch.arange(3, dtype=torch.float64)
    points = origin + edges.reshape(-1, 1, 1, 1) * direction
    with torch.no_grad():
        result = walk.enclose(torch.cat([points[:-1], points[1:]]), 0.1)
    check_remainder(walk, result, sampled(network, origin, direction, edges))


def test_patches_are_used_and_change_nothing(network, monkeypatch):
    origin, direction = torch.randn(2, 1, 1, 16, 16, dtype=torch.float64)
    edges = 0.02 * torch.arange(3, dtype=torch.float64)
    walk = window_walk(network)
    small = enclosed(walk, origin, direction, edges, 0.0)
    cost, walk.domain.products = walk.domain.products, 0.0
    monkeypatch.setattr("farfield.exact.ray.window_walk.locality", lambda *_: None)
    large = enclosed(walk, origin, direction, edges, 0.0)
    assert cost < 0.8 * walk.domain.products
    torch.testing.assert_close(small.chord, large.chord, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(small.mass + small.box, large.mass + large.box, rtol=1e-2, atol=0)


def test_a_box_alone_would_be_far_wider(network):
    origin, direction = torch.randn(2, 1, 1, 16, 16, dtype=torch.float64)
    edges = 0.005 * torch.arange(2, dtype=torch.float64)
    walk = window_walk(network)
    waves = enclosed(walk, origin, direction, edges, 0.0)
    boxes = enclosed(walk, origin, direction, edges, 1e12)
    assert len(waves.old) > 5
    assert float((boxes.mass + boxes.box).mean()) > 5 * float((waves.mass + waves.box).mean())


def bend_of(seed, units):
    """A continuous function with up to three kinks, different for each unit."""
    generator = torch.Generator().manual_seed(seed)
    kinks = seed % 4
    places = torch.randn(max(1, kinks), units, generator=generator, dtype=torch.float64)
    thresholds = list(places.sort(dim=0).values[:kinks])
    slopes = list(torch.randn(kinks + 1, units, generator=generator, dtype=torch.float64))
    intercepts = [torch.randn(units, generator=generator, dtype=torch.float64)]
    for place, before, after in zip(thresholds, slopes, slopes[1:], strict=False):
        intercepts.append(intercepts[-1] + (before - after) * place)
    return Bend(tuple(thresholds), tuple(slopes), tuple(intercepts))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), width=st.sampled_from([0.0, 1e-9, 0.3, 5.0]))
def test_lines_enclose_functions_with_kinks(seed, width):
    bend = bend_of(seed, 7) if seed % 5 else Bend.of(RELU, torch.zeros(1).double())
    low = torch.randn(2, 7, dtype=torch.float64)
    high = low + width * torch.rand(2, 7, dtype=torch.float64)
    slope, shift, reach = bend.lines(low, high)
    x = torch.lerp(low, high, SHARES[:, None, None])
    factor, offset = bend._pieces([x > limit for limit in bend.thresholds])
    line = slope * x + (0.0 if shift is None else shift)
    off = (x * factor + offset - line).abs()
    assert bool((off <= reach + 1e-14 * (1 + line.abs())).all())
    # The distance is attained: no wider than the function needs for a line of this slope.
    assert bool((reach <= off.amax(dim=0) + 0.1 * width * (1 + slope.abs()) + 1e-13).all())
    straight = torch.stack(
        [(limit > low) & (limit < high) for limit in bend.thresholds] or [low > high]
    )
    assert bool((reach[~straight.any(dim=0)] == 0).all())


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), width=st.sampled_from([0.0, 0.1, 2.0]))
def test_what_slopes_miss_beside_tents_is_enclosed(seed, width):
    generator = torch.Generator().manual_seed(seed)
    bend = bend_of(seed, 7) if seed % 5 else Bend.of(RELU, torch.zeros(1).double())
    start = torch.randn(2, 7, generator=generator, dtype=torch.float64)
    stop = start + width * torch.randn(2, 7, generator=generator, dtype=torch.float64)
    away, base = torch.rand(2, 2, 7, generator=generator, dtype=torch.float64)
    low, high = torch.minimum(start, stop) - away, torch.maximum(start, stop) + away
    middle, bound = _beside(bend, (start, stop), (low, high), away, base)

    def function(x):
        factor, offset = bend._pieces([x > limit for limit in bend.thresholds])
        return x * factor + offset

    chord = torch.lerp(start, stop, SHARES[:, None, None])
    for share in torch.linspace(-1, 1, 21):
        rest = share * away
        missed = function(chord + rest) - function(chord) - base * rest
        assert bool(((missed - middle).abs() <= bound + 1e-12).all())
    if bend.is_relu:
        # On one side of its kink a unit misses on one side only, and no more than it goes beyond.
        gap = torch.minimum(start.abs(), stop.abs())
        beyond = torch.where(start * stop > 0, (away - gap).clamp(min=0.0), torch.inf)
        off = ((start > 0).double() - base).abs() * away
        torch.testing.assert_close(bound, beyond / 2 + off)


def test_what_counts_least_is_boxed_first():
    domain = EnclosureDomain(10)
    zero = torch.zeros(4, 3, dtype=torch.float64)
    domain.start(zero, zero[:1])
    domain.allowance = torch.tensor([1.0, 0.25])
    weight = torch.tensor([0.6, 0.1, 0.5, 0.2, 0.3])
    window = torch.tensor([0, 0, 0, 1, 1])
    assert domain.spend(weight, window).tolist() == [False, True, True, True, False]
    torch.testing.assert_close(domain.allowance, torch.tensor([0.4, 0.05]))


def test_windows_with_too_many_kinks_are_given_up(network):
    walk = window_walk(network)
    walk.domain.most = 3
    origin, direction = torch.randn(2, 1, 1, 16, 16, dtype=torch.float64)
    edges = 0.1 * torch.arange(3, dtype=torch.float64)
    result = enclosed(walk, origin, direction, edges, 0.0)
    assert isinstance(result, Enclosure)
    check(result, sampled(network, origin, direction, edges))
