"""Certificates of series: what is proven, and what must not be."""

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

import farfield as ff
from farfield.exact.series import tube, tube_domain
from farfield.exact.series.settling import Bundle
from growth_referee import Fixture, rays


class Cancelled(nn.Module):
    """A norm of what would be zero but for rounding."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.layer, self.thrice = (nn.Linear(3, 4, dtype=torch.float64) for _ in range(2))
        self.layer.weight.data = torch.randn(4, 3, generator=generator, dtype=torch.float64)
        self.thrice.weight.data = self.layer.weight.data * 3

    def forward(self, x):
        return F.layer_norm(self.layer(x) * 3 - self.thrice(x), (4,))


def test_what_may_be_rounding_is_not_certified(monkeypatch):
    origin, direction = rays()
    network = ff.capture(Cancelled(), origin)
    assert not bool(ff.at_infinity(network, origin, direction, certify=True).certified.any())
    # Whoever forgets errors takes rounding for a leading order.
    monkeypatch.setattr(tube, "gamma", lambda terms: 0.0)
    monkeypatch.setattr(tube_domain, "gamma", lambda terms: 0.0)
    start = torch.full((4,), 1e30, dtype=torch.float64)
    group = network.groups[0]
    assert bool(Bundle(group, 0, origin, direction).bounds(start, 0).certain.any())


class Blind(nn.Module):
    """Sees the first two of three features."""

    def __init__(self):
        super().__init__()
        self.layer, self.last = (nn.Linear(n, 2, dtype=torch.float64) for n in (3, 2))
        for place, parameter in enumerate(self.parameters()):
            generator = torch.Generator().manual_seed(place)
            parameter.data = torch.randn(parameter.shape, generator=generator).double()
        self.layer.weight.data[:, 2] = 0.0

    def forward(self, x):
        return self.last(F.layer_norm(self.layer(x).relu(), (2,)) * 2)


def test_structural_zeros_are_proven():
    network = ff.capture(Blind(), torch.zeros(1, 3, dtype=torch.float64))
    far = ff.at_infinity(network, [1.0, 2.0, 3.0], [[0.0, 0.0, 1.0]], certify=True)
    assert bool(far.certified.all())
    torch.testing.assert_close(
        far.intercept[0], network.logits(torch.tensor([[1.0, 2.0, 3.0]]).double())[0]
    )


class Twins(nn.Module):
    """Two logits that are the same."""

    def forward(self, x):
        one = F.layer_norm(x, (3,))[:, :1]
        return torch.cat([one, one], 1)


def test_ties_are_not_certified():
    origin, direction = rays()
    network = ff.capture(Twins(), origin)
    assert not bool(ff.at_infinity(network, origin, direction, certify=True).certified.any())


def test_members_and_single_logits():
    origin, direction = rays()
    fixtures = [Fixture((4,), lambda x: x * torch.sigmoid(x.flip(1)), seed) for seed in (1, 2)]
    members = [nn.Sequential(each, nn.Linear(3, 1, dtype=torch.float64)) for each in fixtures]
    far = ff.at_infinity(ff.capture(members, origin), origin, direction, certify=True)
    assert far.certified.shape == (2, 4)
    assert bool(far.certified.all())
