"""Every certified decision against rational arithmetic, on networks built to be nasty."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.errors import InputError
from nasty_networks import ARCHITECTURES, RAYS, nasty, nasty_rays
from oracles import far_field, limit_by_evaluation, value_at

NETWORKS = 10


def close(value: float, exact: Fraction, size: Fraction) -> bool:
    """Equal up to the rounding of a sum of terms of that size."""
    return abs(Fraction(value) - exact) <= size * Fraction(1, 10**13) + Fraction(1, 10**300)


def encloses(bounds: torch.Tensor, exact: Fraction) -> bool:
    low, high = bounds.tolist()
    return Fraction(low) <= exact and (high == math.inf or exact <= Fraction(high))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_certified_results_equal_rational_arithmetic(architecture):
    rng = np.random.default_rng(sum(map(ord, architecture)))
    modules = [nasty(architecture, rng) for _ in range(NETWORKS)]
    inputs = 4 if architecture == "pool-first" else modules[0][0].in_features
    origin, direction = nasty_rays(inputs, rng)
    network = ff.capture(modules, torch.zeros(1, inputs, dtype=torch.float64))
    far = ff.at_infinity(network, origin, direction, certify=True, budget=600)
    plain = ff.at_infinity(network, origin, direction)
    proven = ff.at_infinity(network, origin, direction, certify=True, budget=0)
    assert far.certified.all()
    assert not proven.certified.all(), "the networks are not nasty enough to need exact arithmetic"
    assert proven.certified.any()
    for index, module in enumerate(modules):
        for ray in range(RAYS):
            exact = far_field(module, origin[ray].tolist(), direction[ray].tolist())
            at = (index, ray)
            assert far.leading[at].tolist() == exact.leading
            assert int(far.winner[at]) == exact.label
            assert all(map(close, far.slope[at].tolist(), exact.slope, exact.slope_size))
            assert all(
                map(close, far.intercept[at].tolist(), exact.intercept, exact.intercept_size)
            )
            slack = 1e-13 / max(float(exact.margin), 1e-16)
            assert math.isclose(far.reach[at], float(exact.reach), rel_tol=min(1e-3, slack))
            assert encloses(far.reach_bounds[:, index, ray], exact.reach)
            if proven.certified[at]:
                assert encloses(proven.reach_bounds[:, index, ray], exact.reach)
            if proven.certified[at] or exact.margin > 1e-6:
                assert plain.leading[at].tolist() == exact.leading
                assert int(plain.winner[at]) == exact.label


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_rational_oracle_itself(architecture):
    """Rational germs agree with plain rational evaluation beyond every breakpoint."""
    rng = np.random.default_rng(7)
    for _ in range(2):
        module = nasty(architecture, rng)
        inputs = 4 if architecture == "pool-first" else module[0].in_features
        for origin, direction in zip(*(a.tolist() for a in nasty_rays(inputs, rng)), strict=True):
            exact = far_field(module, origin, direction)
            assert limit_by_evaluation(module, origin, direction) == (exact.slope, exact.intercept)
            _, settled = value_at(module, origin, direction, exact.reach + 1)
            _, later = value_at(module, origin, direction, 2 * exact.reach + 1000)
            assert settled == later
            if exact.reach > 0:
                _, before = value_at(module, origin, direction, exact.reach * Fraction(999, 1000))
                _, after = value_at(module, origin, direction, exact.reach * Fraction(1001, 1000))
                assert before != after


def test_structural_zeros_are_decided_without_exact_arithmetic():
    module = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    module = module.double()
    with torch.no_grad():
        module[0].weight[:, 1] = 0  # a pruned feature: going along it changes nothing
        module[2].weight[3] = 0  # a pruned unit
    network = ff.capture(module, torch.zeros(1, 3))
    directions = torch.cat([torch.eye(3), -torch.eye(3)]).double()
    far = ff.at_infinity(network, torch.zeros(3).double(), directions, certify=True, budget=0)
    assert far.certified.all()
    assert far.constant[0].tolist() == [False, True, False, False, True, False]
    assert (far.reach[0, [1, 4]] == 0).all()


def test_too_large_for_exact_arithmetic_is_reported_not_guessed():
    module = nn.Linear(2, 2).double()
    module.weight.data = torch.tensor([[0.1, 0.2], [0.2, 0.1]], dtype=torch.float64)
    network = ff.capture(module, torch.zeros(1, 2))
    tie = torch.ones(1, 2).double()
    assert ff.at_infinity(network, torch.zeros(2).double(), tie, certify=True).certified.all()
    refused = ff.at_infinity(network, torch.zeros(2).double(), tie, certify=True, budget=0)
    assert not refused.certified.any()
    assert refused.reach_bounds.flatten().tolist() == [0.0, math.inf]


def test_products_that_underflow_are_not_mistaken_for_structural_zeros():
    module = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1), nn.Linear(1, 2)).double()
    for part, weight in zip(module, (1e-200, 1e-200, 1e200), strict=True):
        part.weight.data.fill_(weight)
        part.bias.data.zero_()
    module[2].bias.data = torch.tensor([1.0, 0.0]).double()
    module[2].weight.data[1] = -1e200
    network = ff.capture(module, torch.zeros(1, 1))
    far = ff.at_infinity(network, torch.zeros(1).double(), torch.ones(1, 1).double(), certify=True)
    assert far.certified.all()
    assert far.leading[0, 0].tolist() == [True, False]


class Factors(nn.Module):
    """A last layer behind factors, each of which the others make up for."""

    def __init__(self, *steps):
        super().__init__()
        self.steps = steps
        self.last = nn.Linear(1, 2).double()
        self.last.weight.data = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
        self.last.bias.data = torch.tensor([5.0, 0.0], dtype=torch.float64)

    def forward(self, x):
        for step in self.steps:
            x = step(x)
        return self.last(x)


UNDERFLOWS = {
    "scalars": (lambda x: x * 1e-200, lambda x: x * 1e-150, lambda x: x * 1e300),
    "divisors": (lambda x: x / 1e200, lambda x: x / 1e150, lambda x: x * 1e300),
    "leaky": (
        lambda x: nn.functional.leaky_relu(-x, 1e-200),
        lambda x: nn.functional.leaky_relu(x, 1e-150),
        lambda x: -x * 1e300,
    ),
    "alpha": (lambda x: torch.add(x * 0, x, alpha=1e-200), lambda x: x * 1e-200),
    "denormal": (lambda x: x * 5e-324,),
    "denormal twice": (lambda x: x * 5e-324, lambda x: x * 0.5),
    "scale of an elu": (
        lambda x: torch.ops.aten.elu(x, 1.0, 1e-99),
        lambda x: x * 1e-250,
        lambda x: x * 1e250,
    ),
    "mean": (
        lambda x: torch.cat([x * 1e-322, x * 0, x * 0, x * 0], 1).mean(1, keepdim=True),
        lambda x: x.abs(),
    ),
}


@pytest.mark.parametrize("budget", [0.0, 10.0])
@pytest.mark.parametrize("name", UNDERFLOWS)
def test_what_underflows_is_not_certified_by_floats(name, budget):
    """Class 1 grows twice as fast, however slowly; a slope that became zero gives class 0."""
    network = ff.capture(Factors(*UNDERFLOWS[name]), torch.zeros(1, 1).double())
    far = ff.at_infinity(network, [0.0], [[1.0]], certify=True, budget=budget)
    if budget:
        assert far.certified.all()
    if far.certified.all():
        assert far.winner.item() == 1
        assert far.leading[0, 0].tolist() == [False, True]


def test_differences_below_the_smallest_float_keep_their_sign():
    class Tiny(nn.Module):
        def forward(self, x):
            return torch.cat([x * 0, (x * 0 + 1e-200) * 1e-200], 1)

    network = ff.capture(Tiny(), torch.zeros(1, 1).double())
    far = ff.at_infinity(network, [0.0], [[1.0]], certify=True)
    assert far.certified.all()
    assert far.winner.item() == 1


def test_reach_is_enclosed_where_the_estimate_is_far_off():
    """Cancellation leaves a slope with one digit: all that is known of the reach is its bounds."""
    module = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 2)).double()
    with torch.no_grad():
        module[0].weight[:] = torch.tensor([[0.1 + 2**-54, -0.3]])
        module[0].bias[:] = -1e-12
        module[2].weight[:] = torch.tensor([[1.0], [-1.0]])
    network = ff.capture(module, torch.zeros(1, 2))
    for third in np.linspace(0.333333333333, 0.333333333334, 50):
        origin, direction = [0.0, 0.0], [1.0, float(third)]
        exact = far_field(module, origin, direction)
        for budget in (0.0, 10.0):
            far = ff.at_infinity(network, origin, [direction], certify=True, budget=budget)
            assert budget == 0 or far.certified.all()
            if far.certified.all():
                assert encloses(far.reach_bounds[:, 0, 0], exact.reach)


def test_asymptotic_reaches_are_infinite_and_so_are_their_bounds():
    module = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)).double()
    far = ff.at_infinity(ff.capture(module, torch.zeros(1, 2)), [0.0, 0.0], [[1.0, 0.5]], True)
    assert far.reach_bounds.isinf().all()


@pytest.mark.parametrize("budget", [-1.0, math.nan])
def test_budgets_are_seconds(budget):
    network = ff.capture(nn.Linear(2, 2).double(), torch.zeros(1, 2))
    with pytest.raises(InputError, match="number of seconds"):
        ff.at_infinity(network, [0.0, 0.0], [[1.0, 1.0]], certify=True, budget=budget)


def wide_tie():
    """A convolutional network too large for a short budget, with a tie in exact arithmetic only."""
    module = nn.Sequential(
        nn.Unflatten(1, (3, 8, 8)),
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(1024, 2),
    ).double()
    with torch.no_grad():
        module[6].weight[1] = module[6].weight[0]
    return ff.capture(module, torch.zeros(1, 192))


def test_exact_arithmetic_looks_at_the_clock(monkeypatch):
    """A clock that ticks at every look: time runs out in the middle, and rays stay unproven."""
    ticks = itertools.count()
    monkeypatch.setattr("farfield.exact.ladder.SMALL", 1 << 20)  # no step between
    monkeypatch.setattr("farfield.exact.matrix.monotonic", lambda: float(next(ticks)))
    origin, direction = torch.ones(192).double(), torch.ones(1, 192).double()
    far = ff.at_infinity(wide_tie(), origin, direction, certify=True, budget=20)
    assert not far.certified.any()
    assert next(ticks) >= 20


def test_exact_arithmetic_keeps_to_its_memory(monkeypatch):
    monkeypatch.setattr("farfield.exact.ladder.SMALL", 1 << 20)  # no step between
    monkeypatch.setattr("farfield.exact.matrix.NUMBERS", 1000)
    origin, direction = torch.ones(192).double(), torch.ones(1, 192).double()
    far = ff.at_infinity(wide_tie(), origin, direction, certify=True, budget=1e9)
    assert not far.certified.any()


def test_products_of_several_weights_are_not_taken_for_exact():
    first, second = (torch.full((2,), 1e-200, dtype=torch.float64) for _ in range(2))

    class Contracted(nn.Module):
        def forward(self, x):
            return torch.einsum("bi,i,i->bi", x, first, second)

    network = ff.capture(Contracted(), torch.zeros(1, 2).double())
    far = ff.at_infinity(network, [0.0, 0.0], [[1.0, 2.0]], certify=True)
    assert not far.certified.any()


def test_smooth_networks_are_certified_where_they_move_and_not_where_they_rest():
    module = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    network = ff.capture(module, torch.zeros(1, 2))
    far = ff.at_infinity(network, torch.zeros(2).double(), torch.ones(1, 2).double(), certify=True)
    assert far.certified.all()
    with torch.no_grad():
        module[0].weight[0] = torch.tensor([1.0, -1.0])
        module[2].weight[1] = module[2].weight[0]
        module[2].bias[1] = module[2].bias[0]
    network = ff.capture(module, torch.zeros(1, 2))
    far = ff.at_infinity(network, torch.zeros(2).double(), torch.ones(1, 2).double(), certify=True)
    assert not far.certified.any(), "equal logits through a tanh at rest have no rational proof"


def test_padded_pooling_does_not_compare_an_element_with_itself():
    module = nn.Sequential(
        nn.Unflatten(1, (1, 4)), nn.MaxPool1d(3, 1, 1), nn.Flatten(), nn.Linear(4, 2)
    ).double()
    network = ff.capture(module, torch.zeros(1, 4))
    direction = torch.tensor([[0.3, -0.2, 0.7, 0.1]], dtype=torch.float64)
    far = ff.at_infinity(network, torch.zeros(4).double(), direction, certify=True, budget=0)
    assert far.certified.all()


def test_exact_products_are_chunked(monkeypatch):
    """The same answer when hardly any product fits into memory."""
    module = nn.Sequential(
        nn.Unflatten(1, (1, 8)), nn.Conv1d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(18, 2)
    ).double()
    with torch.no_grad():
        module[4].weight[1] = module[4].weight[0]
    network = ff.capture(module, torch.zeros(1, 8))
    origin = torch.ones(8, dtype=torch.float64)
    direction = torch.arange(24, dtype=torch.float64).reshape(3, 8) - 11.5
    whole = ff.at_infinity(network, origin, direction, certify=True)
    assert not ff.at_infinity(network, origin, direction, certify=True, budget=0).certified.all()
    monkeypatch.setattr("farfield.exact.matrix.PRODUCTS", 7)
    monkeypatch.setattr("farfield.exact.certify.WIDE", 0)
    cut = ff.at_infinity(network, origin, direction, certify=True)
    assert whole.certified.all()
    assert cut.certified.all()
    assert torch.equal(whole.slope, cut.slope)
    assert torch.equal(whole.intercept, cut.intercept)
    assert torch.equal(whole.reach, cut.reach)
    assert whole.leading.all()
