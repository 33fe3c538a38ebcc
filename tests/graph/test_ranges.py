"""Every parameter of every rule, at random and at the border, against many digits.

A parameter is either refused by name, with its value and its range, or the far field that is
certified with it equals the definition of the operation, evaluated far out by mpmath.
"""

import dataclasses
import math
import random

import mpmath
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from mpmath import mpf
from torch import nn

import farfield as ff
from farfield.errors import UnsupportedOperation
from farfield.graph.network import InstanceGroup
from farfield.graph.rules import RULES
from farfield.graph.simplify import check

aten = torch.ops.aten
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-6, 1e-200, 5e-324, -1e-310, 1e200, 1.7e308]
SPECIAL += [-1.7e308, math.inf, -math.inf, math.nan, 20.0, 700.0, 701.0, 1e100, 1e-100, 1.1e100]
DRAWS = 40
# How many of those that are not refused are followed.
FOLLOWED = 15
FAR = mpf(10) ** 420


# Below it an exponential has tens of thousands of zeros behind its point: nothing beside 1, and
# beside a number of the table no more than a tie.
NOTHING = -(10**5)


def _exp(x):
    return mpmath.exp(x) if x > NOTHING else mpf(0)


def _expm1(x):
    return mpmath.expm1(x) if x > NOTHING else mpf(-1)


def _softplus(x, beta, limit):
    return x if beta * x > limit else mpmath.log1p(_exp(beta * x)) / beta


def _elu(x, alpha, scale, input_scale):
    return scale * x if x > 0 else scale * alpha * _expm1(x * input_scale)


def _clamp(x, low, high):
    x = x if low is None else max(x, low)
    return x if high is None else min(x, high)


# operation -> what forward does, how many parameters, the same with numbers of many digits
CASES = {
    aten.leaky_relu.default: (
        lambda x: F.leaky_relu(x, 0.2),
        1,
        lambda x, a: x if x > 0 else a * x,
    ),
    aten.threshold.default: (
        lambda x: F.threshold(x, 0.3, -2.0),
        2,
        lambda x, limit, other: x if x > limit else other,
    ),
    aten.clamp.default: (lambda x: torch.clamp(x, -1.0, 2.0), 2, _clamp),
    aten.clamp_min.default: (lambda x: torch.clamp_min(x, 1.0), 1, lambda x, a: max(x, a)),
    aten.clamp_max.default: (lambda x: torch.clamp_max(x, 1.0), 1, lambda x, a: min(x, a)),
    aten.hardtanh.default: (lambda x: F.hardtanh(x, -2.0, 1.0), 2, _clamp),
    aten.softplus.default: (lambda x: F.softplus(x, 2.0, 30.0), 2, _softplus),
    aten.elu.default: (lambda x: aten.elu(x, 1.5, 1.1, 0.9), 3, _elu),
    aten.celu.default: (lambda x: F.celu(x, 0.7), 1, lambda x, a: _elu(x, a, 1, 1 / a)),
    aten.mul.Scalar: (lambda x: aten.mul.Scalar(x, -2.5), 1, lambda x, a: a * x),
    aten.div.Scalar: (lambda x: aten.div.Scalar(x, 3.0), 1, lambda x, a: x / a),
    aten.add.Scalar: (lambda x: aten.add.Scalar(x, 1.5, 2.0), 2, lambda x, c, a: x + a * c),
    aten.sub.Scalar: (lambda x: aten.sub.Scalar(x, 1.5, 2.0), 2, lambda x, c, a: x - a * c),
    aten.rsub.Scalar: (lambda x: aten.rsub.Scalar(x, 1.5, 2.0), 2, lambda x, c, a: c - a * x),
}
NUMBERS = (int, float)


class Subject(nn.Module):
    """The operation on the first of two inputs, and a constant beside it."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return torch.cat([self.function(x[:, :1]), x[:, 1:] * 0], 1)


def draw(rng):
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(SPECIAL)
    return (
        rng.choice([-1, 1])
        * rng.random()
        * 10.0 ** rng.uniform(*((-3, 3), (-307, 307))[kind > 0.8])
    )


def with_parameters(network, target, parameters):
    """The same network with other numbers in one operation, and why capture refuses it, if so."""
    (group,) = network.groups
    steps = [
        dataclasses.replace(step, args=(step.args[0], *parameters), kwargs={})
        if step.target is target
        else step
        for step in group.program.steps
    ]
    program = group.program.with_steps(tuple(steps))
    try:
        check(program)
    except UnsupportedOperation as error:
        return network, str(error)
    return dataclasses.replace(network, groups=(InstanceGroup.of(program, [group.shared]),)), ""


def expected(precise, parameters, origin, slope):
    """Slope and intercept by evaluation far out, or the value at rest."""
    exact = [mpf(p) for p in parameters]
    if slope == 0:
        return mpf(0), precise(mpf(origin), *exact)
    near, far = (precise(mpf(origin) + slope * t, *exact) for t in (FAR, 2 * FAR))
    growth = (far - near) / FAR
    return growth, near - growth * FAR


ORIGINS = [0.0, 0.3, -2.0, 1e-3, 25.0, -750.0, 1e-300]
RAYS = [(origin, slope) for origin in ORIGINS for slope in (1.0, -1.0, 0.0)]


@pytest.mark.parametrize("target", CASES, ids=str)
def test_parameters_are_refused_or_right(target):
    function, count, precise = CASES[target]
    network = ff.capture(Subject(function), torch.zeros(1, 2).double())
    rng = random.Random(str(target))
    compared = followed = refused = 0
    for _ in range(DRAWS):
        parameters = [draw(rng) for _ in range(count)]
        changed, refusal = with_parameters(network, target, parameters)
        if refusal:
            refused += 1
            assert "must" in refusal
            assert any(repr(p) in refusal for p in parameters)
            continue
        assert not any(math.isnan(p) for p in parameters)
        if followed < FOLLOWED:
            followed += 1
            compared += compare(changed, precise, parameters)
    assert compared > 0
    assert refused > 0


def compare(network, precise, parameters):
    """Compare every certified ray; say how many there were."""
    origins = torch.tensor([[origin, 0.0] for origin, _ in RAYS], dtype=torch.float64)
    directions = torch.tensor([[slope, 1.0] for _, slope in RAYS], dtype=torch.float64)
    try:
        far = ff.at_infinity(network, origins, directions, certify=True)
    except ff.errors.NumericalOverflow:
        return 0
    slopes, intercepts = (part[0, :, 0].tolist() for part in (far.slope, far.intercept))
    winners, certified = far.winner[0].tolist(), far.certified[0].tolist()
    for index, (origin, slope) in enumerate(RAYS):
        if not certified[index]:
            continue
        with mpmath.workdps(2000):
            growth, level = expected(precise, parameters, origin, slope)
            winner = 0 if (growth, level) >= (0, 0) else 1
            found = mpf(slopes[index]), mpf(intercepts[index])
            size = max(1, abs(origin), *(abs(p) for p in parameters if math.isfinite(p)))
            size = size * max(1, abs(growth))
            assert abs(found[0] - growth) <= 1e-12 * abs(growth) + mpf(10) ** -300
            assert abs(found[1] - level) <= 1e-11 * max(abs(level), size), (
                parameters,
                origin,
                slope,
            )
            tie = max(abs(growth), abs(level)) < mpf(10) ** -1500
            assert tie or winners[index] == winner, (parameters, origin, slope)
    return int(far.certified.sum())


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.CELU(alpha=-1), r"aten.celu +in 1 \(CELU\): alpha is -1 and must be positive"),
        (nn.Softplus(1e-6, 0), "threshold is 0 and must be positive"),
        (nn.Softplus(1e-6), "jumps by 2.1e-03 at 2e[+]07"),
        (nn.RReLU(1.7e308, 1.7e308), "their mean must be a finite number"),
        (nn.ELU(math.nan), "alpha is nan"),
        (nn.LeakyReLU(math.inf), "negative_slope is inf"),
        (nn.Threshold(math.nan, 1.0), "threshold is nan"),
        (nn.Threshold(0.0, math.inf), "value is inf"),
    ],
)
def test_refusals_name_the_value_and_the_range(module, message):
    model = nn.Sequential(nn.Linear(2, 2), module)
    with pytest.raises(UnsupportedOperation, match=message):
        ff.capture(model, torch.zeros(1, 2))


def test_an_infinite_limit_is_no_limit():
    model = nn.Sequential(nn.Linear(2, 2), nn.Hardtanh(-math.inf, 2.0)).double()
    network = ff.capture(model, torch.zeros(1, 2))
    capped = nn.Sequential(model[0], Cap())
    same = ff.capture(capped, torch.zeros(1, 2))
    directions = torch.randn(20, 2, generator=torch.Generator().manual_seed(1)).double()
    one, other = (ff.at_infinity(each, [0.1, 0.2], directions) for each in (network, same))
    assert torch.equal(one.slope, other.slope)
    assert torch.equal(one.intercept, other.intercept)


class Cap(nn.Module):
    def forward(self, x):
        return x.clamp(max=2.0)


def test_a_negative_divisor_of_a_mean_is_refused():
    class Pool(nn.Module):
        def forward(self, x):
            return F.avg_pool2d(x[:, None, None], (1, 2), 1, divisor_override=-3)[:, 0, 0]

    with pytest.raises(UnsupportedOperation, match="divisor_override is -3"):
        ff.capture(Pool(), torch.zeros(1, 4))


@pytest.mark.parametrize(("alpha", "beta"), [(2.5, 0.5), (-1e-200, 1e-200), (1.0, 0.0), (0.0, 3.0)])
def test_factors_of_sums_are_exact(alpha, beta):
    """``beta c + alpha x W`` with factors that would underflow if they met the weights."""
    W = torch.tensor([[1e-200, 2e-200], [3.0, 1.0]], dtype=torch.float64)
    c = torch.tensor([1e-200, 1.0], dtype=torch.float64)

    class Sum(nn.Module):
        def forward(self, x):
            return torch.addmm(c, x, W, alpha=alpha, beta=beta)

    far = ff.at_infinity(
        ff.capture(Sum(), torch.zeros(1, 2).double()), [0.0, 0.0], [[1.0, 0.0]], True
    )
    slopes = [mpf(alpha) * mpf(float(w)) for w in W[0]]
    levels = [mpf(beta) * mpf(float(b)) for b in c]
    best = max(range(2), key=lambda k: (slopes[k], levels[k]))
    assert far.certified.all()
    assert far.winner.item() == best
    assert far.leading[0, 0].tolist() == [s == max(slopes) for s in slopes]


def test_dividing_by_whole_numbers_keeps_all_digits():
    counts = torch.tensor([3, 7])

    class Divide(nn.Module):
        def forward(self, x):
            return x / counts

    far = ff.at_infinity(ff.capture(Divide(), torch.zeros(1, 2).double()), [0.0, 0.0], [[1.0, 1.0]])
    assert far.slope[0, 0].tolist() == [1 / 3, 1 / 7]


def test_every_parameter_is_checked():
    """Whatever numbers an operation of the table takes, NaN is refused for each of them."""
    structural = {"copy", "largest"}
    for target, (_, count, _) in CASES.items():
        assert RULES[target].kind not in structural
        for place in range(count):
            numbers = [1.0] * count
            numbers[place] = math.nan
            refusal = RULES[target].refuse
            assert refusal is not None
            assert refusal(None, *numbers) is not None
