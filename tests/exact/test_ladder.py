"""The walk in slices against rational arithmetic, and the climb from rung to rung."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.exact.bounded import Magnitudes
from farfield.exact.matrix import ExactBudget
from farfield.exact.rational import walk_exactly
from farfield.exact.sliced import SlicedDomain, SlicedGerm, error_of, floats_of
from farfield.graph.program import walk
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


def made(name: str, seed: int) -> ff.Network:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
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
    network, pair = made(name, seed=slices), rays(slices)
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
