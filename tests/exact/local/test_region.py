"""Regions around points: autograd, linear programs, rational arithmetic, brute force."""

import functools
import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch import nn

from farfield.errors import InputError, NumericalOverflow, UnsupportedOperation
from farfield.exact.local import jacobian as jacobian_module
from farfield.exact.local import polytope
from farfield.exact.local import region as region_module
from farfield.exact.local.region import linearize
from oracles import Decisions, interpret
from small_networks import captured, dense


class Picture(nn.Module):
    """Convolution, padded max pooling, a residual, two-sided clamps."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 2, 3, padding=1)
        self.second = nn.Conv2d(2, 2, 3, padding=1)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        y = F.max_pool2d(F.hardtanh(self.first(x)), 3, 2, 1)
        y = y + F.leaky_relu(self.second(y), 0.1)
        return self.out(y.flatten(1)).abs()


def points(count, *shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(count, *shape, generator=generator, dtype=torch.float64)


torch.manual_seed(0)
MODELS = {
    "mlp": (dense(0, 3, 8, 8, 4), (3,)),
    "one logit": (dense(1, 3, 8, 8, 1), (3,)),
    "relu6": (dense(2, 3, 8, 8, 2, act=nn.ReLU6), (3,)),
    "leaky": (dense(3, 3, 8, 8, 2, act=lambda: nn.LeakyReLU(0.2)), (3,)),
    "picture": (Picture().double(), (1, 4, 4)),
}


@pytest.fixture(params=MODELS, scope="module")
def case(request):
    module, shape = MODELS[request.param]
    return module, captured(module, *shape), points(6, *shape)


def test_affine_maps_equal_autograd(case):
    module, network, x = case
    region = linearize(network, x)
    expected = torch.stack(
        [
            torch.autograd.functional.jacobian(lambda z: module(z[None])[0], each).flatten(1)
            for each in x
        ]
    )
    if network.one_logit:
        assert (region.V[:, 0] == 0).all()
        assert (region.a[:, 0] == 0).all()
    torch.testing.assert_close(region.V[:, -expected.shape[1] :], expected)
    assert region.V.shape == (len(x), network.classes, x[0].numel())
    logits = (region.V @ x.flatten(1)[..., None])[..., 0] + region.a
    torch.testing.assert_close(logits, network.logits(x)[0])


def test_half_spaces_describe_where_the_affine_map_holds(case):
    _, network, x = case
    region = linearize(network, x)
    rng = np.random.default_rng(0)
    agree = {True: 0, False: 0}
    for index in range(len(x)):
        A, b = region.halfspaces(index)
        flat = x[index].flatten()
        assert (A @ flat <= b + 1e-12).all()
        scale = torch.from_numpy(10.0 ** rng.uniform(-3, 0.5, 300))
        z = flat + scale[:, None] * torch.from_numpy(rng.normal(size=(300, len(flat))))
        inside = (z @ A.T <= b).all(dim=1)
        alone = linearize(network, x[index])
        assert torch.equal(alone.contains(z.reshape(-1, *x.shape[1:])), inside)
        own = linearize(network, z[inside].reshape(-1, *x.shape[1:]))
        torch.testing.assert_close(own.V, region.V[index].expand_as(own.V), rtol=0, atol=1e-12)
        for outside in (True, False):
            agree[outside] += int((inside == outside).sum())
    assert min(agree.values()) > 50


def test_counts_of_half_spaces():
    network = captured(dense(0, 3, 8, 8, 4), 3)
    assert linearize(network, points(1, 3)).halfspaces(0)[0].shape == (16, 3)
    # Between its two thresholds a clamped unit has two half-spaces, beyond them one.
    module = nn.Sequential(nn.Linear(2, 2), nn.Hardtanh())
    module[0].weight.data, module[0].bias.data = torch.eye(2), torch.zeros(2)
    network = captured(module.double(), 2)
    for x, expected in (([0.0, 0.5], 4), ([0.0, 5.0], 3), ([-5.0, 5.0], 2)):
        assert len(linearize(network, x).halfspaces(0)[1]) == expected

    class Largest(nn.Module):
        def forward(self, x):
            return F.max_pool1d(x[:, None], 3, 2, 1)[:, 0]

    # Two windows over four places; the first sees two elements, the second three.
    A, b = linearize(captured(Largest(), 4), [4.0, 3.0, 2.0, 1.0]).halfspaces(0)
    assert sorted(A.tolist()) == sorted(
        [[-1.0, 1.0, 0.0, 0.0], [0.0, -1.0, 1.0, 0.0], [0.0, -1.0, 0.0, 1.0]]
    )
    assert b.tolist() == [0.0, 0.0, 0.0]


def test_balls_reach_the_nearest_facet(case):
    _, network, x = case
    region = linearize(network, x)
    for norm, dual in (("l2", 2), ("linf", 1)):
        radius = region.radius(norm)
        for index in range(len(x)):
            A, b = region.halfspaces(index)
            length = torch.linalg.vector_norm(A, dual, dim=1)
            gaps = ((b - A @ x[index].flatten()) / length)[length > 0]
            assert radius[index].item() == pytest.approx(gaps.min().item(), rel=1e-9)


def test_rays_leave_where_the_distance_says(case):
    _, network, x = case
    region = linearize(network, x)
    direction = points(len(x), *x.shape[1:], seed=5)
    t = region.distance(direction)
    assert torch.equal(region.is_bounded(direction), torch.isfinite(t))
    wide = t.clamp(max=1e6).reshape(-1, *[1] * (x.ndim - 1))
    assert region.contains(x + 0.999 * wide * direction).all()
    ended = torch.isfinite(t)
    assert not region.contains(x + 1.001 * wide * direction)[ended].any()
    for index in range(len(x)):
        A, b = (each.numpy() for each in region.halfspaces(index))
        speed = A @ direction[index].flatten().numpy()
        found = linprog([-1.0], A_ub=speed[:, None], b_ub=b - A @ x[index].flatten().numpy())
        assert (found.status == 3) == (not ended[index])
        if ended[index]:
            assert t[index].item() == pytest.approx(found.x[0], rel=1e-6, abs=1e-9)


def unbounded_by_programs(A, b):
    """Two linear programs for each coordinate: how far does the region reach?"""
    for sign, place in itertools.product((1, -1), range(A.shape[1])):
        goal = np.zeros(A.shape[1])
        goal[place] = sign
        if linprog(goal, A_ub=A, b_ub=b, bounds=(None, None)).status == 3:
            return True
    return False


def test_bounded_regions_against_linear_programs():
    network = captured(dense(4, 2, 6, 6, 2), 2)
    region = linearize(network, points(60, 2))
    bounded = region.is_bounded()
    for index in range(len(region)):
        A, b = (each.numpy() for each in region.halfspaces(index))
        assert bounded[index] == (not unbounded_by_programs(A, b))
    assert 5 < bounded.sum() < 55


def test_redundant_half_spaces_are_left_out():
    network = captured(dense(6, 3, 10, 10, 2), 3)
    region = linearize(network, points(5, 3))
    for index in range(5):
        A, b = (each.numpy() for each in region.halfspaces(index))
        few, limits = (each.numpy() for each in region.halfspaces(index, minimal=True))
        assert len(few) < len(A)
        for row, limit in zip(A, b, strict=True):
            if not row.any():
                continue
            found = linprog(-row, A_ub=few, b_ub=limits, bounds=(None, None))
            assert found.status == 0
            assert -found.fun <= limit + 1e-7 * np.linalg.norm(row)
        for place in range(len(few)):
            others = np.delete(np.arange(len(few)), place)
            found = linprog(-few[place], A_ub=few[others], b_ub=limits[others], bounds=(None, None))
            assert found.status == 3 or -found.fun > limits[place] + 1e-9


def test_a_tiny_region_keeps_its_facets():
    A = 1e-3 * np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [1.0, 1.0]])
    b = 1e-3 * np.array([1e-8, 1e-8, 1e-8, 1e-8, 1.9e-8])
    assert polytope.facets(A, b, np.zeros(2)).tolist() == [0, 1, 2, 3, 4]
    b[-1] = 2.1e-11
    assert polytope.facets(A, b, np.zeros(2)).tolist() == [0, 1, 2, 3]


def test_a_region_without_interior_keeps_what_it_needs():
    A = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    kept = polytope.facets(A, np.array([0.0, 0.0, 1.0, 1.0]), np.zeros(2)).tolist()
    assert kept == [0, 1, 3]


def identity(bias=(0.0, 0.0)):
    layer = nn.Linear(2, 2, dtype=torch.float64)
    layer.weight.data, layer.bias.data = torch.eye(2).double(), torch.tensor(bias).double()
    return captured(nn.Sequential(layer, nn.ReLU()), 2)


def test_a_point_on_a_facet_belongs_to_the_lower_piece():
    region = linearize(identity(), [[0.0, 1.0], [0.0, 0.0], [-1.0, 1.0]])
    assert region.V.tolist() == [[[0.0, 0.0], [0.0, 1.0]], [[0.0, 0.0]] * 2, region.V[0].tolist()]
    assert region.radius().tolist() == [0.0, 0.0, 1.0]
    assert region.contains(region.x).all()
    # Closed: what lies on a facet is in; either neighbour contains it.
    assert linearize(identity(), [1.0, 1.0]).contains([[0.0, 1.0], [-1e-300, 1.0]]).tolist() == [
        True,
        False,
    ]
    both = nn.Sequential(nn.Linear(1, 2), nn.ReLU())
    both[0].weight.data, both[0].bias.data = torch.tensor([[1.0], [-1.0]]), torch.zeros(2)
    edge = linearize(captured(both.double(), 1), [0.0])
    assert edge.V.tolist() == [[[0.0], [0.0]]]
    assert edge.contains([[0.0], [1e-9], [-1e-9]]).tolist() == [True, False, False]
    assert edge.is_bounded().tolist() == [True]


def test_dead_units_have_zero_rows_and_no_facet():
    network = identity((-1.0, 0.0))
    network.groups[0].shared[next(iter(network.groups[0].shared))].zero_()
    region = linearize(network, [[3.0, 4.0]])
    A, b = region.halfspaces(0)
    assert A.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert (b >= 0).all()
    assert region.radius().tolist() == [float("inf")]
    assert region.is_bounded([1.0, 0.0]).tolist() == [False]
    assert region.is_bounded().tolist() == [False]
    assert region.halfspaces(0, minimal=True)[0].shape == (0, 2)
    assert region.contains([[1e12, -1e12]]).tolist() == [True]


def test_no_units_means_the_whole_space():
    region = linearize(captured(nn.Sequential(nn.Linear(2, 2)).double(), 2), [[1.0, 2.0]])
    assert region.halfspaces(0)[0].shape == (0, 2)
    assert region.contains([[9.0, 9.0]]).all()
    assert region.radius("linf").tolist() == [float("inf")]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-20, 20), min_size=2, max_size=2), st.integers(0, 3))
def test_regions_contain_exactly_the_points_with_the_same_rational_decisions(place, seed):
    module, network = integers(seed)
    x = [1.0, 2.0]
    here, there = Decisions(), Decisions()
    interpret(module, [Fraction(v) for v in x], here)
    z = [v / 4 for v in place]
    interpret(module, [Fraction(v) for v in z], there)
    inside = bool(linearize(network, x).contains([z])[0])
    if here.outcomes == there.outcomes:
        assert inside
    elif inside:
        # Closed regions share facets: some unit must be exactly zero at z.
        A, b = linearize(network, x).halfspaces(0)
        assert (A @ torch.tensor(z, dtype=torch.float64) == b).any()


@functools.cache
def integers(seed):
    rng = np.random.default_rng(seed)
    module = dense(0, 2, 4, 4, 2)
    for part in module:
        if isinstance(part, nn.Linear):
            part.weight.data = torch.from_numpy(rng.integers(-2, 3, part.weight.shape)).double()
            part.bias.data = torch.from_numpy(rng.integers(-2, 3, part.bias.shape)).double()
    return module, captured(module, 2)


def test_chunks_change_nothing(monkeypatch):
    network = captured(Picture().double(), 1, 4, 4)
    x, z = points(7, 1, 4, 4), points(7, 1, 4, 4, seed=1)

    def everything():
        region = linearize(network, x)
        return (
            region.V, region.a, *region.halfspaces(3), region.contains(x + 1e-3 * z),
            region.distance(z), region.radius(), region.radius("linf"),
        )  # fmt: skip

    whole = everything()
    monkeypatch.setattr(region_module, "KEPT_ELEMENTS", 3000)
    monkeypatch.setattr(jacobian_module, "KEPT_ELEMENTS", 3000)
    for one, other in zip(whole, everything(), strict=True):
        torch.testing.assert_close(one, other)


def test_instances_are_named():
    network = captured([dense(seed, 2, 3, 2) for seed in range(2)], 2)
    with pytest.raises(InputError, match="2 instances"):
        linearize(network, [0.0, 0.0])
    first, second = (linearize(network, [[0.5, 0.5]], instance=i) for i in range(2))
    assert not torch.equal(first.V, second.V)
    torch.testing.assert_close(
        torch.stack([(r.V @ r.x[0])[0] + r.a[0] for r in (first, second)]),
        network.logits([[0.5, 0.5]])[:, 0],
    )


def test_bad_input_is_named():
    network = captured(dense(0, 2, 3, 2), 2)
    region = linearize(network, points(3, 2))
    with pytest.raises(InputError, match="NaN"):
        linearize(network, [[0.0, float("nan")]])
    with pytest.raises(InputError, match="zero row"):
        region.distance([[0.0, 0.0]])
    with pytest.raises(InputError, match=r"2 rows for the regions of 3"):
        region.contains(points(2, 2))
    with pytest.raises(InputError, match="no point 3"):
        region.halfspaces(3)
    with pytest.raises(InputError, match="norm"):
        region.radius("l1")
    with pytest.raises(UnsupportedOperation, match=r"aten\.sigmoid"):
        linearize(captured(dense(0, 2, 3, 2, act=nn.Sigmoid), 2), [0.0, 0.0])
    assert torch.equal(region.halfspaces(-1)[0], region.halfspaces(2)[0])


def test_overflow_is_an_error():
    module = dense(0, 2, 3, 2)
    for part in module:
        if isinstance(part, nn.Linear):
            part.weight.data *= 1e200
            part.bias.data *= 0
    with pytest.raises(NumericalOverflow):
        linearize(captured(module, 2), [[1.0, 1.0]])
