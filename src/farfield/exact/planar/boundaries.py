"""Decision boundaries in a plane: exact segments, one for each pair of classes that meet."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# Segments shorter than this share of the window are where a boundary only touches a polygon.
SHORTEST = 1e-12


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

    Args:
        vertices: ``(corners, 2)`` of polygons, counter-clockwise.
        offsets: ``(polygons + 1,)`` where each polygon's corners start.
        slope: ``(polygons, classes, 2)`` of the logits.
        intercept: ``(polygons, classes)`` of the logits.
    """
    corners = padded(vertices, offsets)
    logits = torch.einsum("pmd,pcd->pmc", corners, slope) + intercept[:, None]
    alone = (logits >= logits.amax(dim=2, keepdim=True)).all(dim=1).any(dim=1)
    mixed = torch.nonzero(~alone).flatten()
    corners, slope, intercept = corners[mixed], slope[mixed], intercept[mixed]
    size = (vertices.amax(dim=0) - vertices.amin(dim=0)).norm()
    segments, classes, polygon = [], [], []
    for first in range(slope.shape[1]):
        for second in range(first + 1, slope.shape[1]):
            ends, owner = _clip(corners, slope, intercept, first, second, float(size))
            segments.append(ends)
            classes.append(torch.tensor([[first, second]]).expand(len(ends), 2))
            polygon.append(mixed[owner])
    return Boundaries(torch.cat(segments), torch.cat(classes), torch.cat(polygon))


def _clip(
    corners: Tensor, slope: Tensor, intercept: Tensor, first: int, second: int, size: float
) -> tuple[Tensor, Tensor]:
    """Where two classes lead together: ends ``(n, 2, 2)``, and the polygon of each."""
    normal = slope[:, first] - slope[:, second]
    length = normal.norm(dim=1)
    some = torch.nonzero(length > 0).flatten()
    corners, slope, intercept = corners[some], slope[some], intercept[some]
    normal, length = normal[some] / length[some, None], length[some]
    offset = (intercept[:, first] - intercept[:, second]) / length
    centre = corners.mean(dim=1)
    start = centre - ((centre * normal).sum(dim=1) + offset)[:, None] * normal
    along = torch.stack([-normal[:, 1], normal[:, 0]], dim=1)
    edge = corners.roll(-1, dims=1) - corners
    inside = _cross(edge, start[:, None] - corners)
    inward = _cross(edge, along[:, None].expand_as(edge))
    ahead = slope[:, [first]] - slope
    lead = (ahead * start[:, None]).sum(dim=2) + intercept[:, [first]] - intercept
    gain = (ahead * along[:, None]).sum(dim=2)
    # The two classes tie on the whole line: they do not limit it.
    lead[:, [first, second]] = gain[:, [first, second]] = 0.0
    low, high = _interval(torch.cat([inside, lead], dim=1), torch.cat([inward, gain], dim=1))
    found = torch.nonzero(high - low > SHORTEST * size).flatten()
    ends = torch.stack([low, high], dim=1)[found]
    points = start[found, None] + ends[:, :, None] * along[found, None]
    return points, some[found]


def _interval(value: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
    """For which ``t`` all of ``value + rate * t >= 0``: from ``low`` to ``high`` for each row."""
    t = -value / rate
    low = t.masked_fill(rate <= 0, -torch.inf).amax(dim=1)
    high = t.masked_fill(rate >= 0, torch.inf).amin(dim=1)
    never = ((rate == 0) & (value < 0)).any(dim=1)
    return low, high.masked_fill(never, -torch.inf)


def _cross(left: Tensor, right: Tensor) -> Tensor:
    return left[..., 0] * right[..., 1] - left[..., 1] * right[..., 0]
