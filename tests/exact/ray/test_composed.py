"""Two convolutions at once lose nothing that boxes have to hold, and less than one by one."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import farfield as ff
from farfield.exact.ray import composed
from farfield.exact.ray.composed import Composed, composed_pairs
from farfield.exact.ray.enclosure_domain import gamma32
from farfield.exact.ray.kinked import Kernel
from farfield.exact.ray.line import walks
from farfield.exact.ray.window_walk import WindowWalk

ROW = (2, 9, 9)
SHARES = torch.linspace(0, 1, 33, dtype=torch.float64)


def matrix(kernel, row):
    """A convolution as a matrix ``(outputs, inputs)``."""
    units = torch.eye(torch.Size(row).numel(), dtype=torch.float64).reshape(-1, *row)
    images = F.conv2d(units, kernel.weight, stride=kernel.stride, padding=kernel.padding)
    return images.flatten(1).T, images.shape[1:]


def pair_of(seed, sides, strides, frames):
    """A pair of random convolutions, and both as matrices."""
    generator = torch.Generator().manual_seed(seed)
    first, second = (
        Kernel(
            torch.randn(outputs, inputs, side, side, generator=generator, dtype=torch.float64),
            (stride, stride),
            (frame, frame),
        )
        for (outputs, inputs), side, stride, frame in zip(
            ((4, ROW[0]), (3, 4)), sides, strides, frames, strict=True
        )
    )
    before, middle = matrix(first, ROW)
    after, out = matrix(second, middle)
    return Composed(first, second, tuple(middle), tuple(out[1:])), before, after


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    sides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    frames=st.tuples(st.integers(0, 1), st.integers(0, 1)),
)
def test_entries_are_those_of_the_product(seed, sides, strides, frames):
    pair, before, after = pair_of(seed, sides, strides, frames)
    generator = torch.Generator().manual_seed(seed + 1)
    box = torch.rand(3, *ROW, generator=generator)
    slopes = (torch.rand(pair.middle, generator=generator) > 0.4).float()
    products = pair.follow(slopes)
    assert 0 < products <= sides[0] ** 2 * sides[1] ** 2 * 4 * 2 * 3 * pair.pixels[0] ** 2
    for _ in range(3):
        exact = (after @ torch.diag(pair.slopes.flatten().double()) @ before).abs()
        error = gamma32(pair.additions) * (after.abs() @ before.abs())
        off = pair.size(box).flatten(1).double() - box.flatten(1).double() @ exact.T
        noise = box.flatten(1).double() @ (error + 1e-6 * exact).T
        assert bool((off.abs() <= noise + 1e-12).all())
        # A few slopes change; those in between do not.
        flipped = torch.rand(pair.middle, generator=generator) < 0.02
        between = torch.rand(pair.middle, generator=generator) < 0.02
        asked = torch.where(flipped, 1 - pair.slopes, pair.slopes).masked_fill(between, 0.7)
        expected = torch.where(between, pair.slopes, asked)
        pair.follow(asked)
        assert torch.equal(pair.slopes, expected)


def test_entries_are_formed_anew_before_rounding_adds_up(monkeypatch):
    pair, _, _ = pair_of(0, (3, 3), (1, 1), (1, 1))
    slopes = torch.ones(pair.middle)
    pair.follow(slopes)
    monkeypatch.setattr(composed, "MOST_ADDITIONS", pair.additions)
    slopes.view(-1)[:2] = 0.0
    pair.follow(slopes)
    grown = pair.additions
    slopes.view(-1)[2:4] = 0.0
    pair.follow(slopes)
    assert pair.additions < grown


def network_of(layers, row=(2, 8, 8)):
    module = nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(3)).double().eval()
    module(torch.zeros(1, *row, dtype=torch.float64))
    return ff.capture(module, torch.zeros(1, *row, dtype=torch.float64))


def three_convolutions(seed, activation=nn.ReLU):
    torch.manual_seed(seed)
    return [
        *(nn.Conv2d(2, 6, 3, padding=1), activation()),
        *(nn.Conv2d(6, 5, 3, 2, padding=1), activation()),
        nn.Conv2d(5, 4, 3),
    ]


def window_walk(network):
    ((_, line),) = walks(network, None, 1 << 20)
    return WindowWalk(line.program, line.constants)


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    monkeypatch.setattr(composed, "LEAST_TERMS", 0)


def test_pairs_are_found_where_nobody_else_looks():
    def count(layers):
        walk = window_walk(network_of(layers))
        return len(composed_pairs(walk.program, walk.constants))

    layers = three_convolutions(0)
    assert count(layers) == 2
    assert count([*layers[:2], nn.MaxPool2d(3, 1, 1), *layers[2:]]) == 1
    shared = nn.Conv2d(2, 2, 3, padding=1)
    assert count([shared, nn.ReLU(), shared]) == 0


class Residual(nn.Module):
    """A unit with a frame of its own, a norm that is folded, and a shortcut."""

    def __init__(self, stride):
        super().__init__()
        self.first = nn.Conv2d(4, 4, 3, stride, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.stride = stride

    def forward(self, x):
        active = F.relu(x)
        edge = (0, 1, 0, 1) if self.stride == 2 else (1, 1, 1, 1)
        branch = self.second(F.relu(self.norm(self.first(F.pad(active, edge)))))
        return branch + (F.avg_pool2d(active, 2) if self.stride == 2 else x)


def residual_units(seed):
    torch.manual_seed(seed)
    return [nn.Conv2d(2, 4, 3, padding=1), Residual(1), Residual(2), Residual(1), nn.ReLU()]


def test_units_of_residual_networks_are_pairs():
    walk = window_walk(network_of(residual_units(0)))
    assert len(walk.domain.pairs) == 3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("activation", [nn.ReLU, nn.LeakyReLU])
def test_boxes_hold_all_that_signs_can_do(seed, activation):
    """At a point whose slopes do not change, the largest remainders are known: ``|J| box``."""
    layers = three_convolutions(seed, activation)
    network = network_of(layers)
    walk = window_walk(network)
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(3, 2, 8, 8, generator=generator, dtype=torch.float64)
    box = 1e-9 * torch.rand(1, 2, 8, 8, generator=generator)
    start = walk.domain.start
    plain = []
    for pairs in ({}, walk.domain.pairs, walk.domain.pairs):
        walk.domain.pairs = pairs
        for point in points if pairs else points[-1:]:
            # Slopes of the pairs are those of another point, where there are several.
            walk.domain.start = lambda chord, size: _boxed(start(chord, size), box)
            with torch.no_grad():
                found = walk.enclose(point[None].repeat(2, 1, 1, 1), 0.0)
            radius = (found.mass + found.box)[0].double()
            jacobian = torch.autograd.functional.jacobian(
                lambda x: network.logits(x[None])[0, 0], point
            )
            most = (jacobian.abs() * box.double()).flatten(1).sum(dim=1)
            assert bool((radius >= most).all())
            plain.append(radius)
    # With slopes that fit, what is lost is less than without pairs.
    assert float(plain[-1].sum()) < 0.8 * float(plain[0].sum())


def _boxed(value, box):
    return type(value)(value.chord, value.box + box, value.old)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    width=st.sampled_from([1e-6, 1e-3, 0.05, 0.5]),
    tolerance=st.sampled_from([0.0, 0.01, 1e9]),
)
def test_networks_are_enclosed_on_dense_grids(seed, width, tolerance):
    layers = residual_units if seed % 2 else three_convolutions
    network = network_of(layers(seed % 7))
    walk = window_walk(network)
    generator = torch.Generator().manual_seed(seed)
    origin, direction = torch.randn(2, 1, 2, 8, 8, generator=generator, dtype=torch.float64)
    for begin in (0.0, 0.01, 3.0):
        edges = begin + width * torch.arange(4, dtype=torch.float64)
        points = origin + edges.reshape(-1, 1, 1, 1) * direction
        with torch.no_grad():
            if begin != 0.01:
                walk.enclose(points[:1].repeat(2, 1, 1, 1), 0.0)
                walk.learn()
            found = walk.enclose(torch.cat([points[:-1], points[1:]]), tolerance)
        t = torch.lerp(edges[:-1, None], edges[1:, None], SHARES)
        values = network.logits(origin + t.reshape(-1, 1, 1, 1) * direction)[0]
        values = values.reshape(3, len(SHARES), -1)
        start, stop = found.ends
        chord = torch.lerp(start[:, None], stop[:, None], SHARES[None, :, None])
        radius = (found.mass + found.box).double()[:, None]
        assert bool(((values - chord).abs() <= radius + 1e-12 * (1 + chord.abs())).all())


@pytest.mark.parametrize("seed", range(3))
def test_skipping_finds_what_following_finds(seed):
    network = network_of([*three_convolutions(seed), nn.ReLU()])
    origin, direction = torch.randn(2, 1, 2, 8, 8, dtype=torch.float64)
    plain = ff.first_reaching(network, origin, direction, 0.9, skip=False)
    skipped = ff.first_reaching(network, origin, direction, 0.9, skip=True)
    assert skipped.t == pytest.approx(plain.t, rel=1e-12)
