"""Norms that are written out by hand are the norms that they are."""

import pytest
import torch
from torch import nn

import farfield as ff

aten = torch.ops.aten
GAMMA, BETA = torch.randn(2, 6, generator=torch.Generator().manual_seed(1)).double()


def layer(x):
    centred = x - x.mean(-1, keepdim=True)
    return GAMMA * centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + 0.01) + BETA


def layer_weighed_last(x):
    centred = x - x.mean(1, keepdim=True)
    return centred / (centred * centred).mean(1, keepdim=True).add(0.01).sqrt() * GAMMA + BETA


def root_mean_square(x):
    return GAMMA * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 0.01))


def by_reciprocal(x):
    return x * torch.reciprocal(torch.sqrt(x.square().mean(-1, keepdim=True) + 0.01))


class Written(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(4, 6), norm, nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.norm(self.body(x)))


def targets(norm):
    network = ff.capture(Written(norm).double(), torch.zeros(1, 4, dtype=torch.float64))
    return network, [step.target for step in network.groups[0].program.steps]


@pytest.mark.parametrize(
    ("norm", "target"),
    [
        (layer_weighed_last, aten.layer_norm.default),
        (root_mean_square, aten.rms_norm.default),
        (by_reciprocal, aten.rms_norm.default),
    ],
)
def test_a_written_norm_is_put_together(norm, target):
    network, found = targets(norm)
    assert found == [aten.linear.default, target, aten.linear.default]
    assert network.confidence_cap < 1


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x / torch.sqrt(x.square().mean(1, keepdim=True) + 0.01 * x[:, :1].square()),
        lambda x: x / torch.sqrt(x.flip(1).square().mean(1, keepdim=True) + 0.01),
        lambda x: x / (x.square().mean(1, keepdim=True) + 0.01),
        lambda x: x / torch.sqrt(x.pow(4).mean(1, keepdim=True) + 0.01),
        lambda x: x / torch.sqrt(x.square().sum(1, keepdim=True) + 0.01),
    ],
)
def test_what_is_no_norm_stays_as_it_is(other):
    network, found = targets(other)
    assert not {aten.layer_norm.default, aten.rms_norm.default} & set(found)
    assert network.confidence_cap == 1


def test_weights_in_front_of_the_quotient_are_followed_too():
    network, _ = targets(layer)
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    far = ff.at_infinity(network, x, x.flip(0))
    out = network.outputs(x + 1e9 * x.flip(0))
    torch.testing.assert_close(far.intercept, out, atol=1e-7, rtol=1e-7)
