"""Proofs of lines against rational arithmetic, and that they fail where something is wrong."""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.errors import InputError
from farfield.exact.ray.proof import LineProver
from line_oracle import exact_line
from oracles import Absolute, Pool, Residual

NETWORKS = {
    "shallow": lambda: [nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3)],
    "deep": lambda: [nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3)],
    "leaky": lambda: [nn.Linear(3, 6), nn.LeakyReLU(0.1), nn.Linear(6, 3)],
    "clamped": lambda: [nn.Linear(3, 6), nn.Hardtanh(-0.7, 1.3), nn.Linear(6, 3)],
    "absolute": lambda: [nn.Linear(3, 6), Absolute(), nn.Linear(6, 3)],
    "max-pool": lambda: [nn.Linear(3, 6), nn.ReLU(), Pool("max", 3), nn.Linear(4, 3)],
    "mean-pool": lambda: [nn.Linear(3, 6), nn.ReLU(), Pool("mean", 3), nn.ReLU(), nn.Linear(4, 3)],
    "residual": lambda: [
        nn.Linear(3, 3),
        Residual(nn.Sequential(nn.ReLU(), nn.Linear(3, 3))),
        nn.ReLU(),
        nn.Linear(3, 3),
    ],
}


def made(name: str, seed: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(*NETWORKS[name]()).double()


def captured(module: nn.Module, inputs: int = 3) -> ff.Network:
    return ff.capture(module, torch.zeros(1, inputs, dtype=torch.float64))


@functools.cache
def captured_once(name: str, seed: int) -> ff.Network:
    return captured(made(name, seed))


@pytest.mark.parametrize("name", NETWORKS)
def test_proven_breakpoints_hold_the_exact_ones(name):
    module, rng = made(name, 7), np.random.default_rng(7)
    origin, direction = rng.normal(size=(2, 4, 3))
    origin[0] = 0.0
    lines = ff.along(captured(module), origin, direction, certify=True)
    proven = 0
    for ray, line in enumerate(lines):
        exact = exact_line(module, origin[ray].tolist(), direction[ray].tolist()).breakpoints
        (proof,) = line.proofs
        assert len(exact) == len(line.breakpoints)
        for place, t in enumerate(exact):
            low, high = proof.bounds[:, place].tolist()
            assert Fraction(low) <= t
            assert math.isinf(high) or t <= Fraction(high)
            if proof.proven[place]:
                proven += 1
                assert high - low <= 1e-12 * high
        assert proof.certified == (proof.end and bool(proof.proven.all()))
    assert proven > 0
    assert lines.certified.all()


@pytest.mark.parametrize("name", ["deep", "max-pool", "clamped"])
def test_a_missing_or_invented_breakpoint_is_not_proven(name):
    module, rng = made(name, 3), np.random.default_rng(3)
    origin, direction = (torch.from_numpy(row)[None] for row in rng.normal(size=(2, 3)))
    network = captured(module)
    edges = ff.along(network, origin, direction)[0].edges
    (group,) = network.groups
    prover = LineProver(network, group.program, group.instance(0))
    assert prover.prove(origin, direction, edges).certified
    for place in range(1, len(edges) - 1):
        missing = torch.cat([edges[:place], edges[place + 1 :]])
        assert not prover.prove(origin, direction, missing).certified
        middle = (edges[place - 1] + edges[place]) / 2
        invented = torch.cat([edges[:place], middle[None], edges[place:]])
        assert not prover.prove(origin, direction, invented).certified


def test_units_that_all_but_switch_together_are_not_proven_and_the_others_are():
    module = nn.Sequential(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    module[0].weight.data = torch.tensor([[1.0], [3.0], [1.0]], dtype=torch.float64)
    module[0].bias.data = torch.tensor([-0.1, -0.3, -5.0], dtype=torch.float64)
    module[0].bias.data[1] = 3 * module[0].bias.data[0]
    lines = ff.along(captured(module, 1), [[0.0]], [[1.0]], certify=True)
    (proof,) = lines[0].proofs
    assert proof.proven.tolist() == [False, True]
    assert lines.certified.tolist() == [[False]]


def test_every_instance_has_its_own_proof():
    network = captured([made("deep", 1), made("deep", 2)])
    lines = ff.along(network, [0.1, 0.2, 0.3], torch.eye(3, dtype=torch.float64), certify=True)
    assert lines.certified.shape == (2, 3)
    assert lines.certified.all()
    assert len(lines[1].proofs) == 2
    assert lines.instance(1)[2].proofs[0] is lines[2].instance(1).proofs[0]
    assert ff.along(network, [0.1, 0.2, 0.3], torch.eye(3)).certified is None


@pytest.mark.parametrize("name", ["deep", "absolute", "residual", "leaky"])
@pytest.mark.parametrize("confidence", [0.45, 0.7, 0.99])
def test_bounds_hold_the_first_crossing(name, confidence):
    network, rng = captured_once(name, 5), np.random.default_rng(5)
    for origin, direction in rng.normal(size=(3, 2, 3)):
        found = ff.first_reaching(network, origin, direction, confidence, certify=True)
        low, high = found.bounds
        assert low <= found.t <= high or math.isinf(found.t)
        if math.isinf(found.t):
            continue
        assert high - low <= 1e-5 * max(high, 1e-9)
        grid = torch.linspace(0.0, 1.0, 2000, dtype=torch.float64)[: 1999 if low else 0, None] * low
        rows = torch.from_numpy(origin) + grid * torch.from_numpy(direction)
        assert not low or float(network.probabilities(rows).max()) < confidence + 1e-9
        there = torch.from_numpy(origin + high * direction)[None]
        assert float(network.probabilities(there).max()) >= confidence - 1e-9


def test_a_confidence_that_is_never_reached_is_proven_never_to_be():
    module = made("clamped", 2)
    stopped = ff.first_reaching(captured(module), [0.0] * 3, [1.0] * 3, 0.9999, certify=True)
    assert stopped.t == math.inf
    assert stopped.bounds == (math.inf, math.inf)
    deep = captured(made("deep", 2))
    short = ff.first_reaching(deep, [0.0] * 3, [1.0, 0.0, 0.0], 0.9999, stop=0.5, certify=True)
    assert short.bounds == (math.inf, math.inf)


def test_what_cannot_be_proven_is_refused():
    module = made("deep", 0)
    single = ff.capture(module, torch.zeros(1, 3), dtype=torch.float32)
    with pytest.raises(InputError, match="float64"):
        ff.along(single, [0.0] * 3, [1.0] * 3, certify=True)
    box = ff.Box(-1.0, 1.0)
    with pytest.raises(InputError, match="leaving='stop'"):
        ff.along(captured(module), [0.0] * 3, [1.0] * 3, box=box, leaving="project", certify=True)
    with pytest.raises(InputError, match="skip"):
        ff.first_reaching(captured(module), [0.0] * 3, [1.0] * 3, 0.9, skip=True, certify=True)
