"""The budget of a file: a floor, a share of its size, and one line beyond it."""

import pytest

from farfield.budget import BYTES_FLOOR, OPERATIONS_FLOOR, Budget, allowance, operations
from farfield.errors import CaptureError, InputError


def test_grows_with_the_file_from_a_floor():
    assert allowance(0) == BYTES_FLOOR
    assert operations(0) == OPERATIONS_FLOOR
    assert allowance(10**9) > 10 * 10**9


def test_what_is_left_can_be_spent_to_the_last():
    budget = Budget(10)
    budget.spend(4, "a part")
    budget.grow(1)
    budget.spend(7, "the rest")
    assert budget.left == 0


def test_more_is_one_line_that_says_what_was_asked():
    with pytest.raises(InputError, match=r"^x\.npz asks for 11 bytes, and 10 are left") as caught:
        Budget(10).spend(11, "x.npz")
    assert "\n" not in str(caught.value)


def test_a_refusal_spends_nothing():
    budget = Budget(10, "operations", CaptureError)
    with pytest.raises(CaptureError, match="11 operations"):
        budget.spend(11, "a layer")
    assert budget.left == 10
