"""Moments in one pass equal moments in two, whatever the chunks."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from farfield.data.summary import Moments

numbers = st.floats(-1e6, 1e6) | st.just(float("nan"))


@settings(max_examples=40)
@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(numbers, min_size=n, max_size=n), min_size=1)
    ),
    st.lists(st.integers(0, 20), max_size=4),
)
def test_chunks_do_not_matter(rows, cuts):
    values = np.array(rows, dtype=float).reshape(len(rows), -1).T
    moments = Moments(len(values))
    for part in np.split(values, sorted(min(cut, len(rows)) for cut in cuts), axis=1):
        moments.add(part)
    for k, column in enumerate(values):
        present = column[~np.isnan(column)]
        assert moments.count[k] == len(present)
        if len(present):
            scale = max(1.0, np.abs(present).max())
            assert abs(moments.mean[k] - present.mean()) <= 1e-12 * scale
            assert abs(np.sqrt(moments.variance()[k]) - present.std()) <= 1e-7 * scale
            assert (moments.low[k], moments.high[k]) == (present.min(), present.max())


def test_a_large_offset_keeps_its_digits():
    values = 1e9 + np.random.default_rng(0).normal(size=100_000)
    moments = Moments(1)
    for part in np.array_split(values, 37):
        moments.add(part[None])
    np.testing.assert_allclose(np.sqrt(moments.variance()[0]), values.std(), rtol=1e-9)


def test_filled_values_count():
    values = np.array([1.0, np.nan, 4.0, np.nan])
    moments = Moments(1).add(values[None]).fill(np.array([2]), np.array([7.0]))
    expected = np.array([1.0, 7.0, 4.0, 7.0])
    assert (moments.count[0], moments.high[0]) == (4, 7.0)
    np.testing.assert_allclose([moments.mean[0], moments.variance()[0]], [4.75, expected.var()])


def test_overflow_is_infinite_and_silent():
    moments = Moments(1).add(np.array([[1e200, -1e200]]))
    assert moments.variance()[0] == np.inf
    assert moments.mean[0] == 0.0
