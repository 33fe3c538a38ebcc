"""Every breakpoint of every ray, against rational arithmetic and against the network itself."""

import functools
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import farfield as ff
from farfield.errors import InputError, NumericalOverflow, UnsupportedOperation
from farfield.exact.ray.line import along
from farfield.exact.ray.stretches import first_reaching, iterate_pieces
from line_oracle import exact_line
from oracles import Absolute, Pool, Residual
from small_networks import mlp

INF = float("inf")
ARCHITECTURES = {
    "deep": (2, lambda: [nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)]),
    "leaky": (
        2,
        lambda: [
            nn.Linear(2, 4),
            nn.LeakyReLU(0.25),
            nn.Linear(4, 3),
            nn.LeakyReLU(-0.5),
            nn.Linear(3, 3),
        ],
    ),
    "prelu": (3, lambda: [nn.Linear(3, 4), nn.PReLU(4), nn.Linear(4, 2)]),
    "absolute": (2, lambda: [nn.Linear(2, 4), Absolute(), nn.Linear(4, 4), nn.ReLU()]),
    "clamped": (
        2,
        lambda: [nn.Linear(2, 5), nn.Hardtanh(-1.0, 2.0), nn.Linear(5, 4), nn.Hardtanh(0.0, 6.0)],
    ),
    "max-pool": (3, lambda: [nn.Linear(3, 6), nn.ReLU(), Pool("max", 3), nn.Linear(4, 3)]),
    "pool-first": (4, lambda: [Pool("max", 3), nn.Linear(2, 4), nn.ReLU(), Pool("max", 2)]),
    "mean-pool": (2, lambda: [nn.Linear(2, 6), nn.ReLU(), Pool("mean", 3), nn.ReLU()]),
    "residual": (
        2,
        lambda: [
            nn.Linear(2, 3),
            Residual(nn.Sequential(nn.ReLU(), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))),
            nn.ReLU(),
            nn.Linear(3, 3),
        ],
    ),
    "no-hidden": (3, lambda: [nn.Linear(3, 4)]),
}
DRAWS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    # Small whole numbers: ties, dead units, several units that switch at once.
    "whole": lambda rng, shape: rng.integers(-3, 4, shape).astype(float),
}


INSTANCES = 2


def build(name, draw):
    """Instances of one architecture, so that it is traced once, and rays for all of them."""
    rng = np.random.default_rng(0)
    inputs, parts = ARCHITECTURES[name]
    modules = [nn.Sequential(*parts()).double() for _ in range(INSTANCES)]
    for module in modules:
        for parameter in module.parameters():
            parameter.data = torch.from_numpy(np.asarray(DRAWS[draw](rng, parameter.shape)))
    origin, direction = (DRAWS[draw](rng, (3, inputs)) for _ in range(2))
    direction[(direction == 0).all(axis=1), 0] = 1.0
    return modules, origin, direction


def capture(module, inputs):
    return ff.capture(module, torch.zeros(1, inputs, dtype=torch.float64))


@functools.cache
def captured(name, draw):
    modules, origin, _ = build(name, draw)
    return capture(modules, origin.shape[1])


@functools.cache
def exact_lines(name, draw, stop):
    """Every ray of every instance in rational arithmetic."""
    modules, origin, direction = build(name, draw)
    rays = list(zip(origin.tolist(), direction.tolist(), strict=True))
    return [[exact_line(module, *ray, stop) for ray in rays] for module in modules]


@functools.cache
def captured_mlp(*sizes, seed):
    return capture(mlp(*sizes, seed=seed), sizes[0])


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize(
    ("draw", "budget", "stop"),
    [*((draw, 1 << 20, INF) for draw in DRAWS), ("normal", 64, INF), ("whole", 1 << 20, 2.5)],
)
def test_breakpoints_equal_those_of_rational_arithmetic(name, draw, budget, stop):
    _, origin, direction = build(name, draw)
    lines = along(captured(name, draw), origin, direction, stop, budget=budget)
    for index, instance in enumerate(exact_lines(name, draw, stop)):
        for exact, line in zip(instance, lines.instance(index), strict=True):
            expected = np.array([float(t) for t in exact.breakpoints])
            np.testing.assert_allclose(line.breakpoints.numpy(), expected, rtol=1e-11)
            logits = np.array([[float(z) for z in row] for row in exact.logits])
            scale = 1 + np.abs(logits).max(initial=0.0)
            np.testing.assert_allclose(
                line.logits.numpy().reshape(logits.shape), logits, rtol=1e-11, atol=1e-11 * scale
            )
            last = np.array([float(z) for z in exact.slopes[-1]])
            np.testing.assert_allclose(line.slope[-1].numpy(), last, rtol=1e-7, atol=1e-7)


def test_windows_of_one_ray_miss_and_invent_nothing():
    module = mlp(2, 28, 24, 16, 2)
    network, ray = capture(module, 2), ([-3.0, 1.0], [1.0, 0.25])
    exact = np.array([float(t) for t in exact_line(module, *ray, INF).breakpoints])
    for stop in (INF, 20.0):
        line = along(network, *ray, stop, budget=1)[0]
        assert len(line) > 40
        np.testing.assert_allclose(line.breakpoints.numpy(), exact[exact < stop], rtol=1e-12)


def test_last_piece_is_the_germ_at_infinity():
    network = capture(mlp(3, 12, 12, 4), 3)
    generator = torch.Generator().manual_seed(1)
    origin, direction = torch.randn(2, 20, 3, generator=generator, dtype=torch.float64)
    far = ff.at_infinity(network, origin, direction)
    for ray, line in enumerate(along(network, origin, direction)):
        torch.testing.assert_close(line.breakpoints[-1], far.reach[0, ray], rtol=1e-12, atol=0)
        torch.testing.assert_close(line.slope[-1], far.slope[0, ray], rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(line.intercept[-1], far.intercept[0, ray], rtol=1e-12, atol=0)
        assert line.edges[0] == 0
        assert line.edges[-1] == INF


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), stop=st.sampled_from([INF, 0.3, 4.0]))
def test_logits_are_the_networks_own_everywhere(seed, stop):
    network = captured_mlp(2, 9, 9, 3, seed=seed % 4)
    generator = torch.Generator().manual_seed(seed)
    origin, direction = torch.randn(2, 1, 2, generator=generator, dtype=torch.float64)
    line = along(network, origin, direction, stop)[0]
    t = torch.cat([line.breakpoints, torch.linspace(0, min(stop, 9.0), 50, dtype=torch.float64)])
    expected = network.logits(origin + t[:, None] * direction)
    torch.testing.assert_close(line.logits_at(t), expected, rtol=1e-10, atol=1e-10)
    assert bool((line.edges.diff() > 0).all())
    middle = line.edges[:-1] + 0.3 * line.edges.diff().clamp(max=1.0)
    pieces = line.slope * middle[:, None] + line.intercept
    torch.testing.assert_close(pieces, line.logits_at(middle)[0], rtol=1e-6, atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), factor=st.sampled_from([0.125, 3.0, 1e6]))
def test_scaling_and_turning_a_ray_moves_its_breakpoints(seed, factor):
    network = captured_mlp(2, 8, 8, 2, seed=seed % 4)
    generator = torch.Generator().manual_seed(seed)
    origin, direction = torch.randn(2, 1, 2, generator=generator, dtype=torch.float64)
    there = along(network, origin, direction, 3.0)[0].breakpoints
    back = along(network, origin + 3 * direction, -direction, 3.0)[0].breakpoints
    torch.testing.assert_close(3 - back.flip(0), there, rtol=1e-9, atol=1e-9)
    scaled = along(network, origin, factor * direction, 3.0 / factor)[0].breakpoints
    torch.testing.assert_close(scaled * factor, there, rtol=1e-11, atol=0)


class Tricky(nn.Module):
    """Concatenation with constants, several results, views by batch size, pooling, branches."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Conv2d(2, 3, 3, padding=1, stride=2)
        self.last = nn.Linear(24, 3)

    def forward(self, x):
        left, right = x.view(x.shape[0], 2, 6, 2).split(1, dim=1)
        both = torch.cat(
            [
                left.relu(),
                torch.maximum(right, torch.full((x.shape[0], 1, 6, 2), 0.2, dtype=x.dtype)),
            ],
            1,
        )
        y = F.max_pool2d(self.inner(both).abs() + self.inner(x.view(x.shape[0], 2, 6, 2)), (2, 1))
        y = torch.cat([y.flatten(1), torch.ones(x.shape[0], 20, dtype=x.dtype), x[:, :1]], 1)
        return self.last(y[:, :24]).clamp(-1.5, 2.5)


def test_branches_constants_and_views_by_batch_size():
    torch.manual_seed(0)
    network = capture(Tricky().double(), 24)
    origin, direction = torch.randn(2, 4, 24, dtype=torch.float64)
    t = torch.linspace(0, 12, 400, dtype=torch.float64)
    for budget in (1 << 20, 100):
        for ray, line in enumerate(along(network, origin, direction, budget=budget)):
            expected = network.logits(origin[ray] + t[:, None] * direction[ray])
            torch.testing.assert_close(line.logits_at(t), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_of_few_kinks_are_exact(stride):
    torch.manual_seed(stride)
    module = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 6, 5, padding=2, stride=stride),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(6 * (7 // stride + (stride - 1)) ** 2 if stride > 1 else 294, 3),
    ).double()
    network = ff.capture(module, torch.zeros(1, 1, 14, 14, dtype=torch.float64))
    first, second = torch.rand(2, 1, 14, 14, dtype=torch.float64)
    whole = along(network, first, second - first, 1.0, budget=1 << 24)[0]
    parts = along(network, first, second - first, 1.0, budget=1 << 16)[0]
    assert len(whole) > 300
    torch.testing.assert_close(parts.breakpoints, whole.breakpoints, rtol=1e-10, atol=0)
    torch.testing.assert_close(parts.logits, whole.logits, rtol=1e-12, atol=1e-12)
    t = torch.linspace(0, 1, 300, dtype=torch.float64)
    rows = first + t[:, None, None, None] * (second - first)
    torch.testing.assert_close(whole.logits_at(t), network.logits(rows), rtol=1e-12, atol=1e-12)


def test_instances_share_merged_breakpoints():
    modules = [mlp(2, 6, 3, seed=seed) for seed in range(3)]
    network = capture(modules, 2)
    origin, direction = [[0.5, -1.0]], [[1.0, 0.5]]
    line = along(network, origin, direction)[0]
    own = [along(capture(m, 2), origin, direction)[0] for m in modules]
    every = torch.cat([each.breakpoints for each in own]).sort().values
    torch.testing.assert_close(line.breakpoints, every, rtol=1e-12, atol=0)
    assert line.logits.shape == (3, len(every), 3)
    assert line.slope.shape == line.intercept.shape == (3, len(every) + 1, 3)
    for index, each in enumerate(own):
        torch.testing.assert_close(line.instance(index).breakpoints, each.breakpoints)
        torch.testing.assert_close(line.instance(index).logits, each.logits)
        torch.testing.assert_close(line.logits[index], each.logits_at(every)[0])


def test_different_architectures_are_merged_too():
    modules = [mlp(2, 6, 3), mlp(2, 4, 4, 3)]
    lines = along(capture(modules, 2), [[0.5, -1.0]], [[1.0, 0.5], [0.0, 1.0]])
    for index, module in enumerate(modules):
        own = along(capture(module, 2), [[0.5, -1.0]], [[1.0, 0.5], [0.0, 1.0]])
        for ray in range(2):
            got = lines.instance(index)[ray].breakpoints
            torch.testing.assert_close(got, own[ray].breakpoints)


@pytest.mark.parametrize("stop", [INF, 5.0])
@pytest.mark.parametrize("budget", [200, 1 << 20])
def test_stretches_make_up_the_ray(stop, budget):
    network = captured_mlp(2, 40, 40, 2, seed=0)
    whole = along(network, [0.1, 0.2], [1.0, -0.7], stop)[0]
    stretches = list(iterate_pieces(network, [0.1, 0.2], [1.0, -0.7], stop, budget=budget))
    assert (len(stretches) > 2) == (budget == 200), len(whole)
    edges = torch.cat([stretches[0].edges, *[s.edges[1:] for s in stretches[1:]]])
    torch.testing.assert_close(edges, whole.edges, rtol=1e-12, atol=0)
    for one, two in pairwise(stretches):
        assert one.edges[-1] == two.edges[0]


@pytest.mark.parametrize("confidence", [0.6, 0.95, 0.9999999])
def test_searching_one_ray_gives_the_same_first_place(confidence):
    network = captured_mlp(2, 40, 40, 2, seed=0)
    generator = torch.Generator().manual_seed(1)
    origin, direction = torch.randn(2, 12, 2, generator=generator, dtype=torch.float64)
    origin -= 6 * direction
    lines = along(network, origin, direction)
    early = 0
    for ray, expected in enumerate(lines.first_reaching(confidence).tolist()):
        found = first_reaching(network, origin[ray], direction[ray], confidence, budget=100)
        assert found.t == pytest.approx(expected, rel=1e-10)
        assert 1 <= found.pieces <= len(lines[ray])
        early += found.pieces < len(lines[ray])
    assert early > 0
    never = first_reaching(network, origin[0], direction[0], confidence, 0.0)
    assert (never.t, never.pieces) in ((INF, 1), (0.0, 1))
    assert never.forward_passes == 1


class Fixed(nn.Module):
    def __init__(self, weight, bias, *after):
        super().__init__()
        weight = torch.tensor(weight, dtype=torch.float64)
        self.layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
        self.layer.weight.data, self.layer.bias.data = (
            weight,
            torch.tensor(bias, dtype=torch.float64),
        )
        self.after = nn.Sequential(*after)

    def forward(self, x):
        return self.after(self.layer(x))


def test_units_that_switch_together_make_one_breakpoint():
    module = Fixed([[1.0], [3.0], [-0.1], [1.0]], [-1.0, -3.0, 0.1, -2.0], nn.ReLU())
    line = along(capture(module, 1), [0.0], [1.0])[0]
    assert line.breakpoints.tolist() == [1.0, 2.0]


def test_units_at_rest_and_origins_on_a_breakpoint_add_nothing():
    module = Fixed([[0.0], [0.0], [1.0], [1.0]], [0.0, 2.0, 0.0, -4.0], nn.ReLU())
    network = capture(module, 1)
    assert along(network, [0.0], [1.0])[0].breakpoints.tolist() == [4.0]
    assert along(network, [0.0], [-1.0])[0].breakpoints.tolist() == []
    assert along(network, [0.0], [1.0], 4.0)[0].breakpoints.tolist() == []
    assert along(network, [-1.0], [1.0], 4.0)[0].breakpoints.tolist() == [1.0]


def test_slopes_that_do_not_change_make_no_breakpoint():
    layer = nn.PReLU(2, init=1.0, dtype=torch.float64)
    layer.weight.data[1] = 0.5
    module = Fixed([[1.0], [1.0]], [-1.0, -2.0], layer)
    assert along(capture(module, 1), [0.0], [1.0])[0].breakpoints.tolist() == [2.0]


def test_a_ray_of_length_zero_is_a_point():
    network = capture(mlp(2, 5, 3), 2)
    lines = along(network, [[1.0, 2.0], [0.0, 1.0]], [1.0, 0.0], [0.0, 3.0])
    line = lines[0]
    assert len(line) == 1
    assert line.breakpoints.tolist() == []
    assert line.edges.tolist() == [0.0, 0.0]
    own = network.logits(torch.tensor([[1.0, 2.0]]))
    torch.testing.assert_close(line.logits_at(0.0), own)
    torch.testing.assert_close(line.intercept, own[0])
    highest = lines.highest_confidence()[0]
    torch.testing.assert_close(highest, torch.softmax(own[0, 0], 0).max())
    assert lines.first_reaching(0.4).tolist()[0] in (0.0, INF)


def test_single_precision_networks_are_followed_in_double():
    network = ff.capture(mlp(2, 8, 3), torch.zeros(1, 2), dtype=torch.float32)
    line = along(network, [0.1, 0.2], [1.0, -0.7])[0]
    assert line.breakpoints.dtype == line.logits.dtype == torch.float64


def test_smooth_operations_are_refused_by_name():
    module = nn.Sequential(nn.Linear(2, 3), nn.GELU(), nn.Threshold(0.1, 2.0), nn.Softsign())
    with pytest.raises(UnsupportedOperation) as caught:
        along(capture(module.double(), 2), [0.0, 0.0], [1.0, 0.0])
    message = " ".join(str(caught.value).split())
    assert "2 operations" in message
    assert "aten.gelu in 1 (GELU): smooth" in message
    assert "softsign in 3 (Softsign): smooth" in message


@pytest.mark.parametrize(
    ("origin", "direction", "stop", "message"),
    [
        ([0.0, 0.0], [0.0, 0.0], INF, "directions are zero"),
        ([0.0, float("nan")], [1.0, 0.0], INF, "origin holds NaN"),
        ([0.0, 0.0], [INF, 0.0], INF, "direction holds NaN"),
        ([0.0, 0.0], [1.0, 0.0], -1.0, "must not be negative"),
        ([0.0, 0.0], [1.0, 0.0], float("nan"), "must not be negative or NaN"),
        ([0.0, 0.0], [1.0, 0.0], [1.0, 2.0], "one number, or one for each of the 1 rays"),
        ([0.0, 0.0], [1.0, 0.0], "far", "one number"),
        ([0.0, 0.0, 1.0], [1.0, 0.0], INF, "origin has shape"),
        ([[0.0, 0.0]] * 3, [[1.0, 0.0]] * 2, INF, "origin has 3 rows and direction 2"),
    ],
)
def test_bad_rays_are_refused(origin, direction, stop, message):
    with pytest.raises(InputError, match=message):
        along(capture(mlp(2, 4, 2), 2), origin, direction, stop)


def test_overflow_is_an_error():
    network = capture(mlp(2, 4, 4, 2, gain=1e160), 2)
    with pytest.raises(NumericalOverflow, match="range of float64"):
        along(network, [1.0, 1.0], [1.0, 0.5])


def test_wrong_questions_are_refused():
    network = capture(mlp(2, 4, 2), 2)
    lines = along(network, [0.0, 0.0], [1.0, 0.0], 2.0)
    for confidence in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(InputError, match="strictly between"):
            lines.first_reaching(confidence)
    with pytest.raises(InputError, match=r"must lie between 0\.0 and 2\.0"):
        lines[0].logits_at(2.5)
    with pytest.raises(IndexError):
        lines[1]
    with pytest.raises(InputError, match="one ray of one network"):
        iterate_pieces(network, [[0.0, 0.0]] * 2, [1.0, 0.0])
    with pytest.raises(InputError, match="one ray of one network"):
        first_reaching(network, [[0.0, 0.0]] * 2, [1.0, 0.0], 0.9)
    with pytest.raises(InputError, match="strictly between"):
        first_reaching(network, [0.0, 0.0], [1.0, 0.0], 1.5)


class Twins(nn.Module):
    """The largest of two sums that are equal but for the order in which they are added."""

    def forward(self, x):
        a, b, c = 0.1 * x, 0.7 * x, 0.2 * torch.relu(x - 1)
        return torch.cat([torch.maximum((a + b) + c, a + (b + c)), torch.relu(2 - x)], dim=1)


def test_rounding_alone_changes_no_leader():
    network = capture(Twins(), 1)
    generator = torch.Generator().manual_seed(0)
    origin, direction = torch.rand(2, 300, 1, generator=generator, dtype=torch.float64)
    origin, direction = -3 * origin, direction + 0.1
    for ray, line in enumerate(along(network, origin, direction, 60.0)):
        kinks = (torch.tensor([1.0, 2.0], dtype=torch.float64) - origin[ray]) / direction[ray]
        expected = kinks[(kinks > 0) & (kinks < 60)]
        torch.testing.assert_close(line.breakpoints, expected, rtol=1e-12, atol=0)


class Cancelled(nn.Module):
    """A ReLU of a sum that is zero but for rounding: ``0.1 x + 0.2 x - 0.3 x``."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(1, 3).double(), nn.Linear(3, 2).double()
        self.first.weight.data = torch.ones(3, 1, dtype=torch.float64)
        self.first.bias.data = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
        weight = [[0.1, 0.2, -0.3], [1.0, 0.0, 0.0]]
        self.second.weight.data = torch.tensor(weight, dtype=torch.float64)
        self.second.bias.data = torch.tensor([0.3, 0.0], dtype=torch.float64)

    def forward(self, x):
        return torch.relu(self.second(torch.relu(self.first(x))))


@pytest.mark.parametrize("stop", [60.0, math.inf])
def test_a_unit_that_is_zero_but_for_rounding_passes_nowhere(stop):
    network = capture(Cancelled(), 1)
    generator = torch.Generator().manual_seed(0)
    origin, direction = torch.rand(2, 300, 1, generator=generator, dtype=torch.float64)
    origin, direction = -3 * origin - 1, direction + 0.1
    # Below -1 the first sum is 0.3, then it falls to zero where x does, and stays there.
    for ray, line in enumerate(along(network, origin, direction, stop)):
        kinks = (torch.tensor([-1.0, 0.0], dtype=torch.float64) - origin[ray]) / direction[ray]
        expected = kinks[(kinks > 0) & (kinks < stop)]
        torch.testing.assert_close(line.breakpoints, expected, rtol=1e-12, atol=0)
