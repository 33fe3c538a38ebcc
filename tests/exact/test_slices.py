"""Sums of floats and their products, against fractions."""

import itertools
from fractions import Fraction

import hypothesis.strategies as st
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from hypothesis import given, settings
from torch import Tensor

from farfield.exact.slices import (
    SlicedWeight,
    add_up,
    cut,
    row_tops,
    sum_error,
    two_product,
    two_sum,
)

FLOATS = st.floats(-1e30, 1e30).filter(lambda x: x == 0 or abs(x) > 1e-60)


def exact(*parts: Tensor) -> Fraction:
    return sum((Fraction(float(part)) for part in parts), Fraction(0))


def scalar(number: float) -> Tensor:
    return torch.tensor(number, dtype=torch.float64)


@given(FLOATS, FLOATS)
def test_sums_and_products_of_two_have_no_error(a, b):
    assert exact(*two_sum(scalar(a), scalar(b))) == Fraction(a) + Fraction(b)
    assert exact(*two_product(scalar(a), scalar(b))) == Fraction(a) * Fraction(b)


@given(st.lists(FLOATS, min_size=1, max_size=9), st.integers(1, 4))
def test_sums_of_many_keep_their_bound(numbers, count):
    terms = [scalar(number) for number in numbers]
    parts = add_up(terms, count)
    size = sum(abs(Fraction(number)) for number in numbers)
    bound = Fraction(sum_error(len(terms), count)) * size
    assert abs(exact(*parts) - sum(map(Fraction, numbers))) <= bound
    assert len(parts) <= count


def test_a_sum_that_cancels_keeps_what_is_left():
    parts = add_up([scalar(1.0), scalar(2.0**-70), scalar(2.0**-140), scalar(-1.0)], 3)
    assert exact(*parts) == Fraction(2) ** -70 + Fraction(2) ** -140


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(8, 24))
def test_slices_are_multiples_of_their_grid_and_leave_less_than_half(seed, count, bits):
    generator = torch.Generator().manual_seed(seed)
    leading = torch.randn(3, 5, dtype=torch.float64, generator=generator)
    leading *= 10.0 ** torch.randint(-9, 9, (3, 5), generator=generator)
    small = leading * 2.0**-54 * torch.rand(3, 5, dtype=torch.float64, generator=generator)
    tops = row_tops(leading)
    slices, rests = cut((leading, small), tops, bits, count)
    for row in range(3):
        for column in range(5):
            at = (row, column)
            left = exact(leading[at], small[at])
            for j, each in enumerate(slices, start=1):
                grid = Fraction(float(tops[row, 0])) * Fraction(2) ** (1 - j * (bits + 1))
                multiple = Fraction(float(each[at])) / grid
                assert multiple.denominator == 1
                assert abs(multiple) <= 2**bits
                left -= Fraction(float(each[at]))
                assert abs(left) <= grid / 2 * (1 + Fraction(2) ** -50)
                assert abs(left - Fraction(float(rests[j][at]))) <= grid * Fraction(2) ** -50


@settings(max_examples=25)
@given(
    st.integers(0, 10**6),
    st.integers(1, 6),
    st.sampled_from(["single", "double", "scales", "whole"]),
)
def test_products_in_slices_stay_within_their_error(seed, most, kind):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(3, 17, generator=generator).double()
    if kind == "double":
        weight = torch.randn(3, 17, dtype=torch.float64, generator=generator)
    elif kind == "scales":
        weight *= 10.0 ** torch.randint(-12, 12, weight.shape, generator=generator)
    elif kind == "whole":
        weight = torch.randint(-3, 4, weight.shape, generator=generator).double()
    rows = torch.randn(2, 17, dtype=torch.float64, generator=generator)
    small = rows * 2.0**-54 * torch.rand(rows.shape, dtype=torch.float64, generator=generator)
    sliced = SlicedWeight.of(F.linear, weight, (17,), 17, most)
    tops = row_tops(rows)
    errors = []
    for count in range(most + 1):
        parts = sliced.apply((rows, small), tops, count)
        bound = tops * sliced.fresh_error(count)
        errors.append(float(bound.max()))
        for row in range(2):
            for out in range(3):
                product = sum(
                    Fraction(float(w)) * exact(x, y)
                    for w, x, y in zip(weight[out], rows[row], small[row], strict=True)
                )
                found = exact(*(part[row, out] for part in parts))
                assert abs(found - product) <= Fraction(float(bound[row, out]))
    assert all(later < 2.0**-18 * earlier for earlier, later in itertools.pairwise(errors))
