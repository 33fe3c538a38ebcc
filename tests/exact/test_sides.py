"""Jumps that are met at an asymptote: the side decides, against evaluations in many digits."""

import dataclasses

import mpmath
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

import farfield as ff
from campaigns.mutants import broken
from farfield.errors import UndecidedLimit, UnsupportedOperation
from farfield.graph.rules import RULES

# function, the same in mpmath, its limits below and above where they are finite
CURVES = {
    "sigmoid": (torch.sigmoid, lambda x: 1 / (1 + mpmath.exp(-x)), 0.0, 1.0),
    "tanh": (torch.tanh, mpmath.tanh, -1.0, 1.0),
    "softsign": (F.softsign, lambda x: x / (1 + abs(x)), -1.0, 1.0),
    "silu": (F.silu, lambda x: x / (1 + mpmath.exp(-x)), 0.0, None),
    "mish": (F.mish, lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))), 0.0, None),
    "log-sigmoid": (F.logsigmoid, lambda x: -mpmath.log1p(mpmath.exp(-x)), None, 0.0),
    "softplus": (F.softplus, lambda x: mpmath.log1p(mpmath.exp(x)), 0.0, None),
    "softplus-falling": (
        lambda x: F.softplus(x, -2.0),
        lambda x: mpmath.log1p(mpmath.exp(-2 * x)) / -2,
        None,
        0.0,
    ),
    "gelu": (F.gelu, lambda x: x * mpmath.ncdf(x), 0.0, None),
    "gelu-tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: x / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + 0.044715 * x**3))),
        0.0,
        None,
    ),
    "elu": (lambda x: F.elu(x, 1.5), lambda x: x if x > 0 else 1.5 * mpmath.expm1(x), -1.5, None),
    "elu-turned": (
        lambda x: F.elu(x, -0.5),
        lambda x: x if x > 0 else -0.5 * mpmath.expm1(x),
        0.5,
        None,
    ),
    "celu": (
        lambda x: F.celu(x, 0.5),
        lambda x: x if x > 0 else mpmath.expm1(x / 0.5) / 2,
        -0.5,
        None,
    ),
    "hardswish": (F.hardswish, lambda x: x * min(max(x + 3, 0), 6) / 6, 0.0, None),
}
LIMITS = [
    (name, moving, limit)
    for name, (_, _, *limits) in CURVES.items()
    for moving, limit in zip((-1.0, 1.0), limits, strict=True)
    if limit is not None
]


class Jump(nn.Module):
    """``outer(threshold(inner(x), limit, other))`` and a constant beside it."""

    def __init__(self, inner, limit, other=5.0, outer=lambda x: x):
        super().__init__()
        self.inner, self.limit, self.other, self.outer = inner, limit, other, outer

    def forward(self, x):
        jumped = F.threshold(self.inner(x), self.limit, self.other)
        return torch.cat([self.outer(jumped), x * 0 + 2.0], -1)


def limits(module, directions):
    """Intercepts with and without proofs, which agree; also whether all is certified."""
    network = ff.capture(module, torch.zeros(1, 1).double())
    plain = ff.at_infinity(network, [0.25], directions)
    proven = ff.at_infinity(network, [0.25], directions, certify=True)
    assert torch.equal(plain.label, proven.label)
    torch.testing.assert_close(plain.intercept, proven.intercept)
    return plain.intercept[0, :, 0].tolist(), bool(proven.certified.all())


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("name", "moving", "limit"), LIMITS)
def test_a_jump_at_an_asymptote_is_decided_by_the_side(name, moving, limit, turned):
    function, precise, *_ = CURVES[name]
    sign = -1.0 if turned else 1.0
    module = Jump(lambda x: sign * function(x), sign * limit)
    with mpmath.workdps(2000):
        value = sign * precise(mpmath.mpf(moving) * 20 + 0.25)
        expected = sign * limit if value > sign * limit else 5.0
    (found,), certified = limits(module, [[moving]])
    assert found == expected
    assert certified


@pytest.mark.parametrize(("name", "moving", "limit"), LIMITS)
def test_a_wrong_side_is_noticed(name, moving, limit):
    """Break the side in the rule: the limit that a jump sees is another one."""

    def other_side(curve):
        ends = (dataclasses.replace(end, side=-end.side) for end in (curve.below, curve.above))
        return dataclasses.replace(curve, **dict(zip(("below", "above"), ends, strict=True)))

    network = ff.capture(Jump(CURVES[name][0], limit), torch.zeros(1, 1).double())
    (step,) = (s for s in network.groups[0].program.steps if RULES[s.target].kind == "smooth")
    right = ff.at_infinity(network, [0.25], [[moving]]).intercept[0, 0, 0]
    with broken(step.target, "smooth", other_side):
        wrong = ff.at_infinity(network, [0.25], [[moving]]).intercept[0, 0, 0]
    assert (right != wrong) == (name != "hardswish"), "hard swish reaches its limits"


def test_the_jump_that_was_certified_with_the_wrong_class():
    module = Jump(lambda x: -F.softsign(x), -1.0)
    module.forward = lambda x: torch.cat([F.threshold(-F.softsign(x), -1.0, 5.0), x * 0], -1)
    network = ff.capture(module, torch.zeros(1, 1).double())
    for certify in (False, True):
        far = ff.at_infinity(network, [0.0], [[1.0]], certify=certify)
        assert far.label.tolist() == [1]
        assert far.confidence.item() == pytest.approx(0.7310585786)
    assert far.certified.all()


W = torch.tensor([[2.0], [-0.5]], dtype=torch.float64)
ONE = torch.ones(1, 1, dtype=torch.float64)
CHAINS = {
    # what happens between the smooth function and the jump; the limit; from above or below
    "scaled": (lambda x: torch.tanh(x) * 3, 3.0, -1),
    "turned": (lambda x: torch.tanh(x) * -3, -3.0, 1),
    "shifted": (lambda x: 7.0 - torch.tanh(x), 6.0, 1),
    "alpha": (lambda x: torch.sub(7.0 + x * 0, torch.tanh(x), alpha=2), 5.0, 1),
    "two equal sides": (lambda x: torch.tanh(x) - torch.sigmoid(-x), 1.0, -1),
    "mean": (lambda x: torch.cat([torch.tanh(x), torch.sigmoid(x)], 1).mean(1, True), 1.0, -1),
    "matrix": (lambda x: torch.cat([torch.tanh(x), -torch.tanh(x)], 1) @ W, 2.5, -1),
    "relu keeps": (lambda x: F.relu(torch.tanh(x)), 1.0, -1),
    "relu at its kink from above": (lambda x: F.relu(1 - torch.tanh(x)), 0.0, 1),
    "relu at its kink from below": (lambda x: F.relu(torch.tanh(x) - 1), 0.0, 0),
    "leaky turns": (lambda x: F.leaky_relu(torch.tanh(x) - 1, -2.0), 0.0, 1),
    "absolute": (lambda x: torch.abs(torch.tanh(x) - 1), 0.0, 1),
    "clamp at its end from inside": (lambda x: torch.clamp(torch.tanh(x), -1, 1), 1.0, -1),
    "clamp at its end from outside": (lambda x: torch.clamp(2 - torch.tanh(x), -1, 1), 1.0, 0),
    "hard sigmoid": (lambda x: F.hardsigmoid(3 * torch.tanh(x)), 1.0, -1),
    "maximum takes the upper": (lambda x: torch.maximum(torch.tanh(x), 2 - torch.tanh(x)), 1.0, 1),
    "maximum of both below": (lambda x: torch.maximum(torch.tanh(x), torch.sigmoid(x)), 1.0, -1),
    "maximum with the limit itself": (lambda x: torch.maximum(torch.tanh(x), ONE), 1.0, 0),
    "minimum takes the lower": (lambda x: torch.minimum(torch.tanh(x), 2 - torch.tanh(x)), 1.0, -1),
    "largest of a row": (
        lambda x: torch.cat([torch.tanh(x), 2 - torch.tanh(x)], 1).amax(1, True),
        1.0,
        1,
    ),
    "smooth at rest": (lambda x: F.softsign(torch.tanh(x) - 1), 0.0, -1),
    "smooth after smooth": (lambda x: torch.sigmoid(x * 2 + torch.tanh(x)), 1.0, -1),
    "a jump after a jump": (lambda x: F.threshold(torch.tanh(x), 0.5, 9.0), 1.0, -1),
    "hard swish settles": (lambda x: F.hardswish(-x) + torch.tanh(x), 1.0, -1),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_sides_are_followed_through_every_kind_of_operation(chain):
    inner, limit, side = CHAINS[chain]
    (found,), _ = limits(Jump(inner, limit, 50.0), [[1.0]])
    assert found == pytest.approx(limit if side > 0 else 50.0, rel=1e-12, abs=1e-12)


def test_sides_through_a_convolution_and_several_instances():
    kernel = torch.tensor([[[1.0, 2.0]]], dtype=torch.float64)

    class Convolved(nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.factor = nn.Parameter(torch.tensor(factor, dtype=torch.float64))

        def forward(self, x):
            inner = F.conv1d(torch.tanh(x * self.factor)[:, None], kernel)[:, 0]
            return torch.cat([F.threshold(inner, 3.0, 5.0), x[:, :1] * 0], 1)

    network = ff.capture([Convolved(1.0), Convolved(-1.0)], torch.zeros(1, 2).double())
    for certify in (False, True):
        far = ff.at_infinity(network, [0.0, 0.0], [[1.0, 1.0], [-1.0, -1.0]], certify=certify)
        assert far.intercept[:, :, 0].tolist() == [[5.0, 5.0], [5.0, 5.0]]


@pytest.mark.parametrize("certify", [False, True])
def test_an_unknown_side_is_an_error_and_never_a_guess(certify):
    module = Jump(lambda x: torch.tanh(x) - torch.tanh(2 * x), 0.0)
    network = ff.capture(module, torch.zeros(1, 1).double())
    with pytest.raises(UndecidedLimit, match=r"1 of 1 rays \(rows \[0\]\).*aten.threshold in"):
        ff.at_infinity(network, [0.0], [[1.0]], certify=certify)
    far = ff.at_infinity(network, [0.0], [[1.0], [-1.0]], certify=certify, undecided="mark")
    assert far.undecided.tolist() == [[True, True]]
    assert not certify or not far.certified.any()
    away = Jump(lambda x: torch.tanh(x) - torch.tanh(2 * x), 0.1)
    far = ff.at_infinity(ff.capture(away, torch.zeros(1, 1).double()), [0.0], [[1.0]])
    assert far.intercept[0, 0, 0] == 5.0
    continuous = Jump(lambda x: torch.tanh(x) - torch.tanh(2 * x), 0.0, other=0.0)
    far = ff.at_infinity(ff.capture(continuous, torch.zeros(1, 1).double()), [0.0], [[1.0]])
    assert far.intercept[0, 0, 0] == 0.0


def test_arcs_refuse_what_they_do_not_follow():
    class Plane(nn.Module):
        def forward(self, x):
            return torch.cat([F.threshold(torch.tanh(x), 1.0, 5.0), x[:, :1]], 1)

    with pytest.raises(UnsupportedOperation, match="a jump behind smooth functions"):
        ff.blind_arcs(ff.capture(Plane(), torch.zeros(1, 2).double()))
