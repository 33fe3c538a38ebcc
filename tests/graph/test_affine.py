"""Affine operations that are done in parts are what they are in one."""

import pytest
import torch

from farfield.graph import affine

# Weights, strides and groups, in one to three dimensions; the last two are transposed.
KERNELS = {
    "line": ((4, 3, 3), [2], 1, False),
    "plane": ((4, 3, 3, 2), [1, 2], 1, False),
    "groups": ((6, 1, 3, 3), [1, 1], 3, False),
    "space": ((2, 3, 2, 2, 2), [1, 1, 1], 1, False),
    "turned": ((3, 4, 3, 3), [2, 2], 1, True),
    "turned groups": ((3, 2, 3), [1], 3, True),
}


class Plain:
    """Values are tensors."""

    def affine(self, operation, value):
        return operation.function(value, *operation.weights)


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
    monkeypatch.setattr(affine, "UNFOLDED", room)
    made = affine.convolution(Plain(), rows, weight, *more)
    torch.testing.assert_close(made, expected, rtol=1e-13, atol=1e-13)
    assert sum(calls) == 7
    assert max(calls) < 7
    made = affine.convolution(Plain(), rows.float(), weight.float(), *more)
    assert made.dtype == torch.float32
    assert calls[-1] == 7
