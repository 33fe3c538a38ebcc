"""Decision boundaries of models that jump: sides that polygons of different classes share.

Where a model jumps, its class changes from one polygon to the next and nothing ties. Polygons on
either side of a cut remember the same line, so what they share is found line by line: all corners
on it divide it into intervals, and each has at most one polygon on either side.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from farfield.exact.planar.boundaries import SHORTEST, Boundaries
from farfield.exact.planar.polygons import Floats, Integers, Polygons


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
