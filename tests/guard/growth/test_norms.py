import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from farfield.guard.growth.norms import convolution_norm, matrix_norm, schur_norm


def dense(kernel, size, stride, padding, groups):
    """The matrix of a zero-padded convolution."""
    channels = kernel.shape[1] * groups
    shape = (channels, *[size] * (kernel.ndim - 2))
    basis = torch.eye(math.prod(shape), dtype=torch.float64).reshape(-1, *shape)
    convolve = {1: torch.conv1d, 2: torch.conv2d}[kernel.ndim - 2]
    return convolve(basis, kernel, None, stride, padding, 1, groups).flatten(1).T


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 10_000))
def test_matrix_norm_is_the_largest_singular_value(rows, columns, seed):
    matrix = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)).double()
    exact = float(torch.linalg.matrix_norm(matrix, ord=2))
    assert exact <= matrix_norm(matrix) <= exact * (1 + 1e-6)


def test_matrix_norm_of_nothing_is_zero():
    assert matrix_norm(torch.zeros(3, 3)) == 0.0
    assert matrix_norm(torch.zeros(0, 3)) == 0.0


@pytest.mark.parametrize(
    ("taps", "stride", "padding", "groups"),
    list(itertools.product((1, 2, 3, 5), (1, 2), (0, 1), (1, 2))),
)
def test_convolution_norm_bounds_every_image(taps, stride, padding, groups):
    generator = torch.Generator().manual_seed(taps + 10 * stride)
    kernel = torch.randn(4, 4 // groups, taps, taps, generator=generator).double()
    exact = float(torch.linalg.matrix_norm(dense(kernel, 9, stride, padding, groups), ord=2))
    bound = convolution_norm(kernel, [stride, stride], groups)
    assert exact <= bound
    # On a large image nothing but the correction for the grid of frequencies is lost.
    assert bound <= 1.6 * exact


def test_convolution_norm_in_one_dimension_approaches_long_signals():
    kernel = torch.tensor([[[1.0, 2.0, -1.0]]], dtype=torch.float64)
    exact = float(torch.linalg.matrix_norm(dense(kernel, 300, 1, 1, 1), ord=2))
    assert exact <= convolution_norm(kernel, [1], 1) <= 1.01 * exact


def test_a_kernel_of_one_tap_is_a_matrix():
    kernel = torch.randn(3, 5, 1, 1, generator=torch.Generator().manual_seed(0)).double()
    assert convolution_norm(kernel, [1, 1], 1) == pytest.approx(matrix_norm(kernel[:, :, 0, 0]))


def test_schur_norm_counts_copies():
    (norm,) = schur_norm(lambda t: torch.cat([t, t, t, t], dim=1), [torch.Size([5])], [])
    assert norm == pytest.approx(2.0)


def test_schur_norm_of_a_sum_of_two():
    norms = schur_norm(torch.add, [torch.Size([3]), torch.Size([3])], [])
    assert norms == pytest.approx([1.0, 1.0])
