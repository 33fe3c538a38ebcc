import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farfield.guard.clusters import Grouping


@settings(max_examples=30, deadline=None)
@given(st.integers(10, 300), st.integers(1, 40), st.integers(1, 12), st.integers(0, 5))
def test_every_group_is_the_mean_of_enough_rows(count, groups, least, seed):
    rows = np.random.default_rng(seed).standard_cauchy((count, 3))
    found = Grouping(rows, least, seed).into(groups)
    sizes = np.bincount(found.labels)
    assert len(sizes) == len(found.centres) <= groups
    assert sizes.min() >= min(least, count)
    for index, centre in enumerate(found.centres):
        assert np.allclose(centre, rows[found.labels == index].mean(axis=0))
    assert np.allclose(found.distances, np.linalg.norm(rows - found.centres[found.labels], axis=1))


def test_quantiles_are_of_the_own_group():
    found = Grouping(np.random.default_rng(0).normal(size=(200, 2)), 10, 0).into(5)
    quantiles = found.quantiles(0.9)
    for index, value in enumerate(quantiles):
        own = found.distances[found.labels == index]
        assert (own <= value).mean() == pytest.approx(0.9, abs=0.1)


def test_identical_rows_are_one_group():
    assert len(Grouping(np.ones((50, 2)), 5, 0).into(8).centres) == 1


def test_each_number_of_groups_is_found_once():
    grouping = Grouping(np.random.default_rng(0).normal(size=(200, 2)), 10, 0)
    five = grouping.into(5)
    assert len(grouping.into(2).centres) == 2 < len(five.centres)
    assert grouping.into(5) is five
