"""What counts as one distribution for each row."""

import numpy as np
import pytest
import torch

from farfield.distributions import as_distributions
from farfield.errors import InputError


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.zeros((3, 2)), "add up to"),
        (np.array([[2.0, -1.0]] * 3), "no probabilities"),
        (np.ones((2, 2)) / 2, "shape"),
        (np.ones((3, 2, 2)), "shape"),
        (np.ones(2), "shape"),
        (np.full(3, 1.5), "no probabilities"),
        (np.array([0, 1, 1]), "shape"),
        (np.array([[0.2, 0.3, 0.5]] * 3), "shape"),
        (np.array([[1, 0]] * 3), "floating"),
    ],
)
def test_what_is_no_distribution_is_refused(given, said):
    with pytest.raises(InputError, match=said):
        as_distributions(given, 3, 2)


def test_rounding_is_cut_off_and_nothing_else_is_touched():
    p = np.array([[1.0 + 1e-6, -1e-6], [0.1, 0.9], [np.nan, 0.5]], dtype=np.float32)
    found = as_distributions(torch.from_numpy(p), 3)
    assert found.dtype == np.float32
    assert found[0].tolist() == [1.0, 0.0]
    assert np.array_equal(found[1:], p[1:], equal_nan=True)


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_one_number_is_the_probability_of_the_second_class(shape):
    p = np.array([0.25, 1.0], dtype=np.float32).reshape(shape)
    assert as_distributions(p, 2, 2).tolist() == [[0.75, 0.25], [0.0, 1.0]]
    with pytest.raises(InputError, match="shape"):
        as_distributions(p, 2, 3)
