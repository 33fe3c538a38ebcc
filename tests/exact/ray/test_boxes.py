"""Boxes hold what they enclose; narrowing loses no place at which a class is lost."""

import pytest
import torch
from torch import nn

import farfield as ff
from farfield.exact.ray.loss import Overtaken, Unsure, others
from farfield.exact.ray.narrowing import Narrowing


class Largest(nn.Module):
    def forward(self, x):
        return torch.maximum(x[:, ::2], x[:, 1::2])


LAYERS = {
    "relu": (nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 3)),
    "kinks": (nn.Linear(3, 12), nn.Hardtanh(), nn.LeakyReLU(), nn.Linear(12, 3)),
    "largest": (nn.Linear(3, 12), Largest(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3)),
    "one": (nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 1)),
}


def case(name, loss):
    generator = torch.Generator().manual_seed(5)
    torch.manual_seed(5)
    network = ff.capture(nn.Sequential(*LAYERS[name]), torch.zeros(1, 3))
    group = network.groups[0]
    origins, directions = torch.randn(2, 40, 3, generator=generator, dtype=torch.float64)
    return network, Narrowing(network, group.program, group.instance(0), loss), origins, directions


@pytest.mark.parametrize("width", [0.0, 0.01, 3.0])
@pytest.mark.parametrize("name", LAYERS)
def test_chord_and_box_hold_every_value_over_a_window(name, width):
    network, narrowing, origins, directions = case(name, Overtaken())
    ends = torch.cat([origins, origins + width * directions])
    found = narrowing.enclose(ends, ends.abs().unflatten(0, (2, -1)).sum(dim=0))
    start, stop = found.ends
    for share in torch.linspace(0, 1, 21, dtype=torch.float64):
        values = network.groups[0].forward(origins + share * width * directions)[0]
        apart = (values - torch.lerp(start, stop, share)).abs()
        assert bool((apart <= found.box).all())


@pytest.mark.parametrize("loss", [Overtaken(), Unsure(0.4)])
@pytest.mark.parametrize("name", LAYERS)
def test_above_the_stretch_that_is_left_no_class_is_lost(name, loss):
    network, narrowing, origins, directions = case(name, loss)
    high = torch.full((40,), 50.0, dtype=torch.float64)
    logits = network.logits(origins + 50.0 * directions)[0]
    label = logits.argmax(dim=-1)
    kept = loss.at(others(logits, label)) <= 0
    low, top = narrowing.narrow(origins, directions, high, label)
    assert bool((low[kept] <= top[kept]).all())
    assert bool((top[kept] < 50.0).any())

    def lost(t):
        return loss.at(others(network.logits(origins + t[:, None] * directions)[0], label)) > 0

    assert bool((lost(low) | (low == 0))[kept].all())
    for share in torch.linspace(0, 1, 101, dtype=torch.float64):
        assert not bool(lost(torch.lerp(top, high, share))[kept & (top < high)].any())
