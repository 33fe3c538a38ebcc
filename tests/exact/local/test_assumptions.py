"""Jacobians at infinity and the theorems' assumptions, against regions far out and by hand."""

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.errors import InputError, UnsupportedOperation
from farfield.exact.local import assumptions as assumptions_module
from farfield.exact.local.assumptions import check_assumptions
from farfield.exact.local.jacobian import far_jacobian
from farfield.exact.local.region import linearize
from oracles import Absolute, Pool, Residual
from small_networks import captured, dense

MODELS = {
    "mlp": [dense(0, 3, 8, 8, 4)],
    "one logit": [dense(1, 3, 8, 8, 1)],
    "ensemble": [dense(seed, 3, 6, 6, 3) for seed in range(3)],
    "clamped": [dense(2, 3, 8, 8, 2, act=nn.ReLU6)],
    "absolute": [dense(3, 3, 8, 2, act=Absolute)],
    "pooled": [nn.Sequential(dense(4, 3, 6), Pool("max", 3), dense(5, 4, 4),
                             Residual(dense(6, 4, 4, 4)))],
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_jacobian_is_that_of_a_region_far_out(name):
    network = captured(MODELS[name], 3)
    rng = np.random.default_rng(0)
    origin, direction = (torch.from_numpy(rng.normal(size=(40, 3))) for _ in range(2))
    direction[:6] = torch.cat([torch.eye(3), -torch.eye(3)]).double()
    V = far_jacobian(network, origin, direction)
    far = ff.at_infinity(network, origin, direction)
    assert V.shape == (network.instances, 40, network.classes, 3)
    slope = (V @ direction[None, :, :, None])[..., 0]
    torch.testing.assert_close(slope, far.slope, rtol=0, atol=1e-12)
    for index in range(network.instances):
        t = 2 * far.reach[index, :, None] + 1
        region = linearize(network, origin + t * direction, instance=index)
        torch.testing.assert_close(V[index], region.V, rtol=0, atol=1e-12)
        intercept = (V[index] @ origin[..., None])[..., 0] + region.a
        torch.testing.assert_close(intercept, far.intercept[index], rtol=0, atol=1e-9)


def test_jacobian_needs_no_large_numbers():
    # The last unit switches at t = 1e200, where evaluating the network is hopeless.
    module = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 2)).double()
    module[0].weight.data = torch.tensor([[1.0], [1e-100]], dtype=torch.float64)
    module[0].bias.data = torch.tensor([0.0, -1e100], dtype=torch.float64)
    module[2].weight.data = torch.tensor([[1.0, 0.0], [0.0, 1e100]], dtype=torch.float64)
    V = far_jacobian(captured(module, 1), [0.0], [1.0])
    assert V[0, 0].tolist() == [[1.0], [1.0]]


def hand(weight):
    layer = nn.Linear(len(weight[0]), len(weight), dtype=torch.float64)
    layer.weight.data = torch.tensor(weight, dtype=torch.float64)
    layer.bias.data.zero_()
    return captured(nn.Sequential(layer), len(weight[0]))


def test_zero_entries_and_duplicates_are_listed():
    network = hand([[1.0, 2.0], [1.0, 0.0], [3.0, 2.0]])
    found = check_assumptions(network, [0.0, 0.0], [[1.0, 0.0], [0.0, -1.0], [1.0, 1.0]])
    assert found.zeros.tolist() == [[0, ray, 1, 1] for ray in range(3)]
    assert found.zero_count.tolist() == [[1, 1, 1]]
    # Scaled by the first feature: classes 0 and 1; by the second: 0 and 2; diagonally none.
    assert found.duplicates.tolist() == [[0, 0, 0, 1], [0, 1, 0, 2]]
    assert not found.lemma_1.any()
    assert found.share_with_zeros == 1.0
    assert found.share_with_duplicates == pytest.approx(2 / 3)
    clean = check_assumptions(hand([[1.0, 2.0], [3.0, 4.0]]), [0.0, 0.0], np.eye(2))
    assert clean.proposition_2.all()
    assert clean.theorem_1.all()
    assert len(clean.zeros) == len(clean.duplicates) == 0


def test_tolerance_is_relative_to_the_largest_entry():
    network = hand([[1e6, 1.0], [2e6, 1.0 + 1e-9]])
    directions = np.eye(2)
    assert check_assumptions(network, [0.0, 0.0], directions).proposition_2.all()
    found = check_assumptions(network, [0.0, 0.0], directions, tolerance=1e-5)
    assert found.zero_count.tolist() == [[2, 2]]
    assert found.duplicate_count.tolist() == [[0, 1]]


def test_one_logit_is_not_blamed_for_its_constant_zero():
    network = captured(dense(0, 2, 6, 1), 2)
    directions = torch.from_numpy(np.random.default_rng(0).normal(size=(50, 2)))
    found = check_assumptions(network, [0.0, 0.0], directions)
    V = far_jacobian(network, [0.0, 0.0], directions)[0, :, 1]
    assert torch.equal(found.zero_count[0], (V == 0).sum(dim=1))
    assert (found.zeros[:, 2] == 1).all()
    assert found.lemma_1.any()


def test_dead_regions_break_everything():
    module = dense(0, 2, 4, 3)
    module[0].weight.data = -module[0].weight.data.abs()
    found = check_assumptions(captured(module, 2), [0.0, 0.0], [[1.0, 1.0]])
    assert found.zero_count.tolist() == [[6]]
    assert found.duplicate_count.tolist() == [[3]]
    capped = check_assumptions(captured(module, 2), [0.0, 0.0], [[1.0, 1.0]], entries=2)
    assert len(capped.zeros) == 2
    assert capped.zero_count.tolist() == [[6]]


def test_every_instance_counts():
    modules = [dense(0, 2, 4, 3), dense(1, 2, 4, 3)]
    modules[1][0].weight.data = -modules[1][0].weight.data.abs()
    found = check_assumptions(captured(modules, 2), [0.0, 0.0], [[1.0, 1.0], [-1.0, -1.0]])
    assert found.lemma_1.shape == (2, 2)
    assert found.theorem_1.tolist() == found.lemma_1.all(dim=0).tolist()
    assert not found.lemma_1[1, 0]


def test_chunks_change_nothing(monkeypatch):
    network = captured([dense(seed, 2, 2, 3) for seed in range(3)], 2)
    directions = np.random.default_rng(0).normal(size=(30, 2))
    whole = check_assumptions(network, [0.0, 0.0], directions)
    monkeypatch.setattr(assumptions_module, "BLOCK", 60)
    parts = check_assumptions(network, [0.0, 0.0], directions)
    assert torch.equal(whole.zero_count, parts.zero_count)
    assert sorted(whole.zeros.tolist()) == sorted(parts.zeros.tolist())
    assert len(whole.zeros) > 0


def test_bad_input_is_named():
    network = hand([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(InputError, match="directions are zero"):
        far_jacobian(network, [0.0, 0.0], [[0.0, 0.0]])
    with pytest.raises(InputError, match="rows"):
        far_jacobian(network, np.zeros((2, 2)), np.ones((3, 2)))
    with pytest.raises(InputError, match="tolerance"):
        check_assumptions(network, [0.0, 0.0], [1.0, 0.0], tolerance=1.0)
    smooth = captured(dense(0, 2, 3, 2, act=nn.SiLU), 2)
    with pytest.raises(UnsupportedOperation, match=r"aten\.silu"):
        far_jacobian(smooth, [0.0, 0.0], [1.0, 0.0])
