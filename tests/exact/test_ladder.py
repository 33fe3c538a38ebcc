"""The walk in slices against rational arithmetic, and the climb from rung to rung."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.errors import InputError
from farfield.exact import ladder
from farfield.exact.bounded import Magnitudes
from farfield.exact.matrix import ExactBudget
from farfield.exact.rational import walk_exactly
from farfield.exact.sliced import SlicedDomain
from farfield.exact.sliced_germ import SlicedGerm, error_of, floats_of
from farfield.graph.program import walk
from nasty_networks import ARCHITECTURES, nasty, nasty_rays
from oracles import Absolute, Residual

NETWORKS = {
    "linear": lambda: [nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)],
    "deep": lambda: [nn.Linear(5, 6), *[nn.ReLU(), nn.Linear(6, 6)] * 4],
    "leaky": lambda: [nn.Linear(5, 6), nn.LeakyReLU(0.1), nn.Linear(6, 3)],
    "prelu": lambda: [nn.Linear(5, 4), nn.PReLU(4, 0.3), nn.Linear(4, 3)],
    "clamped": lambda: [nn.Linear(5, 6), nn.Hardtanh(-0.7, 1.3), nn.Linear(6, 3)],
    "hard sigmoid": lambda: [nn.Linear(5, 6), nn.Hardsigmoid(), nn.Linear(6, 3)],
    "absolute": lambda: [nn.Linear(5, 6), Absolute(), nn.Linear(6, 3)],
    "residual": lambda: [nn.Linear(5, 4), Residual(nn.Sequential(nn.ReLU(), nn.Linear(4, 4)))],
    "normed": lambda: [nn.BatchNorm1d(5), nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU()],
    "convolution": lambda: [
        nn.Unflatten(1, (1, 5)), nn.Conv1d(1, 3, 2, padding=1), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(3, 2, 2), nn.AvgPool1d(2), nn.Flatten(),
    ],
    "thirds": lambda: [
        nn.Linear(5, 6), nn.ReLU(), nn.Unflatten(1, (2, 3)), nn.AdaptiveAvgPool1d(1),
        nn.Flatten(), nn.Linear(2, 3),
    ],
    "clipped": lambda: [nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 4), nn.ReLU6()],
}  # fmt: skip
RAYS = 4


@cache
def made(name: str) -> ff.Network:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        module = nn.Sequential(*NETWORKS[name]()).double().eval()
        for part in module.modules():
            if isinstance(part, nn.BatchNorm1d):
                part.running_mean.normal_()
                part.running_var.uniform_(0.5, 2.0)
    return ff.capture(module, torch.zeros(1, 5, dtype=torch.float64))


def rays(seed: int) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(RAYS, 5))
    directions[0] = np.eye(5)[0]
    directions[1, 2:] = 0
    return torch.from_numpy(np.concatenate([directions, rng.normal(size=(RAYS, 5))]))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("slices", [1, 2, 4])
def test_what_is_known_in_slices_holds_the_exact_germ(name, slices):
    network, pair = made(name), rays(slices)
    (group,) = network.groups
    constants = group.instance(0)
    budget = ExactBudget(60.0)
    exact, noted, _ = walk_exactly(group.program, constants, pair, {}, budget)
    domain = SlicedDomain(RAYS, pair, Magnitudes([]), slices, {}, budget)
    out = walk(group.program, domain, SlicedGerm(pair, torch.zeros_like(pair)), constants)
    assert domain.certain.all()
    floats, errors = floats_of(out), error_of(out)
    size = float(out.parts.abs().max())
    assert float(errors.max()) <= size * 2.0 ** (-50 if name == "hard sigmoid" else -60)
    for at in np.ndindex(*out.shape):
        value = Fraction(int(exact.numerators[at]), int(exact.denominator))
        found = sum(Fraction(float(part[at])) for part in floats)
        assert abs(found - value) <= Fraction(float(errors[at]))
    low, high = domain.enclosure.numpy()
    assert (low <= noted.reach * (1 + 1e-15)).all()
    assert (noted.reach <= high * (1 + 1e-15)).all()


@pytest.fixture
def slices_alone(monkeypatch):
    """No rational arithmetic: neither first nor last."""
    monkeypatch.setattr(ladder, "SMALL", -1)
    monkeypatch.setattr(ladder, "settle_exactly", lambda *_: None)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_slices_and_residues_agree_with_rational_arithmetic(architecture, request):
    rng = np.random.default_rng(1)
    modules = [nasty(architecture, rng) for _ in range(6)]
    inputs = 4 if architecture == "pool-first" else modules[0][0].in_features
    origin, direction = nasty_rays(inputs, rng)
    network = ff.capture(modules, torch.zeros(1, inputs, dtype=torch.float64))
    single = ff.at_infinity(network, origin, direction, certify=True, budget=0)
    exact = ff.at_infinity(network, origin, direction, certify=True, budget=60)
    request.getfixturevalue("slices_alone")
    far = ff.at_infinity(network, origin, direction, certify=True, budget=60)
    assert exact.certified.all()
    assert far.certified.sum() > single.certified.sum()
    # Scales of 1e30 are beyond what slices hold; everything else is proven.
    assert far.certified.double().mean() > 0.9
    proven = far.certified
    assert torch.equal(far.leading[proven], exact.leading[proven])
    assert torch.equal(far.winner[proven], exact.winner[proven])
    low, high = far.reach_bounds[:, proven]
    assert bool((low <= exact.reach[proven] * (1 + 1e-15)).all())
    assert bool((exact.reach[proven] <= high * (1 + 1e-15)).all())
    size = exact.slope.abs().amax(dim=-1, keepdim=True)
    assert bool(((far.slope - exact.slope).abs() <= 1e-14 * size)[proven].all())


def sums(*rows: list[float]) -> ff.Network:
    """Two logits: each the sum of ReLUs of products with the same weights, in this order."""
    layer = nn.Linear(len(rows[0]), len(rows), dtype=torch.float64)
    layer.weight.data, layer.bias.data = torch.tensor(rows, dtype=torch.float64), torch.zeros(2)
    last = nn.Linear(2, 2, bias=False, dtype=torch.float64)
    last.weight.data = torch.eye(2, dtype=torch.float64)
    module = nn.Sequential(layer.double(), nn.ReLU(), last)
    return ff.capture(module, torch.zeros(1, len(rows[0]), dtype=torch.float64))


def test_a_tie_is_proven_to_be_one(slices_alone):
    network = sums([0.1, 0.7, 0.3, 1e9], [0.3, 0.1, 0.7, 1e9])
    direction = torch.tensor([[1 / 3, 1 / 3, 1 / 3, 0.1]], dtype=torch.float64)
    single = ff.at_infinity(network, torch.zeros(4), direction, certify=True, budget=0)
    far = ff.at_infinity(network, torch.zeros(4), direction, certify=True)
    assert not single.certified.any()
    assert far.certified.all()
    assert far.leading.tolist() == [[[True, True]]]
    assert far.winner.tolist() == [[0]]


@pytest.mark.parametrize("bits", [60, 120, 200])
def test_what_only_looks_like_a_tie_is_not_taken_for_one(bits, slices_alone):
    small = 2.0**-bits
    network = sums([1.0, 1.0, small, 0.0], [1.0, 1.0, 0.0, small])
    direction = torch.tensor([[1.0, 1 / 3, 1.0, 1.5]], dtype=torch.float64)
    far = ff.at_infinity(network, torch.zeros(4), direction, certify=True)
    assert far.certified.all()
    assert far.leading.tolist() == [[[False, True]]]


def test_a_deep_network_climbs_until_it_is_proven(slices_alone):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        layers = [nn.Linear(24, 24, bias=False) for _ in range(48)]
        module = nn.Sequential(*[part for each in layers for part in (each, nn.ReLU())]).double()
    for layer in layers:
        layer.weight.data *= 3.0
    network = ff.capture(module, torch.zeros(1, 24, dtype=torch.float64))
    direction = torch.from_numpy(np.random.default_rng(0).normal(size=(3, 24)))
    single = ff.at_infinity(network, torch.zeros(24), direction, certify=True, budget=0)
    far = ff.at_infinity(network, torch.zeros(24), direction, certify=True)
    assert not single.certified.any()
    assert far.certified.all()


@pytest.mark.parametrize("budget", [-1, "fast", ff.Passes(-2), True, float("nan")])
def test_budgets_are_numbers(budget):
    network = sums([1.0, 2.0], [2.0, 1.0])
    with pytest.raises(InputError, match="number of seconds, or farfield"):
        ff.at_infinity(network, [0.0, 0.0], [1.0, 1.0], certify=True, budget=budget)


def test_no_forward_passes_are_single_floats_alone():
    network = sums([0.1, 0.7, 0.3, 1e9], [0.3, 0.1, 0.7, 1e9])
    direction = torch.tensor([[1 / 3, 1 / 3, 1 / 3, 0.1]], dtype=torch.float64)
    far = ff.at_infinity(network, torch.zeros(4), direction, certify=True, budget=ff.Passes(0))
    assert not far.certified.any()
    plenty = ff.Passes(100_000)
    far = ff.at_infinity(network, torch.zeros(4), direction, certify=True, budget=plenty)
    assert far.certified.all()
