"""Comparisons, masks and ``where`` are read as what they are, at ties as everywhere else."""

import functools

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

import farfield as ff
from farfield.errors import UnsupportedOperation
from farfield.exact.piecewise import has_jumps
from small_networks import captured

EIGHTHS = torch.arange(-24, 25, dtype=torch.float64) / 8


class Applied(nn.Module):
    """A function behind weights that leave everything as it is, times two."""

    def __init__(self, function, dtype=torch.float64):
        super().__init__()
        self.function = function
        self.last = nn.Linear(3, 3, bias=False, dtype=dtype)
        self.last.weight.data = 2 * torch.eye(3, dtype=dtype)

    def forward(self, x):
        return self.last(self.function(x))


def placed(x):
    copy = x.clone()
    copy[copy < 0.5] = -1.0
    return copy


# Continuous however they are written: one function of one number without a jump.
CONTINUOUS = {
    "relu by a mask": lambda x: x * (x > 0),
    "relu by a closed mask": lambda x: (x >= 0).to(x.dtype) * x,
    "relu by masked_fill": lambda x: x.masked_fill(x < 0, 0.0),
    "leaky by where": lambda x: torch.where(x > 0, x, 0.125 * x),
    "leaky by two masks": lambda x: x * (x > 0) + 0.25 * x * ~(x > 0),
    "hard tanh by where": lambda x: torch.where(x > 1, 1.0, torch.where(x < -1, -1.0, x)),
    "absolute value by a sign": lambda x: x * x.sign(),
    "softshrink": lambda x: F.softshrink(x, 0.5),
    "a band by and": lambda x: torch.where((x > -1) & (x <= 1), x, x.clamp(-1, 1)),
}
JUMPING = {
    "hardshrink": lambda x: F.hardshrink(x, 0.5),
    "threshold": lambda x: F.threshold(x, 0.5, -1.0),
    "placed": placed,
    "sign": torch.sign,
    "heaviside": lambda x: torch.heaviside(x, torch.tensor(0.5, dtype=x.dtype)),
    "above": lambda x: (x > 0.5).to(x.dtype),
    "at least": lambda x: (x >= 0.5).to(x.dtype),
    "below": lambda x: (x < 0.5).to(x.dtype) - x,
    "at most": lambda x: (x <= 0.5).to(x.dtype) + x,
    "equal": lambda x: (x == 0.5).to(x.dtype) - (x != 1.0).to(x.dtype),
    "shrunk too far": lambda x: torch.where(x.abs() > 0.5, x - 0.75 * x.sign(), x * 0),
    "neither nor": lambda x: (~((x > 1) | (x <= -1))).to(x.dtype) * (x + 1),
}
# A mask of one value that acts on another.
ACROSS = {
    "the larger of two": lambda x: torch.where(x > x.flip(1), x, x.flip(1)),
    "a gate": lambda x: x * (x.flip(1) >= 0.5),
    "a gate for the row": lambda x: x * (x[:, :1] > x[:, 1:2]),
    "weights or values": lambda x: torch.where(x > x.roll(1, 1), x, x.new_tensor([1.0, 2.0, 3.0])),
    "a sign of another": lambda x: x.sign() * x.flip(1),
    "one of three": lambda x: ((x > 0.5).to(x.dtype) + 2 * (x >= 1)) * x.roll(1, 1),
    "both": lambda x: torch.where((x > 0) & (x.flip(1) <= 0.5), x, -1.0),
    "one of two": lambda x: ((x > 0) ^ (x.flip(1) >= 0)).to(x.dtype) * x,
    "either": lambda x: torch.where((x > 0) | (x.flip(1) == 0.5), x, 0.5 * x),
    "thresholds of its own": lambda x: (x >= x.new_tensor([0.5, 0.25, -1.0])).to(x.dtype) + x,
}
EVERY = {**CONTINUOUS, **JUMPING, **ACROSS}


def grid():
    """Rows at every tie and beside it, in every combination that matters."""
    generator = torch.Generator().manual_seed(0)
    rows = EIGHTHS[torch.randint(len(EIGHTHS), (400, 3), generator=generator)]
    ends = (torch.full_like(rows, end) for end in (torch.inf, -torch.inf))
    return torch.cat([rows, *(torch.nextafter(rows, end) for end in ends)])


@functools.cache
def read(name):
    module = Applied(EVERY[name])
    return module, captured(module, 3)


@pytest.mark.parametrize("name", EVERY)
def test_values_are_the_models_own_to_the_bit(name):
    (module, network), rows = read(name), grid()
    with torch.no_grad():
        expected = module(rows)
    # Jumps that are open on different sides are added up, which may round once more.
    twice = name in ("hardshrink", "neither nor", "at most", "below")
    torch.testing.assert_close(network.logits(rows)[0], expected, rtol=0, atol=1e-15 * twice)
    assert has_jumps(network.groups[0]) == (name not in CONTINUOUS)


def rays():
    """Origins and directions in eighths, many of which rest in one coordinate, at a tie."""
    generator = torch.Generator().manual_seed(1)
    origins, ways = (EIGHTHS[torch.randint(12, 37, (60, 3), generator=generator)] for _ in range(2))
    ways[::2, 0] = 0.0
    ways[1::3, 1] = 0.0
    ways[ways.eq(0).all(dim=1)] = 1.0
    return origins, ways


@pytest.mark.parametrize("name", EVERY)
def test_the_limit_is_what_the_model_says_far_out(name):
    module, network = read(name)
    origins, ways = rays()
    for certify in (False, True):
        far = ff.at_infinity(network, origins, ways, certify=certify)
        for t in (2.0**24, 2.0**34):  # eighths times this are exact
            line = far.slope[0] * t + far.intercept[0]
            torch.testing.assert_close(line, module(origins + t * ways), rtol=0, atol=1e-5)
    assert far.certified.all()


@pytest.mark.parametrize("name", EVERY)
def test_along_a_ray_every_piece_is_the_models(name):
    module, network = read(name)
    origins, ways = rays()
    t = torch.arange(0, 12, 0.125, dtype=torch.float64)
    for place, line in enumerate(ff.along(network, origins[:6], ways[:6])):
        own = torch.softmax(module(origins[place] + t[:, None] * ways[place]), dim=-1)
        torch.testing.assert_close(line.probabilities_at(t)[0], own, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["leaky by where", "hardshrink", "the larger of two", "both"])
def test_planes_regions_and_arcs(name):
    module, network = read(name)
    u, v = torch.tensor([[1.0, 0.5, 0.0], [0.0, -0.25, 1.0]], dtype=torch.float64)
    plane = ff.slice_plane(network, torch.full((3,), 0.1), u, v, 2.0)
    own = torch.softmax(module(plane.points(plane.centres)), dim=-1)
    torch.testing.assert_close(plane.probabilities, own, rtol=0, atol=1e-12)
    assert float(plane.areas.sum()) == pytest.approx(16.0)
    point = torch.tensor([0.3, -0.7, 1.3], dtype=torch.float64)
    region = ff.linearize(network, point[None])
    jacobian = torch.autograd.functional.jacobian(lambda x: module(x[None])[0], point)
    torch.testing.assert_close(region.V[0], jacobian, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        region.a, module(point[None]) - point @ jacobian.T, rtol=0, atol=1e-12
    )
    arcs = ff.blind_arcs(network, 0.9, u=u, v=v)
    angle = torch.linspace(0.01, 6.28, 400, dtype=torch.float64)
    ways = angle.cos()[:, None] * u + angle.sin()[:, None] * v
    blind = ff.at_infinity(network, torch.zeros(3), ways).probabilities[0].amax(dim=1) >= 0.9
    assert float(arcs.share) == pytest.approx(float(blind.double().mean()), abs=0.02)


def test_first_reaching_stops_at_a_jump():
    network = captured(Applied(lambda x: 8 * (x[:, :1] >= 0.5) * x), 3)
    found = ff.first_reaching(network, [0.0, 0.0, 1.0], [1.0, 0.0, 0.0], 0.99)
    assert found.t == 0.5


def test_numbers_are_compared_in_the_models_precision():
    module = Applied(lambda x: (x > 0.1).to(x.dtype) + F.hardshrink(x, 0.3), torch.float32)
    network = ff.capture(module, torch.zeros(1, 3))
    rows = torch.tensor([0.1, 0.3, -0.3]).repeat(3, 1)
    rows[1:] = torch.nextafter(rows[1:], torch.tensor([[torch.inf], [-torch.inf]]))
    torch.testing.assert_close(network.logits(rows)[0], module(rows).double(), rtol=1e-6, atol=0)
    rows = torch.tensor([[0.1, 0.0, 0.0]])
    assert float(network.logits(rows)[0, 0, 0]) == 0.0  # 0.1 as single precision has it


def test_the_side_of_a_jump_that_is_only_approached():
    above = captured(Applied(lambda x: (torch.tanh(x) < 1).to(x.dtype)), 3)
    far = ff.at_infinity(above, torch.zeros(3), torch.ones(3))
    assert far.intercept.tolist() == [[[2.0, 2.0, 2.0]]]
    at = captured(Applied(lambda x: (torch.sigmoid(x) > 0).to(x.dtype)), 3)
    assert ff.at_infinity(at, torch.zeros(3), -torch.ones(3)).intercept.tolist() == [[[2.0] * 3]]


def test_what_stays_refused_is_named():
    with pytest.raises(UnsupportedOperation, match="needs continuous affine pieces"):
        ff.check_monotonicity(read("above")[1], torch.zeros(3), torch.ones(3))


def test_masks_may_be_constant_or_of_other_values():
    mask = torch.tensor([True, False, True])
    fixed = captured(Applied(lambda x: torch.where(mask, x, -x)), 3)
    assert ff.at_infinity(fixed, torch.zeros(3), torch.ones(3)).slope.tolist() == [[[2, -2, 2]]]
    other = captured(Applied(lambda x: torch.where(x.flip(1) > 0, F.gelu(x), x)), 3)
    far = ff.at_infinity(other, torch.zeros(3), [-1.0, 2.0, 3.0])
    assert far.slope.tolist() == [[[0.0, 4.0, 6.0]]]


def test_softshrink_is_one_bend():
    network = captured(Applied(lambda x: F.softshrink(x, 0.5)), 3)
    line = ff.along(network, torch.zeros(3), [1.0, -1.0, 0.0])[0]
    assert line.breakpoints.tolist() == [0.5]
    far = ff.at_infinity(network, torch.zeros(3), [1.0, -2.0, 0.0], certify=True)
    assert far.slope.tolist() == [[[2.0, -4.0, 0.0]]]
    assert far.intercept.tolist() == [[[-1.0, 1.0, 0.0]]]
