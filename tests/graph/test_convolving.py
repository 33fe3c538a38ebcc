"""Rows that are convolved a few at a time, against all at once."""

import pytest
import torch

from farfield.graph import convolving

# Weights, strides and groups, in one to three dimensions; the last two are transposed.
KERNELS = {
    "line": ((4, 3, 3), [2], 1, False),
    "plane": ((4, 3, 3, 2), [1, 2], 1, False),
    "groups": ((6, 1, 3, 3), [1, 1], 3, False),
    "space": ((2, 3, 2, 2, 2), [1, 1, 1], 1, False),
    "turned": ((3, 4, 3, 3), [2, 2], 1, True),
    "turned groups": ((3, 2, 3), [1], 3, True),
}


@pytest.mark.parametrize("room", [1, 1_000])
@pytest.mark.parametrize("name", KERNELS)
def test_rows_are_convolved_a_few_at_a_time(name, room, monkeypatch):
    shape, stride, groups, transposed = KERNELS[name]
    ones = [1] * len(stride)
    more = (None, stride, ones, ones, transposed, [0] * len(stride), groups)
    weight = torch.randn(shape, dtype=torch.float64)
    rows = torch.randn(7, 3, *[6] * len(stride), dtype=torch.float64)
    calls, convolution = [], torch.convolution
    expected = convolution(rows, weight, *more)

    def counted(part, *args):
        calls.append(len(part))
        return convolution(part, *args)

    monkeypatch.setattr(torch, "convolution", counted)
    monkeypatch.setattr(convolving, "UNFOLDED", room)
    made = convolving.convolve(rows, weight, *more)
    torch.testing.assert_close(made, expected, rtol=1e-13, atol=1e-13)
    assert sum(calls) == 7
    assert max(calls) < 7
    made = convolving.convolve(rows.float(), weight.float(), *more)
    assert made.dtype == torch.float32
    assert calls[-1] == 7
    assert convolving.convolve(rows[:0], weight, *more).shape == expected[:0].shape
