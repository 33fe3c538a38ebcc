"""Decision boundaries in a plane: exact segments, one for each pair of classes that meet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from farfield.exact.planar.contenders import bunches, contenders

# Segments shorter than this share of the window are where a boundary only touches a polygon.
SHORTEST = 1e-12
# How many numbers a temporary of the clipping may hold.
ROOM = 1 << 21
# How many other classes limit a boundary at a time.
OTHERS = 32


@dataclass(frozen=True)
class Boundaries:
    """Where the predicted class changes inside polygons.

    Attributes:
        segments: ``(segments, 2, 2)`` two ends each, in the coordinates of the slice.
        classes: ``(segments, 2)`` the two classes that tie there, above all others.
        polygon: ``(segments,)`` which polygon each lies in.
    """

    segments: Tensor
    classes: Tensor
    polygon: Tensor

    @property
    def lengths(self) -> Tensor:
        """``(segments,)`` in the coordinates of the slice."""
        across, up = (self.segments[:, 1] - self.segments[:, 0]).unbind(dim=1)
        return torch.hypot(across, up)

    def __len__(self) -> int:
        return len(self.segments)


def padded(vertices: Tensor, offsets: Tensor) -> Tensor:
    """Corners as ``(polygons, most, 2)``, filled up with the first corner of each polygon."""
    counts = offsets.diff()
    place = torch.arange(int(counts.max()))
    index = offsets[:-1, None] + torch.where(place < counts[:, None], place, 0)
    return vertices[index]


def boundaries(vertices: Tensor, offsets: Tensor, slope: Tensor, intercept: Tensor) -> Boundaries:
    """Clip the line on which two classes tie to where no other class is above, in each polygon.

    Of classes that tie everywhere, the first counts.

    Args:
        vertices: ``(corners, 2)`` of polygons, counter-clockwise.
        offsets: ``(polygons + 1,)`` where each polygon's corners start.
        slope: ``(polygons, classes, 2)`` of the logits.
        intercept: ``(polygons, classes)`` of the logits.
    """
    corners = padded(vertices, offsets)
    size = float((vertices.amax(dim=0) - vertices.amin(dim=0)).norm())
    found = [(vertices.new_empty(0, 2, 2), offsets.new_empty(0, 2), offsets.new_empty(0))]
    for bunch in bunches(contenders(corners, slope, intercept), ROOM):
        own = corners[bunch.polygon], bunch.of(slope), bunch.of(intercept)
        pairs = torch.combinations(torch.arange(bunch.classes.shape[1]))
        step = max(1, ROOM // (len(bunch.polygon) * (corners.shape[1] + OTHERS)))
        for some in pairs.split(step):
            ends, row, pair = _clip(*own, some, size)
            classes = bunch.classes[row[:, None], some[pair]]
            found.append((ends, classes, bunch.polygon[row]))
    segments, classes, polygon = (torch.cat(part) for part in zip(*found, strict=True))
    order = np.lexsort((polygon.numpy(), classes[:, 1].numpy(), classes[:, 0].numpy()))
    return Boundaries(segments[order], classes[order], polygon[order])


def _clip(
    corners: Tensor, slope: Tensor, intercept: Tensor, pairs: Tensor, size: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Where two classes lead together, for pairs of classes in every polygon.

    Returns:
        Ends ``(n, 2, 2)``, and the polygon and the pair of each.
    """
    normal = slope[:, pairs[:, 0]] - slope[:, pairs[:, 1]]
    row, pair = torch.nonzero(normal.norm(dim=2) > 0, as_tuple=True)
    tied, normal = pairs[pair], normal[row, pair]
    length = normal.norm(dim=1)
    normal = normal / length[:, None]
    offset = (intercept[row, tied[:, 0]] - intercept[row, tied[:, 1]]) / length
    centre = corners.mean(dim=1)[row]
    start = centre - ((centre * normal).sum(dim=1) + offset)[:, None] * normal
    along = torch.stack([-normal[:, 1], normal[:, 0]], dim=1)
    edge = (corners.roll(-1, dims=1) - corners)[row]
    low, high = _interval(
        _cross(edge, start[:, None] - corners[row]), _cross(edge, along[:, None].expand_as(edge))
    )
    alive = torch.nonzero(high - low > SHORTEST * size).flatten()
    # A few others at a time, from all over: most pairs do not survive the first few.
    blocks = -(-intercept.shape[1] // OTHERS)
    for block in range(blocks):
        others = torch.arange(block, intercept.shape[1], blocks)
        own, first = row[alive], tied[alive, 0]
        ahead = slope[own, first][:, None] - slope[own[:, None], others]
        lead = (ahead * start[alive, None]).sum(dim=2) + intercept[own, first][:, None]
        lead = lead - intercept[own[:, None], others]
        gain = (ahead * along[alive, None]).sum(dim=2)
        # The two classes tie on the whole line: they do not limit it.
        itself = (others == tied[alive, :, None]).any(dim=1)
        bounds = _interval(lead.masked_fill(itself, 0.0), gain.masked_fill(itself, 0.0))
        low[alive] = torch.maximum(low[alive], bounds[0])
        high[alive] = torch.minimum(high[alive], bounds[1])
        alive = alive[high[alive] - low[alive] > SHORTEST * size]
    ends = torch.stack([low, high], dim=1)[alive]
    points = start[alive, None] + ends[:, :, None] * along[alive, None]
    return points, row[alive], pair[alive]


def _interval(value: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
    """For which ``t`` all of ``value + rate * t >= 0``: from ``low`` to ``high`` for each row."""
    t = -value / rate
    low = t.masked_fill(rate <= 0, -torch.inf).amax(dim=1)
    high = t.masked_fill(rate >= 0, torch.inf).amin(dim=1)
    never = ((rate == 0) & (value < 0)).any(dim=1)
    return low, high.masked_fill(never, -torch.inf)


def _cross(left: Tensor, right: Tensor) -> Tensor:
    return left[..., 0] * right[..., 1] - left[..., 1] * right[..., 0]
