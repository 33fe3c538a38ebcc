"""Sound bounds on the operator norms of linear maps.

*Matrices*: the largest singular value, from the eigenvalues of the smaller Gram matrix.

*Convolutions*: zero padding and cropping compress the convolution on the infinite grid, whose norm
is ``sup |K(w)|`` over frequencies, ``K(w) = sum_t K_t exp(-i t.w)``. A strided convolution is a
plain one on the grid's phases stacked as channels; dilation only rescales frequencies. The supremum
is found on a grid of N frequencies per axis and corrected: for unit vectors a, b the function
``q(w) = |a* K(w) b|^2`` is a trigonometric polynomial of degree ``n_i = taps_i - 1`` in axis i with
values in ``[0, Q]``, so Bernstein's inequality for ``q - Q / 2`` bounds its second derivative along
a step v by ``(sum_i n_i |v_i|)^2 Q / 2``. Its gradient is zero where it is largest, hence the
nearest grid point, at most pi / N away on each axis, has ``q >= Q (1 - (sum_i n_i pi / N)^2 / 4)``.

*Everything else*: Schur's test, ``|A|^2 <= max row sum of |A| * max column sum of |A|``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from farfield.exact.bounded import SLACK

# Frequencies per axis: the correction is 2% for 5 taps at 64, and for 3 taps at 32.
FREQUENCIES = {1: 256, 2: 32, 3: 16}
FINE_FREQUENCIES = 64
# Larger matrices are bounded by their entries: eigenvalues would take minutes.
MOST_SINGULAR_VALUES = 2048
# Eigenvalues in float64 are this good, relative to the largest, with room for a million entries.
EIGENVALUE_SLACK = 1 + 1e-9


def matrix_norm(matrix: Tensor) -> float:
    """Bound the largest singular value of ``(rows, columns)``.

    >>> round(matrix_norm(torch.tensor([[3.0, 0.0], [4.0, 0.0]])), 6)
    5.0
    """
    if matrix.numel() == 0:
        return 0.0
    wide = matrix.double()
    largest = float(wide.abs().max())
    if largest == 0:
        return 0.0
    wide = wide / largest
    if min(wide.shape) > MOST_SINGULAR_VALUES:
        sizes = wide.abs()
        schur = math.sqrt(float(sizes.sum(dim=0).max()) * float(sizes.sum(dim=1).max()))
        return min(float(wide.norm()), schur) * largest * SLACK
    gram = wide @ wide.T if len(wide) <= wide.shape[1] else wide.T @ wide
    top = float(torch.linalg.eigvalsh(gram)[-1])
    return math.sqrt(max(top, 0.0) * EIGENVALUE_SLACK) * largest * SLACK


def convolution_norm(kernel: Tensor, stride: Sequence[int], groups: int) -> float:
    """Bound the norm of a convolution on images of any size, zero padded in any way.

    Args:
        kernel: ``(out, in / groups, *taps)``; for a transposed convolution its adjoint's kernel.
        stride: One for each axis.
        groups: Blocks of channels; the norm is the largest of theirs.

    >>> round(convolution_norm(torch.ones(1, 1, 3, 3), [1, 1], 1), 1)
    9.2
    """
    axes = kernel.ndim - 2
    steps = [*stride] if len(stride) == axes else [*stride] * axes
    blocks = kernel.double().chunk(groups)
    return max(_infinite_norm(_phases(block, steps)) for block in blocks)


def _phases(kernel: Tensor, stride: Sequence[int]) -> Tensor:
    """Rewrite a strided kernel as a plain one whose input channels are the grid's phases."""
    for axis, step in enumerate(stride):
        place = kernel.ndim - len(stride) + axis
        taps = kernel.shape[place]
        if step == 1:
            continue
        padded = [0, 0] * (kernel.ndim - 1 - place) + [0, -taps % step]
        kernel = torch.nn.functional.pad(kernel, padded)
        kernel = kernel.unflatten(place, (-1, step)).movedim(place + 1, 1).flatten(1, 2)
    return kernel


def _infinite_norm(kernel: Tensor) -> float:
    taps = list(kernel.shape[2:])
    size = FREQUENCIES[len(taps)]
    if len(taps) == 2 and max(taps) > 3:
        size = FINE_FREQUENCIES
    while (miss := sum(n - 1 for n in taps) * math.pi / size) >= 1:
        size *= 2
    response = torch.fft.fftn(kernel, s=[size] * len(taps), dim=list(range(2, kernel.ndim)))
    matrices = response.flatten(2).permute(2, 0, 1)
    # K(-w) is the conjugate of K(w): half of the first axis suffices.
    matrices = matrices[: (size // 2 + 1) * size ** (len(taps) - 1)]
    if matrices.shape[1] <= matrices.shape[2]:
        grams = matrices @ matrices.mH
    else:
        grams = matrices.mH @ matrices
    top = float(torch.linalg.eigvalsh(grams)[:, -1].max())
    return math.sqrt(max(top, 0.0) * EIGENVALUE_SLACK / (1 - (miss / 2) ** 2)) * SLACK


def schur_norm(
    magnitude: Callable[..., Tensor], shapes: Sequence[torch.Size], sizes: Sequence[Tensor]
) -> list[float]:
    """Bound the norm of a linear map in each of its arguments by row and column sums of ``|A|``.

    Args:
        magnitude: ``|A|``: takes the arguments with a leading dimension of one, then the weights.
        shapes: Of the arguments, without that dimension.
        sizes: Absolute values of the weights.
    """
    norms = []
    for place in range(len(shapes)):
        with torch.enable_grad():
            inputs = [torch.zeros(1, *shape, dtype=torch.float64) for shape in shapes]
            inputs[place] = torch.ones_like(inputs[place]).requires_grad_()
            sums = magnitude(*inputs, *sizes)
            if not sums.requires_grad:
                norms.append(0.0)
                continue
            (columns,) = torch.autograd.grad(sums.sum(), inputs[place])
        product = float(sums.detach().max()) * float(columns.max())
        norms.append(math.sqrt(max(product, 0.0)) * SLACK)
    return norms
