"""Polygons of a plane on a grid of pixels: which region, which class, how confident."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.exact.planar.boundaries import padded

# How many pairs of a polygon and a pixel are tested at a time.
BLOCK = 1 << 20


@dataclass(frozen=True)
class Raster:
    """A plane on a grid of pixels, seen at their centres.

    Attributes:
        polygon: ``(rows, columns)`` the region of each pixel; row 0 is at the lowest ``b``.
        label: ``(rows, columns)`` the class with the largest logit.
        confidence: ``(rows, columns)`` its probability.
        extent: ``(a low, a high, b low, b high)``.
    """

    polygon: Tensor
    label: Tensor
    confidence: Tensor
    extent: tuple[float, float, float, float]


def raster(
    vertices: Tensor,
    offsets: Tensor,
    slope: Tensor,
    intercept: Tensor,
    extent: tuple[float, float, float, float],
    pixels: int,
) -> Raster:
    """Evaluate the affine map of the polygon that holds each pixel's centre."""
    left, right, low, high = extent
    steps = (torch.arange(pixels, dtype=vertices.dtype) + 0.5) / pixels
    x, y = left + steps * (right - left), low + steps * (high - low)
    polygon = _cover(padded(vertices, offsets), x, y)
    points = torch.stack([x.expand(pixels, -1), y[:, None].expand(-1, pixels)], dim=-1)
    shape = (pixels, pixels)
    best, total = (x.new_full(shape, -torch.inf) for _ in range(2))
    label = torch.zeros(shape, dtype=torch.int64)
    # One class at a time: all logits of all pixels together would be large.
    for index in range(slope.shape[1]):
        logit = (slope[polygon, index] * points).sum(dim=-1) + intercept[polygon, index]
        label = torch.where(logit > best, index, label)
        best, total = torch.maximum(best, logit), torch.logaddexp(total, logit)
    confidence = torch.exp(best - total)
    return Raster(polygon, label, confidence, extent)


def _cover(corners: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Which polygon holds each point of a grid: try the pixels in each polygon's bounding box."""
    least, most = corners.amin(dim=1), corners.amax(dim=1)
    first = torch.stack(
        [torch.searchsorted(axis, least[:, i].contiguous()) for i, axis in enumerate((x, y))]
    )
    last = torch.stack(
        [
            torch.searchsorted(axis, most[:, i].contiguous(), right=True)
            for i, axis in enumerate((x, y))
        ]
    )
    across, up = (last - first).clamp(min=0)
    counts = across * up
    edge = corners.roll(-1, dims=1) - corners
    result = torch.zeros(len(y), len(x), dtype=torch.int64)
    ends = torch.cumsum(counts, dim=0)
    start = 0
    while start < len(counts):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(torch.searchsorted(ends, done + BLOCK, right=True)))
        owner = torch.arange(start, stop).repeat_interleave(counts[start:stop])
        place = torch.arange(len(owner)) - (ends - counts)[owner] + done
        column = first[0, owner] + place % across[owner]
        row = first[1, owner] + place // across[owner]
        offset = torch.stack([x[column], y[row]], dim=1)[:, None] - corners[owner]
        side = edge[owner, :, 0] * offset[..., 1] - edge[owner, :, 1] * offset[..., 0]
        slack = 1e-12 * edge[owner].abs().amax(dim=(1, 2)) * offset.abs().amax(dim=(1, 2))
        inside = (side >= -slack[:, None]).all(dim=1)
        result[row[inside], column[inside]] = owner[inside]
        start = stop
    return result
