"""Comparisons in one form: the same answer as the library's own, for every float64 number."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from farfield.graph.trees.compare import below, rounded_at_most, rounded_below

LARGEST = float(np.finfo(np.float32).max)
numbers = st.floats(allow_nan=False, allow_infinity=False)
narrow = st.floats(width=32, allow_nan=False, allow_infinity=False)


def around(*centres):
    """Numbers at and beside given ones, in both precisions."""
    with np.errstate(over="ignore"):
        found = [np.float64(c) for c in centres] + [np.float64(np.float32(c)) for c in centres]
        for _ in range(2):
            found += [np.nextafter(x, side) for x in found for side in (-np.inf, np.inf)]
            singles = [np.float32(x) for x in found]
            found += [
                np.float64(np.nextafter(x, np.float32(side)))
                for x in singles
                for side in (-np.inf, np.inf)
            ]
            found = list(set(found))
    return np.array([x for x in found if np.isfinite(x)])


def single(x):
    with np.errstate(over="ignore"):
        return x.astype(np.float32).astype(np.float64)


@given(numbers)
@example(LARGEST)
@example(-LARGEST)
@example(0.0)
@example(1e-45)
@example(1e300)
@example(-1e300)
def test_rounded_at_most(threshold):
    limit = rounded_at_most([threshold])[0]
    x = around(threshold, limit)
    np.testing.assert_array_equal(x <= limit, single(x) <= threshold)


@given(narrow)
@example(0.0)
@example(LARGEST)
@example(-LARGEST)
def test_rounded_below(threshold):
    limit = rounded_below([threshold])[0]
    x = around(threshold, limit)
    np.testing.assert_array_equal(x <= limit, single(x) < threshold)


@given(numbers)
def test_below(threshold):
    x = around(threshold)
    assert len(x)
    np.testing.assert_array_equal(x <= below([threshold])[0], x < threshold)
