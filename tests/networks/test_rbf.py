"""The certificate of Hein et al. 2019, Theorem 3.2."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from farfield.errors import InputError
from farfield.networks.rbf import RBFNetwork


def network(seed: int, classes: int, size: float, *, unequal: bool) -> RBFNetwork:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(6, 3, generator=generator)
    scale = torch.rand(3, generator=generator) + 0.1 if unequal else torch.ones(3)
    weight = size * torch.randn(classes, 6, generator=generator)
    return RBFNetwork(centres, scale, 0.8, weight).double()


@given(
    seed=st.integers(0, 1000),
    classes=st.integers(2, 5),
    size=st.floats(0.01, 50),
    eps=st.floats(0.001, 0.5),
    unequal=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_no_point_beyond_the_radius_is_sure(
    seed: int, classes: int, size: float, eps: float, unequal: bool
) -> None:
    rbf = network(seed, classes, size, unequal=unequal)
    radius = rbf.certificate_radius(eps)
    generator = torch.Generator().manual_seed(seed + 1)
    # Points on the boundary of the promise: around each centre, at exactly the radius, kept if
    # no other centre is nearer; and far ones.
    directions = torch.nn.functional.normalize(torch.randn(400, 3, generator=generator).double())
    points = torch.cat([c + radius * directions for c in rbf.centres] + [100 * directions])
    nearest = torch.cdist(points, rbf.centres).amin(1)
    points = points[nearest >= radius * (1 - 1e-12)]
    with torch.no_grad():
        gaps = (rbf(points).softmax(-1) - 1 / classes).abs()
    assert len(points) >= 400
    assert float(gaps.max()) <= eps + 1e-9


def test_an_adversary_beyond_the_radius_cannot_win() -> None:
    rbf = network(0, 3, 20.0, unequal=False)
    eps = 0.02
    radius = rbf.certificate_radius(eps)
    worst = 0.0
    for start in range(5):
        generator = torch.Generator().manual_seed(start)
        point = torch.randn(3, generator=generator).double().requires_grad_()
        for _ in range(100):
            confidence = rbf(point[None]).softmax(-1).max()
            (slope,) = torch.autograd.grad(confidence, point)
            with torch.no_grad():
                point += 0.05 * torch.nn.functional.normalize(slope, dim=0)
                # Back out of every ball around a centre.
                for _ in range(50):
                    away = point - rbf.centres
                    lengths = away.norm(dim=1)
                    inside = int(lengths.argmin())
                    if lengths[inside] >= radius:
                        break
                    point.copy_(rbf.centres[inside] + away[inside] / lengths[inside] * radius)
            if float(torch.cdist(point[None].detach(), rbf.centres).min()) >= radius * (1 - 1e-9):
                worst = max(worst, float(rbf(point[None]).detach().softmax(-1).max()))
    assert 1 / 3 < worst <= 1 / 3 + eps


def test_the_radius_is_the_theorems() -> None:
    weight = torch.tensor([[2.0, -1.0], [0.0, 3.0]])
    rbf = RBFNetwork(torch.zeros(2, 2), torch.ones(2), 0.5, weight)
    expected = math.sqrt(math.log((2 + 4) / math.log(1 + 2 * 0.1)) / 0.5)
    assert rbf.certificate_radius(0.1) == pytest.approx(expected)
    assert (
        RBFNetwork(torch.zeros(1, 2), torch.ones(2), 1.0, torch.zeros(2, 1)).certificate_radius(0.1)
        == 0
    )
    with pytest.raises(InputError, match="eps"):
        rbf.certificate_radius(0)


def test_gradients_are_those_of_the_formula_near_and_vanish_far_away() -> None:
    rbf = network(1, 3, 2.0, unequal=True)
    points = torch.randn(5, 3, generator=torch.Generator().manual_seed(3)).double()
    # A point on a centre, and points whose squared distances overflow.
    points = torch.cat(
        [points, rbf.centres[:1], points.new_tensor([[1e200, 0, 0], [0, -1e300, 0]])]
    )
    points.requires_grad_()
    (slopes,) = torch.autograd.grad(rbf(points)[:, 0].sum(), points)
    apart = (points.detach()[:6, None] - rbf.centres) / rbf.scale
    bumps = torch.exp(-rbf.gamma * apart.square().sum(-1)) * rbf.weight[0].detach()
    expected = (-2 * rbf.gamma * bumps[..., None] * apart / rbf.scale).sum(1)
    torch.testing.assert_close(slopes[:6], expected)
    assert slopes[6:].tolist() == [[0.0, 0.0, 0.0]] * 2
