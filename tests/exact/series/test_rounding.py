"""What is zero but for rounding counts as zero; what is small but true does not, however deep."""

import torch
from torch import nn

import farfield as ff
from farfield.exact.series.domain import SeriesDomain
from farfield.exact.series.value import Series
from farfield.graph.rules import Pieces


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(
            x + self.first(x) * torch.sigmoid(self.second(x.mean(1, keepdim=True).expand_as(x)))
        )


def test_directions_that_move_all_features_alike_are_centred_away():
    torch.manual_seed(0)
    model = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 3)).double()
    network = ff.capture(model, torch.zeros(2, 6))
    origin = torch.randn(3, 6, dtype=torch.float64)
    far = ff.at_infinity(network, origin, torch.full((6,), 0.1, dtype=torch.float64))
    # A layer norm does not see what all features have in common.
    torch.testing.assert_close(far.intercept[0], model(origin).detach(), rtol=1e-9, atol=1e-9)


def test_deep_networks_keep_their_slopes():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), *(Gate(16) for _ in range(20)), nn.Linear(16, 3))
    model = model.double().eval()
    for parameter in model.parameters():
        parameter.data *= 1.5
    network = ff.capture(model, torch.zeros(2, 4))
    origin, direction = torch.randn(2, 8, 4, dtype=torch.float64)
    far = ff.at_infinity(network, origin, direction)
    assert not bool(far.doubtful.any())
    steep = model(origin + 1e9 * direction).detach() / 1e9
    torch.testing.assert_close(far.slope[0], steep, rtol=1e-6, atol=1e-6 * float(steep.abs().max()))


def test_doubtful_rays_that_the_network_contradicts_are_undecided(monkeypatch):
    monkeypatch.setattr("farfield.exact.series.domain.SAFETY", 1e17)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), Gate(8), nn.Linear(8, 3)).double()
    network = ff.capture(model, torch.zeros(2, 4))
    far = ff.at_infinity(network, torch.zeros(4), torch.randn(3, 4), undecided="mark")
    assert bool(far.doubtful.all())
    assert bool(far.undecided.all())


def test_no_decision_looks_below_what_is_known():
    domain = SeriesDomain(2, torch.zeros(1, dtype=torch.float64))
    ones = torch.ones(2, 3, dtype=torch.float64)
    bottom = torch.tensor([1.0, -torch.inf], dtype=torch.float64)
    flags = torch.zeros(2, dtype=torch.bool)
    value = Series(ones.shape, {1: 0 * ones, 0: -ones}, {}, bottom, flags)
    assert value.term(0).tolist() == [[0.0] * 3, [-1.0] * 3]
    relu = domain.piecewise(value, Pieces.hinge(0.0))
    # What is below order 1 of the first ray may be positive: the result is not known there either.
    assert relu.bottom.tolist() == [1.0, -torch.inf]
