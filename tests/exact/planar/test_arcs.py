"""Arcs of directions: the far field on 20,000 directions, rational arithmetic, known answers."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import farfield as ff
from farfield.errors import InputError, NumericalOverflow
from farfield.exact.planar.arcs import blind_arcs
from oracles import far_field
from small_networks import dense

# One direction, anywhere, in each of as many equal parts of the circle.
COUNT = 20_000
SHARES = (np.arange(COUNT) + np.random.default_rng(0).random(COUNT)) / COUNT
ANGLES = 2 * np.pi * SHARES
DIRECTIONS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)


class MaxOut(nn.Module):
    """Max pooling over units, a residual, a maximum of two values."""

    def __init__(self, seed):
        super().__init__()
        self.first, self.second = dense(seed, 2, 9), dense(seed + 1, 4, 4)
        self.out = dense(seed + 2, 4, 3)

    def forward(self, x):
        y = F.max_pool1d(self.first(x)[:, None], 3, 2)[:, 0]
        y = torch.maximum(y, self.second(y) + y)
        return self.out(y)


MODELS = {
    "three classes": [dense(0, 2, 12, 12, 3)],
    "one logit": [dense(1, 2, 12, 12, 1)],
    "ensemble": [dense(seed, 2, 8, 8, 3) for seed in range(6)],
    "dying members": [dense(seed, 2, 3, 3, 3) for seed in range(20)],
    "mixed": [dense(0, 2, 5, 3), dense(1, 2, 4, 4, 3), dense(2, 2, 5, 3, act=nn.Hardtanh)],
    "tanh": [dense(3, 2, 8, 8, 3, act=nn.Tanh)],
    "softplus": [dense(4, 2, 6, 6, 3, act=nn.Softplus)],
    "leaky": [dense(5, 2, 8, 8, 4, act=lambda: nn.LeakyReLU(0.1))],
    "clamped": [dense(6, 2, 6, 6, 3, act=nn.ReLU6)],
    "max": [MaxOut(7), MaxOut(11)],
    "no hidden layer": [dense(8, 2, 5)],
}


@pytest.mark.parametrize("name", MODELS)
def test_arcs_agree_with_the_far_field_on_many_directions(name):
    network = ff.capture(MODELS[name], torch.zeros(1, 2, dtype=torch.float64))
    arcs = blind_arcs(network, threshold=0.9)
    assert arcs.width.sum().item() == pytest.approx(2 * math.pi, rel=1e-14)
    assert (arcs.width > 0).all()
    far = ff.at_infinity(network, [0.3, -2.0], DIRECTIONS)
    place = np.searchsorted(arcs.start.numpy(), ANGLES, side="right") - 1
    torch.testing.assert_close(arcs.probabilities[:, place], far.probabilities, rtol=0, atol=1e-9)
    assert torch.equal(arcs.label[place], far.label)
    sampled = float((far.confidence >= 0.9).double().mean())
    # Only parts that an arc ends in can be counted wrongly.
    assert abs(arcs.share - sampled) < 1e-3
    own = (far.probabilities.amax(dim=-1) >= 0.9).double().mean(dim=1)
    assert (arcs.instance_share - own).abs().max() < 1e-3
    # Neighbours differ, so no arc is cut in two for nothing.
    if len(arcs) > 1:
        change = arcs.probabilities != arcs.probabilities.roll(1, dims=1)
        assert change.any(dim=-1).any(dim=0).all()


@pytest.mark.parametrize("seed", range(4))
def test_arcs_agree_with_rational_arithmetic_next_to_every_end(seed):
    rng = np.random.default_rng(seed)
    module = dense(0, 2, 4, 4, 3)
    for part in module:
        if isinstance(part, nn.Linear):
            part.weight.data = torch.from_numpy(rng.integers(-3, 4, part.weight.shape)).double()
            part.bias.data = torch.from_numpy(rng.integers(-3, 4, part.bias.shape)).double()
    arcs = blind_arcs(ff.capture(module, torch.zeros(1, 2, dtype=torch.float64)))
    for index, (start, width) in enumerate(zip(arcs.start, arcs.width, strict=True)):
        for angle in (start + 1e-6 * width, start + width / 2, start + (1 - 1e-6) * width):
            direction = [math.cos(angle), math.sin(angle)]
            exact = far_field(module, [0.0, 0.0], direction)
            ahead = [float(b) if lead else -math.inf
                     for b, lead in zip(exact.intercept, exact.leading, strict=True)]  # fmt: skip
            expected = torch.softmax(torch.tensor(ahead, dtype=torch.float64), dim=0)
            torch.testing.assert_close(arcs.probabilities[0, index], expected)


def quadrants():
    layer = nn.Linear(2, 2, dtype=torch.float64)
    layer.weight.data, layer.bias.data = torch.eye(2).double(), torch.zeros(2).double()
    return nn.Sequential(layer, nn.ReLU())


def test_known_arcs():
    network = ff.capture(quadrants(), torch.zeros(1, 2))
    arcs = blind_arcs(network)
    # Class 1 from 45 to 180 degrees, nobody up to 270, class 0 up to 405.
    order = arcs.start.argsort()
    assert torch.rad2deg(arcs.start[order]).tolist() == pytest.approx([45, 180, 270])
    assert arcs.confidence[order].tolist() == [1.0, 0.5, 1.0]
    assert arcs.winner[0, order].tolist()[::2] == [1, 0]
    assert torch.rad2deg(arcs.width[order]).tolist() == pytest.approx([135, 90, 135])
    assert arcs.share == pytest.approx(0.75, rel=1e-15)
    assert blind_arcs(network, threshold=0.5).share == 1.0


def test_a_constant_network_is_one_arc():
    module = quadrants()
    module[0].weight.data.zero_()
    module[0].bias.data = torch.tensor([5.0, 0.0]).double()
    arcs = blind_arcs(ff.capture(module, torch.zeros(1, 2)))
    assert len(arcs) == 1
    assert arcs.width.item() == pytest.approx(2 * math.pi)
    assert arcs.share == 1.0
    assert blind_arcs(ff.capture(module, torch.zeros(1, 2)), 0.9999).share == 0.0


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2))
def test_the_origin_makes_no_difference_for_two_inputs(origin):
    arcs, moved = blind_arcs(DYING), blind_arcs(DYING, origin=origin)
    torch.testing.assert_close(arcs.start, moved.start)
    torch.testing.assert_close(arcs.probabilities, moved.probabilities, rtol=0, atol=1e-8)


DYING = ff.capture([dense(seed, 2, 3, 3) for seed in range(4)], torch.zeros(1, 2).double())


def test_directions_in_a_plane_of_more_inputs_where_the_origin_counts():
    network = ff.capture(dense(2, 4, 6, 6, 3), torch.zeros(1, 4, dtype=torch.float64))
    rng = np.random.default_rng(1)
    u, v, origin = rng.normal(size=(3, 4))
    arcs = blind_arcs(network, u=u, v=v, origin=origin)
    far = ff.at_infinity(network, origin, DIRECTIONS[:5000] @ np.stack([u, v]))
    place = np.searchsorted(arcs.start.numpy(), ANGLES[:5000], side="right") - 1
    torch.testing.assert_close(arcs.probabilities[:, place], far.probabilities, rtol=0, atol=1e-9)
    # Inputs that the plane does not move decide for the origin.
    layer = nn.Linear(3, 2, dtype=torch.float64)
    layer.weight.data = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]).double()
    layer.bias.data.zero_()
    still = ff.capture(nn.Sequential(layer), torch.zeros(1, 3).double())
    plane = {"u": [1.0, 0.0, 0.0], "v": [0.0, 1.0, 0.0]}
    assert blind_arcs(still, **plane).share == 0.0
    assert blind_arcs(still, **plane, origin=[0.0, 0.0, 9.0]).share == 1.0


def test_whitened_directions_are_those_of_u_and_v():
    network = ff.capture(quadrants(), torch.zeros(1, 2))
    # Stretched by ten along the second input, class 1 takes more of the circle.
    arcs = blind_arcs(network, u=[1.0, 0.0], v=[0.0, 10.0])
    one = arcs.winner[0] == 1
    expected = math.pi / 2 + math.atan2(10, 1)
    assert arcs.width[one & arcs.blind].sum().item() == pytest.approx(expected)


def test_pictures_of_two_pixels_are_two_inputs():
    module = nn.Sequential(nn.Flatten(), dense(0, 2, 5, 3))
    network = ff.capture(module, torch.zeros(1, 1, 1, 2, dtype=torch.float64))
    flat = ff.capture(module[1], torch.zeros(1, 2, dtype=torch.float64))
    torch.testing.assert_close(blind_arcs(network).start, blind_arcs(flat).start)


def test_bad_input_is_named():
    network = ff.capture(dense(0, 3, 4, 2), torch.zeros(1, 3, dtype=torch.float64))
    with pytest.raises(InputError, match="3 inputs"):
        blind_arcs(network)
    with pytest.raises(InputError, match="both u and v"):
        blind_arcs(network, u=[1.0, 0.0, 0.0])
    with pytest.raises(InputError, match="parallel"):
        blind_arcs(network, u=[1.0, 0.0, 0.0], v=[2.0, 0.0, 0.0])
    with pytest.raises(InputError, match="u is zero"):
        blind_arcs(network, u=[0.0, 0.0, 0.0], v=[2.0, 0.0, 0.0])
    two = ff.capture(dense(0, 2, 4, 2), torch.zeros(1, 2, dtype=torch.float64))
    for threshold in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(InputError, match="threshold"):
            blind_arcs(two, threshold)
    with pytest.raises(InputError, match="origin holds NaN"):
        blind_arcs(two, origin=[float("nan"), 0.0])


def test_overflow_is_an_error():
    module = dense(0, 2, 3, 3, 2)
    for part in module:
        if isinstance(part, nn.Linear):
            part.weight.data *= 1e200
            part.bias.data *= 0
    with pytest.raises(NumericalOverflow):
        blind_arcs(ff.capture(module, torch.zeros(1, 2, dtype=torch.float64)))
