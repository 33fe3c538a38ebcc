"""Convolutions of many rows, a few at a time.

PyTorch has no convolution of its own for double precision: it unfolds all rows of a batch into the
patches that the kernel meets, one matrix of many times their size. Memory for a large one is asked
of the system anew each time and given back, which takes as long as the convolution.
"""

import math

import torch
from torch import Tensor

# Bytes that rows are unfolded into at once.
UNFOLDED = 8 << 20


def convolve(
    rows: Tensor,
    kernel: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Tensor:
    """Return ``torch.convolution`` of the same arguments.

    Example:
        >>> rows, kernel = torch.ones(9, 1, 4).double(), torch.ones(1, 1, 2).double()
        >>> convolve(rows, kernel, None, [1], [0], [1], False, [0], 1).shape
        torch.Size([9, 1, 3])
    """
    more = (kernel, bias, stride, padding, dilation, transposed, output_padding, groups)
    if rows.dtype != torch.float64:  # nothing is unfolded
        return torch.convolution(rows, *more)
    places = math.prod(rows.shape[2:]) // (1 if transposed else math.prod(stride))
    patch = math.prod(kernel.shape[1:])  # of one group; they are unfolded one after the other
    row = max(1, places * patch * rows.element_size())
    parts = [torch.convolution(part, *more) for part in rows.split(max(1, UNFOLDED // row))]
    return torch.cat(parts) if len(parts) > 1 else parts[0]
