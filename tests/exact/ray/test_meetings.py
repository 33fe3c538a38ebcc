"""Breakpoints at which several decisions change at once, against rational arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import farfield as ff
from farfield.exact.ray import meetings
from farfield.exact.ray.proof import LineProof, LineProver
from line_oracle import exact_line
from oracles import Absolute, Pool, Residual

KINDS = {
    "shallow": lambda: [nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 2)],
    "deep": lambda: [nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 2)],
    "max-pool": lambda: [nn.Linear(2, 5), nn.ReLU(), Pool("max", 3), nn.Linear(3, 2)],
    "mean-pool": lambda: [nn.Linear(2, 6), nn.ReLU(), Pool("mean", 3), nn.ReLU(), nn.Linear(4, 2)],
    "absolute": lambda: [nn.Linear(2, 5), Absolute(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2)],
    "clamped": lambda: [nn.Linear(2, 5), nn.Hardtanh(-1, 2), nn.Linear(5, 4), nn.Hardtanh(-1, 1)],
    "leaky": lambda: [nn.Linear(2, 5), nn.LeakyReLU(0.1), nn.Linear(5, 4), nn.LeakyReLU(0.25)],
    "residual": lambda: [
        nn.Linear(2, 3),
        Residual(nn.Sequential(nn.ReLU(), nn.Linear(3, 3))),
        nn.ReLU(),
        Pool("max", 2),
        nn.Linear(2, 2),
    ],
}


def whole(name: str, rng: np.random.Generator) -> nn.Sequential:
    """A network of small whole numbers: its kinks meet all the time."""
    module = nn.Sequential(*KINDS[name]()).double()
    for parameter in module.parameters():
        parameter.data = torch.from_numpy(rng.integers(-3, 4, tuple(parameter.shape))).double()
    return module


def hinges(weights: list[float], biases: list[float]) -> nn.Sequential:
    """One unit for each weight and bias, of one input."""
    module = nn.Sequential(nn.Linear(1, len(weights)), nn.ReLU(), nn.Linear(len(weights), 2))
    module = module.double()
    module[0].weight.data = torch.tensor(weights, dtype=torch.float64)[:, None]
    module[0].bias.data = torch.tensor(biases, dtype=torch.float64)
    return module


def captured(module: nn.Module) -> ff.Network:
    inputs = module[0].in_features
    return ff.capture(module, torch.zeros(1, inputs, dtype=torch.float64))


def proof_of(module: nn.Module, origin: list[float], direction: list[float]) -> LineProof:
    (proof,) = ff.along(captured(module), origin, direction, certify=True)[0].proofs
    return proof


def assert_true(module: nn.Module, proof: LineProof, origin, direction) -> None:
    """Hold what is proven against rational arithmetic."""
    exact = exact_line(module, list(origin), list(direction)).breakpoints
    for proven, low, high in zip(proof.proven.tolist(), *proof.bounds.tolist(), strict=True):
        within = [t for t in exact if Fraction(low) <= t and (high == math.inf or t <= high)]
        assert len(within) == 1 or not proven
    assert not proof.certified or len(exact) == len(proof.proven)


@pytest.mark.parametrize("name", KINDS)
def test_kinks_that_meet_in_networks_of_whole_numbers_are_proven(name):
    rng = np.random.default_rng(1)
    met = 0
    for _ in range(3):
        module = whole(name, rng)
        origin, direction = rng.integers(-3, 4, (2, 2)).astype(float)
        direction[0] += 4.0 * (direction == 0).all()
        proof = proof_of(module, origin, direction)
        assert_true(module, proof, origin, direction)
        assert proof.certified
        met += len(proof.proven)
    assert met > 0


@given(st.integers(0, 2**32 - 1), st.sampled_from(list(KINDS)))
@settings(max_examples=12, deadline=None)
def test_what_is_certified_is_true_of_kinks_that_nearly_meet(seed, name):
    rng = np.random.default_rng(seed)
    module = whole(name, rng)
    for parameter in module.parameters():
        moved = rng.random(tuple(parameter.shape)) < 0.1
        parameter.data += torch.from_numpy(moved * 2.0 ** rng.integers(-52, -40))
    origin, direction = rng.integers(-3, 4, (2, 2)).astype(float)
    direction[0] += 4.0 * (direction == 0).all()
    assert_true(module, proof_of(module, origin, direction), origin, direction)


@pytest.mark.parametrize(
    ("weights", "biases"),
    [
        ([0.3, 0.3, 1.0], [-0.1, -0.1, -0.7]),
        ([0.3, -0.6, 1.0], [-0.1, 0.2, -0.7]),
        ([3.0, 7.0, -9.0], [-1.0, -2.0, 3.0]),
    ],
    ids=["twice the same", "proportional", "thirds"],
)
def test_units_that_switch_together_are_proven(weights, biases):
    module = hinges(weights, biases)
    proof = proof_of(module, [0.0], [1.0])
    assert len(proof.proven) == 2
    assert proof.certified
    assert_true(module, proof, [0.0], [1.0])
    assert bool((proof.bounds[1] - proof.bounds[0] <= 1e-13).all())


@pytest.mark.parametrize("unit", [0, 1])
def test_units_one_bit_apart_are_not_proven_and_the_others_are(unit):
    module = hinges([0.3, 0.3, 1.0], [-0.1, -0.1, -0.7])
    bias = module[0].bias.data
    bias[unit] = torch.nextafter(bias[unit], torch.zeros((), dtype=torch.float64))
    proof = proof_of(module, [0.0], [1.0])
    assert proof.proven.tolist() == [False, True]
    assert proof.end
    assert not proof.certified


def test_equal_candidates_of_a_maximum_are_proven():
    module = nn.Sequential(nn.Linear(2, 4), Pool("max", 3), nn.ReLU(), nn.Linear(2, 2)).double()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for parameter in module.parameters():
            nn.init.normal_(parameter)
    module[0].weight.data[2], module[0].bias.data[2] = (p.data[0] for p in module[0].parameters())
    for direction in ([1.0, 0.3], [-1.0, 0.4], [0.2, -1.0]):
        proof = proof_of(module, [0.1, -0.2], direction)
        assert proof.certified
        assert_true(module, proof, [0.1, -0.2], direction)


def test_a_unit_that_is_zero_on_a_whole_piece_is_proven_to_be():
    module = nn.Sequential(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 2), nn.ReLU()).double()
    module[0].weight.data = torch.tensor([[0.1], [0.1], [1.0]], dtype=torch.float64)
    module[0].bias.data = torch.tensor([-0.3, -0.3, -7.0], dtype=torch.float64)
    module[2].weight.data = torch.tensor([[0.7, -0.7, 0.3], [1, 1, 1]], dtype=torch.float64)
    module[2].bias.data = torch.zeros(2, dtype=torch.float64)
    proof = proof_of(module, [0.0], [1.0])
    assert len(proof.proven) == 2
    assert proof.certified


def test_a_missing_breakpoint_with_a_place_on_it_is_noticed():
    module = hinges([1.0, 1.0, 1.0], [-2.0, -3.0, -4.0])
    network, (origin, direction) = captured(module), torch.tensor([[0.0], [1.0]]).double()
    (group,) = network.groups
    prover = LineProver(network, group.program, group.instance(0))
    for edges in ([0.0, 2.0, 4.0, math.inf], [0.0, 2.0, 2.5, 3.5, 4.0, math.inf]):
        proof = prover.prove(origin[None], direction[None], torch.tensor(edges).double())
        assert not proof.certified
    whole_line = prover.prove(
        origin[None], direction[None], torch.tensor([0.0, 2.0, 3.0, 4.0, math.inf]).double()
    )
    assert whole_line.certified


def test_a_first_crossing_behind_kinks_that_meet_has_bounds():
    module = hinges([0.3, 0.3, -0.6], [-0.1, -0.1, 0.2])
    module[2].weight.data = torch.tensor([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0]], dtype=torch.float64)
    module[2].bias.data = torch.zeros(2, dtype=torch.float64)
    found = ff.first_reaching(captured(module), [0.0], [1.0], 0.9, certify=True)
    low, high = found.bounds
    assert low <= found.t <= high
    assert high - low <= 1e-5
    assert found.t == pytest.approx((math.log(9) / 2 + 0.1) / 0.3)


class _Running(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(dim=1)


def test_operations_without_residues_leave_kinks_that_meet_unproven():
    module = hinges([0.3, 0.3, 1.0], [-0.1, -0.1, -0.7])
    running = nn.Sequential(module[0], _Running(), nn.ReLU(), module[2])
    running[0].weight.data[1:] = 0.0
    running[0].bias.data[1:] = 0.0
    proof = proof_of(running, [0.0], [1.0])
    assert proof.proven.tolist() == [False]


def test_numbers_of_very_many_bits_are_left_unproven(monkeypatch):
    monkeypatch.setattr(meetings, "MOST_BITS", 100)
    module = hinges([0.3, 0.3, 1.0], [-0.1, -0.1, -0.7])
    proof = proof_of(module, [0.0], [1.0])
    assert proof.proven.tolist() == [False, True]
