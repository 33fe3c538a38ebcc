"""Convolutions of traces in which few units have kinks.

In the early layers of a convolutional network most units are affine over many knots: each knot is
the doing of one unit. Between two *anchors*, some rows apart, a trace is its chord plus a residual
that is zero but for the units with a kink in between; so is its image under an affine map. Anchors
go through the convolution itself, residuals through the few columns of its matrix that they need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from farfield.exact.ray.knots import Trace
from farfield.graph.rules import Affine

aten = torch.ops.aten
# Rows from one anchor to the next.
BLOCK = 32
# Residuals of this many units in the last place are rounding.
ROUNDING = 16 * torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class Kernel:
    """A plain convolution in two dimensions, as a matrix that can be read column by column."""

    weight: Tensor
    stride: tuple[int, int]
    padding: tuple[int, int]

    def columns(self, units: Tensor, shape: torch.Size, out: torch.Size) -> Tensor:
        """The images of unit vectors, ``(units, outputs)``, for inputs and outputs of a shape."""
        channel, place = units // (shape[1] * shape[2]), units % (shape[1] * shape[2])
        corner = []
        for axis, position in enumerate((place // shape[2], place % shape[2])):
            taps = torch.arange(self.weight.shape[2 + axis], device=units.device)
            corner.append(position[:, None] + self.padding[axis] - taps)
        fits = [
            (at >= 0) & (at % step == 0) & (at < length * step)
            for at, step, length in zip(corner, self.stride, out[1:], strict=True)
        ]
        unit, row, column = torch.nonzero(fits[0][:, :, None] & fits[1][:, None, :], as_tuple=True)
        to = (corner[0][unit, row] // self.stride[0]) * out[2]
        to = to + corner[1][unit, column] // self.stride[1]
        images = self.weight.new_zeros(len(units), out[0], out[1] * out[2])
        images[unit, :, to] = self.weight[:, channel[unit], row, column].T
        return images.flatten(1)


def plain_kernel(args: tuple[Any, ...]) -> Kernel | None:
    """Read the arguments of a convolution; ``None`` if it is not a plain one."""
    _, weight, _, stride, padding, dilation, transposed, _, groups = args
    if weight.ndim != 4 or transposed or groups != 1 or any(step != 1 for step in dilation):
        return None
    return Kernel(weight, (stride[0], stride[-1]), (padding[0], padding[-1]))


def convolve(operation: Affine, trace: Trace, kernel: Kernel) -> tuple[Tensor, float] | None:
    """Convolve the rows of a single ray block by block; ``None`` if that would not pay.

    Returns:
        The parts of the result, and what they cost in rows that go through the convolution.
    """
    grid, knots = trace.grid, trace.knots
    if grid.rays > 1 or len(knots) < BLOCK:
        return None
    last = len(knots) - 1
    anchors = torch.tensor(sorted({*range(0, last, BLOCK), last}), device=knots.device)
    residuals = []
    for low, high in zip(anchors[:-1].tolist(), anchors[1:].tolist(), strict=True):
        residual, units = _residual(knots, grid.t, low, high)
        if 2 * len(units) > operation.terms:
            return None
        residuals.append((low, high, residual, units))
    rows = torch.cat([trace.slope, knots[anchors], trace.intercept])
    dense = operation.function(rows, *operation.weights)
    parts = dense.new_empty(len(trace.parts), *dense.shape[1:])
    if grid.ends:
        parts[: grid.ends], parts[-grid.ends :] = dense[: grid.ends], dense[-grid.ends :]
    out = Trace(parts, grid).knots
    at_anchors = dense[grid.ends : grid.ends + len(anchors)]
    out[anchors] = at_anchors
    for block, (low, high, residual, units) in enumerate(residuals):
        if high - low < 2:
            continue
        share = _share(grid.t, low, high).reshape(-1, 1, 1, 1)
        torch.lerp(at_anchors[block], at_anchors[block + 1], share, out=out[low + 1 : high])
        if len(units):
            columns = kernel.columns(units, knots.shape[1:], dense.shape[1:])
            out[low + 1 : high].view(high - low - 1, -1).addmm_(residual, columns)
    spent = sum((high - low - 1) * len(units) for low, high, _, units in residuals)
    return parts, len(rows) + spent / operation.terms


def _share(t: Tensor, low: int, high: int) -> Tensor:
    """How far the rows between two anchors are on the way."""
    return (t[low + 1 : high] - t[low]) / (t[high] - t[low])


def _residual(knots: Tensor, t: Tensor, low: int, high: int) -> tuple[Tensor, Tensor]:
    """What is left of the rows between two anchors beside the chord, and in which units."""
    block = knots[low : high + 1].flatten(1)
    start, stop = block[0], block[-1]
    residual = block[1:-1] - torch.lerp(start, stop, _share(t, low, high)[:, None])
    noise = torch.maximum(start.abs(), stop.abs()) * ROUNDING
    units = torch.nonzero((residual.abs() > noise).any(dim=0)).flatten()
    return residual[:, units], units
