"""Which classes can lead somewhere in a polygon: a few, however many classes there are.

Logits are affine on a polygon, so a class that is below another at every corner is below it
everywhere. Others that lead at a corner or in the middle are the ones to be compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

# How many numbers the logits at the corners of some polygons may hold.
CHUNK = 1 << 22


def contenders(corners: Tensor, slope: Tensor, intercept: Tensor) -> Tensor:
    """``(polygons, classes)`` whether a class may be the largest anywhere in a polygon.

    Of classes with the same logits as a leading one, only the first is.

    Args:
        corners: ``(polygons, corners, 2)``.
        slope: ``(polygons, classes, 2)`` of the logits.
        intercept: ``(polygons, classes)`` of the logits.
    """
    size = max(1, CHUNK // max(1, corners.shape[1] * intercept.shape[1]))
    parts = [
        _contenders(corners[part], slope[part], intercept[part])
        for part in (slice(at, at + size) for at in range(0, len(corners), size))
    ]
    return torch.cat(parts) if parts else torch.ones_like(intercept, dtype=torch.bool)


def _contenders(corners: Tensor, slope: Tensor, intercept: Tensor) -> Tensor:
    logits = torch.einsum("pmd,pcd->pmc", corners, slope) + intercept[:, None]
    leads = (logits == logits.amax(dim=2, keepdim=True)).all(dim=1)
    # Whoever leads at every corner leads throughout.
    kept = torch.zeros_like(leads).scatter(1, leads.to(torch.uint8).argmax(dim=1)[:, None], True)
    some = torch.nonzero(~leads.any(dim=1)).flatten()
    kept[some] = _undominated(logits[some], slope[some], intercept[some])
    return kept


def _undominated(logits: Tensor, slope: Tensor, intercept: Tensor) -> Tensor:
    """Drop what is below a leader at every corner, and all but the first of its equals."""
    leaders = torch.cat([logits, logits.mean(dim=1, keepdim=True)], dim=1).argmax(dim=2)
    kept = torch.ones_like(intercept, dtype=torch.bool)
    for leader in leaders.unbind(dim=1):
        best = logits.gather(2, leader[:, None, None].expand(-1, logits.shape[1], 1))
        kept &= ~(logits < best).all(dim=1)
        at = leader[:, None]
        same = (intercept == intercept.gather(1, at)) & (
            slope == slope.gather(1, at[..., None].expand(-1, 1, 2))
        ).all(dim=2)
        kept &= ~same.scatter(1, same.to(torch.uint8).argmax(dim=1, keepdim=True), False)
    return kept


@dataclass(frozen=True, eq=False)
class Bunch:
    """Polygons with equally many contenders.

    Attributes:
        polygon: ``(n,)`` which polygons.
        classes: ``(n, contenders)`` their contenders, in order.
    """

    polygon: Tensor
    classes: Tensor

    def of(self, values: Tensor) -> Tensor:
        """``(n, contenders, ...)`` what belongs to them, from ``(polygons, classes, ...)``."""
        return values[self.polygon[:, None], self.classes]


def bunches(kept: Tensor, room: int) -> Iterator[Bunch]:
    """Polygons with two contenders or more, by how many they have.

    Args:
        kept: From :func:`contenders`.
        room: How many pairs of contenders there may be at a time.
    """
    counts = kept.sum(dim=1)
    for count in torch.unique(counts[counts > 1]).tolist():
        every = torch.nonzero(counts == count).flatten()
        for polygon in every.split(max(1, room // count**2)):
            classes = torch.nonzero(kept[polygon])[:, 1].reshape(-1, count)
            yield Bunch(polygon, classes)
