"""Steps and functions of rows at infinity, against evaluation far out and exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import farfield as ff
from farfield.errors import UnsupportedOperation
from farfield.exact.matrix import ExactBudget
from farfield.exact.rational import RationalDomain, exact
from farfield.graph.assemble import from_reading
from farfield.graph.reading import Reading, Writer
from farfield.graph.rules import RowFunction, Steps
from farfield.graph.scikit.softmax import SOFTMAX

CPU = torch.device("cpu")


def network(write, columns=2, link="softmax"):
    writer = Writer(columns)
    program = writer.program(write(writer, writer.input))
    return from_reading(Reading(program, writer.constants, link), None, torch.float64)


def random_steps(rng, outputs=3):
    def one():
        breaks = np.unique(rng.integers(-4, 5, rng.integers(0, 4)).astype(float))
        return int(rng.integers(2)), breaks, rng.normal(size=len(breaks) + 1), 0.0

    return Steps.of([one() for _ in range(outputs)])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_steps_behind_an_affine_map(seed):
    rng = np.random.default_rng(seed)
    steps = random_steps(rng)
    weight = rng.integers(-2, 3, (2, 2)).astype(float)
    net = network(lambda w, x: w.take_steps(w.linear(x, weight, [0.5, 0.25]), steps))
    origin, direction = rng.integers(-3, 4, (2, 20, 2)).astype(float)
    direction[(direction == 0).all(axis=1)] = 1.0
    far = ff.at_infinity(net, origin, direction, certify=True)
    assert bool((far.slope == 0).all())
    assert bool(far.certified.all())
    reach = far.reach[0].numpy()[:, None]
    for t in (reach * 1.0001 + 1e-6, reach * 1e6 + 1e6):
        beyond = net.logits(origin + t * direction)[0]
        torch.testing.assert_close(far.intercept[0], beyond)
    low, high = far.reach_bounds[:, 0]
    assert bool((low <= far.reach[0]).all())
    assert bool((far.reach[0] <= high).all())
    domain = RationalDomain(20, {}, ExactBudget(60.0))
    moved = np.concatenate([direction @ weight.T, origin @ weight.T + [0.5, 0.25]])
    found = domain.steps(exact(moved, CPU), steps)
    values = [Fraction(int(each), int(found.denominator)) for each in found.pair[1].ravel()]
    np.testing.assert_allclose(np.array(values, dtype=float), far.intercept[0].ravel(), atol=1e-12)
    np.testing.assert_allclose(np.array(domain.reach, dtype=float), far.reach[0], atol=1e-9)


def test_a_tie_belongs_to_the_lower_interval():
    net = network(lambda w, x: w.take_steps(x, Steps.of([(0, [1.0], [0.0, 5.0], 0.0)] * 2)))
    far = ff.at_infinity(net, [[1.0, 0.0], [np.nextafter(1, 2), 0.0]], [0.0, 1.0], certify=True)
    assert far.intercept[0, :, 0].tolist() == [0.0, 5.0]
    assert far.reach.tolist() == [[0.0, 0.0]]


def test_a_softmax_inside_has_its_limit():
    net = network(lambda w, x: w.linear(w.apply(x, SOFTMAX, 2), [[3.0, 0.0], [0.0, 3.0]]))
    far = ff.at_infinity(net, [[0.0, 1.0]], [[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    shares = torch.softmax(torch.tensor([0.0, 1.0], dtype=torch.float64), dim=0)
    expected = torch.stack([torch.tensor([3.0, 0.0]), 3 * shares, torch.tensor([0.0, 3.0])])
    torch.testing.assert_close(far.intercept[0], expected.double())
    assert far.asymptotic.tolist() == [[True, False, True]]


def test_steps_behind_a_softmax_are_undecided_only_at_a_tie():
    def write(at):
        steps = Steps.of([(0, [at], [0.0, 1.0], 0.0), (1, [at], [0.0, 1.0], 0.0)])
        return lambda w, x: w.take_steps(w.apply(x, SOFTMAX, 2), steps)

    direction = [[1.0, 0.0]]
    assert ff.at_infinity(network(write(0.9)), [0.0, 0.0], direction).label.tolist() == [0]
    with pytest.raises(ff.errors.UndecidedLimit, match="side"):
        ff.at_infinity(network(write(0.0)), [0.0, 0.0], direction)


def test_what_has_no_limit_is_refused():
    class Waves(RowFunction):
        def __call__(self, rows):
            return torch.sin(rows)

    net = network(lambda w, x: w.apply(x, Waves(), 2))
    assert net.logits(torch.zeros(1, 2, dtype=torch.float64)).abs().max() == 0
    with pytest.raises(UnsupportedOperation, match="Waves"):
        ff.at_infinity(net, [0.0, 0.0], [1.0, 0.0])


def test_probabilities_may_be_zero():
    values = [(0, [0.0], [1.0, 0.25], 0.5), (0, [0.0], [0.0, 0.75], 0.5)]
    net = network(lambda w, x: w.take_steps(x, Steps.of(values)), link="identity")
    far = ff.at_infinity(net, [0.0, 0.0], [[-1.0, 0.0], [1.0, 0.0]], certify=True)
    np.testing.assert_allclose(far.probabilities[0], [[1.0, 0.0], [0.25, 0.75]], rtol=1e-15)
    assert far.probabilities[0, 0, 1] == 0
    assert far.label.tolist() == [0, 1]
    assert far.constant.tolist() == [[True, True]]
    assert bool(far.certified.all())
    logits = net.logits([[-1.0, 0.0]])
    assert logits.tolist() == [[[0.0, -np.inf]]]
    assert net.probabilities([[-1.0, 0.0]]).tolist() == [[[1.0, 0.0]]]
