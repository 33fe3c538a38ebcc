"""Points that a network treats alike, and what that proves about regions and planes."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.errors import InputError
from farfield.exact.alike import hulls_alike
from farfield.exact.planar.proof import proven_arcs
from farfield.exact.residues import ResidueDomain, Start
from oracles import far_field


def network(seed: int, bias: bool = True) -> ff.Network:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [nn.Linear(2, 12, bias=bias), nn.ReLU(), nn.Linear(12, 12), nn.ReLU()]
        module = nn.Sequential(*layers, nn.Linear(12, 3)).double()
    return ff.capture(module, torch.zeros(1, 2, dtype=torch.float64))


def hulls(found: ff.Network, points: torch.Tensor, counts: list[int]) -> list[bool]:
    (group,) = found.groups
    error = torch.zeros_like(points)

    def exactly(which: torch.Tensor) -> Start:
        rows = torch.cat([error[which], points[which]])
        return partial(ResidueDomain.read, tensor=rows)

    given = (points,), error, torch.tensor(counts), (1, 3), exactly
    return hulls_alike(group.program, group.instance(0), *given).tolist()


def twins() -> nn.Sequential:
    """Two units that are the same, and a third that is their difference, so zero everywhere."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)]
        module = nn.Sequential(*layers).double()
    for parameter in module[0].parameters():
        parameter.data[1] = parameter.data[0]
    module[2].weight.data[0] = torch.tensor([0.7, -0.7, 0.0, 0.0], dtype=torch.float64)
    module[2].bias.data[0] = 0.0
    return module


def test_polygons_of_a_plane_are_proven_and_pieces_of_two_are_not():
    found = network(0)
    plane = ff.slice_plane(found, [0.1, 0.2], [1.0, 0.0], [0.0, 1.0], 2.0, certify=True)
    assert plane.proven.all()
    assert plane.by_class().proven.all()
    moved = plane.points(plane.centres)
    near = torch.cdist(plane.centres, plane.centres).fill_diagonal_(torch.inf).argmin(dim=1)
    pairs = torch.stack([moved, moved[near]], dim=1).flatten(0, 1)
    assert not any(hulls(found, pairs, [2] * len(plane)))


def test_units_that_are_zero_on_whole_polygons_and_arcs_are_proven_to_be():
    module = twins()
    found = ff.capture(module, torch.zeros(1, 2, dtype=torch.float64))
    plane = ff.slice_plane(found, [0.1, 0.2], [1.0, 0.0], [0.0, 1.0], 2.0, certify=True)
    assert plane.proven.all()
    assert ff.blind_arcs(found, certify=True).proven.all()


def test_units_that_are_all_but_zero_are_not_taken_for_zero():
    module = twins()
    bias = module[2].bias.data
    bias[0] = 2.0**-170
    found = ff.capture(module, torch.zeros(1, 2, dtype=torch.float64))
    plane = ff.slice_plane(found, [0.1, 0.2], [1.0, 0.0], [0.0, 1.0], 2.0, certify=True)
    assert not plane.proven.all()


@pytest.mark.parametrize("seed", range(3))
def test_limits_on_arcs_of_whole_numbers_are_those_of_rational_arithmetic(seed):
    rng = np.random.default_rng(seed)
    module = nn.Sequential(nn.Linear(2, 5), nn.Hardtanh(-1, 2), nn.Linear(5, 4), nn.ReLU())
    module = nn.Sequential(*module, nn.Linear(4, 3)).double()
    for parameter in module.parameters():
        parameter.data = torch.from_numpy(rng.integers(-2, 3, tuple(parameter.shape))).double()
    arcs = ff.blind_arcs(ff.capture(module, torch.zeros(1, 2).double()), certify=True)
    assert arcs.proven.all()
    for place, angle in enumerate((arcs.start + 0.3 * arcs.width).tolist()):
        exact = far_field(module, [0.0, 0.0], [math.cos(angle), math.sin(angle)])
        limits = arcs.probabilities[0, place]
        assert exact.leading == (limits > 0).tolist()
        assert exact.label == int(limits.argmax())


def test_regions_in_which_floats_may_be_wrong_are_not_proven():
    found = network(1)
    points = torch.from_numpy(np.random.default_rng(0).normal(size=(50, 2)))
    region = ff.linearize(found, points, certify=True)
    assert region.certified.all()
    crossing = float(ff.along(found, points[0], [1.0, 0.0])[0].breakpoints[0])
    there = points[0] + torch.tensor([crossing, 0.0], dtype=torch.float64)
    assert not ff.linearize(found, there, certify=True).certified.any()
    assert ff.linearize(found, points).certified is None


def test_a_unit_that_is_zero_at_one_corner_does_not_join_two_regions():
    found = network(2, bias=False)
    points = torch.tensor([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    assert hulls(found, points, [3]) == [False]


def test_what_jumps_is_refused():
    class Jump(nn.Module):
        def forward(self, x):
            return nn.functional.threshold(x, 0.5, -1.0)

    module = nn.Sequential(nn.Linear(2, 2), Jump()).double()
    jumping = ff.capture(module, torch.zeros(1, 2, dtype=torch.float64))
    with pytest.raises(InputError, match="jumps"):
        ff.slice_plane(jumping, [0.0, 0.0], [1.0, 0.0], [0.0, 1.0], 1.0, certify=True)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_arcs_are_proven_where_certified_rays_agree(seed):
    found = network(seed)
    arcs = ff.blind_arcs(found, certify=True)
    assert arcs.proven.all()
    angles = arcs.start + arcs.width * 0.3
    directions = torch.stack([angles.cos(), angles.sin()], dim=1)
    far = ff.at_infinity(found, [0.0, 0.0], directions, certify=True)
    assert far.certified.all()
    assert torch.equal(far.winner, arcs.winner)
    assert ff.blind_arcs(found).proven is None


def test_an_arc_that_holds_two_limits_is_not_proven():
    found = network(3)
    (group,) = found.groups
    arcs = ff.blind_arcs(found)
    frame = torch.cat([torch.eye(2), torch.zeros(1, 2)]).double()
    limits = arcs.probabilities[0]
    args = (found, group.program, group.instance(0), frame)
    wide = proven_arcs(*args, arcs.start[:1], arcs.width[:1] + 0.5, limits[:1])
    wrong = proven_arcs(*args, arcs.start[:1] + 0.01, arcs.width[:1] * 0.1, limits[:1].flip(1))
    assert not wide.any()
    assert not wrong.any()
