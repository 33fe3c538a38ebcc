"""Decision boundaries in a plane: exact segments, one for each pair of classes that meet.

Where a model jumps, its class changes from one polygon to the next and nothing ties. Polygons on
either side of a cut remember the same line, so what they share is found line by line: all corners
on it divide it into intervals, and each has at most one polygon on either side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from farfield.exact.planar.contenders import bunches, contenders
from farfield.exact.planar.polygons import Floats, Integers, Polygons

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


def seams(polygons: Polygons, label: Tensor) -> Boundaries:
    """Find the segments with polygons of two classes on either side.

    Args:
        polygons: All polygons of a window.
        label: ``(polygons,)`` the class of each.
    """
    owner, place = np.nonzero(np.arange(polygons.corners.shape[1]) < polygons.counts[:, None])
    following = (place + 1) % polygons.counts[owner]
    lines, line = np.unique(polygons.edges[owner, place], axis=0, return_inverse=True)
    line = line.reshape(-1)
    normal = lines[line, :2]
    along = np.stack([-normal[:, 1], normal[:, 0]], axis=1)
    ends = np.stack(
        [
            (polygons.corners[owner, place] * along).sum(axis=1),
            (polygons.corners[owner, following] * along).sum(axis=1),
        ]
    )
    above = (polygons.centres()[owner] * normal).sum(axis=1) + lines[line, 2] > 0
    size = float(np.ptp(polygons.corners.reshape(-1, 2), axis=0).max())
    on, low, high = _intervals(np.tile(line, 2), ends.reshape(-1), SHORTEST * size)
    first, last = ends.min(axis=0), ends.max(axis=0)
    sides = [
        _holder(line[side], first[side], last[side], owner[side], on, (low + high) / 2)
        for side in (above, ~above)
    ]
    shared = (sides[0] >= 0) & (sides[1] >= 0)
    classes = label.numpy()[np.stack(sides, axis=1)]
    shared &= classes[:, 0] != classes[:, 1]
    normal, offset = lines[on, :2], lines[on, 2:]
    tangent = np.stack([-normal[:, 1], normal[:, 0]], axis=1)
    points = np.stack([s[:, None] * tangent - offset * normal for s in (low, high)], axis=1)
    return Boundaries(
        torch.from_numpy(points[shared]),
        torch.from_numpy(np.sort(classes[shared], axis=1)),
        torch.from_numpy(sides[0][shared].astype(np.int64)),
    )


def _intervals(line: Integers, place: Floats, least: float) -> tuple[Integers, Floats, Floats]:
    """Neighbouring places on the same line, and the line."""
    order = np.lexsort((place, line))
    line, place = line[order], place[order]
    wide = (line[1:] == line[:-1]) & (place[1:] - place[:-1] > least)
    return line[1:][wide], place[:-1][wide], place[1:][wide]


def _holder(
    line: Integers, first: Floats, last: Floats, owner: Integers, on: Integers, place: Floats
) -> Integers:
    """Whose side holds each place on a line; -1 if nobody's does."""
    order = np.lexsort((first, line))
    line, last, owner, first = line[order], last[order], owner[order], first[order]
    lines, places = np.concatenate([line, on]), np.concatenate([first, place])
    ranked = np.lexsort((places, lines))
    start = np.where(ranked < len(line), ranked, -1)
    before = np.empty(len(ranked), dtype=np.intp)
    before[ranked] = np.maximum.accumulate(start)
    found = before[len(line) :]
    holds = (found >= 0) & (line[found] == on) & (last[found] >= place)
    return np.where(holds, owner[found], -1)
