import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farfield.errors import InputError
from farfield.guard.promise import Line, largest_probability, tolerance

sizes = st.floats(1e-6, 1e12)


@given(sizes, sizes, sizes, st.floats(1e-4, 3.0))
def test_the_unit_keeps_the_promise_from_there_on(offset, slope, distance, apart):
    line = Line(offset, slope)
    unit = line.unit(distance, apart)
    assert 0 < unit <= distance
    for factor in (1.0, 1.0001, 1.1, 2.0, 10.0, 1e3, 1e9):
        assert line.guarded(factor * distance, unit) <= apart * (1 + 1e-8)
        assert line.guarded(factor * distance, unit) <= line.guarded(distance, unit) * (1 + 1e-9)


@given(st.integers(2, 1000), st.floats(1e-6, 0.4))
def test_tolerance_and_probability_are_inverse(classes, epsilon):
    apart = tolerance(classes, epsilon)
    assert largest_probability(classes, apart) == pytest.approx(1 / classes + epsilon)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 0.5, 2.0, math.nan])
def test_impossible_epsilons(epsilon):
    with pytest.raises(InputError, match="epsilon"):
        tolerance(2, epsilon)
