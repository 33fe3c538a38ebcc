"""Germs held against zero, with error bounds: proven positive, and since when.

Every decision of a walk asks for the sign of a germ: of a unit, or of the lead of the largest
candidate over another. Written with the sign that it has, such a germ ``s t + i`` is not
negative for large ``t``. With errors of at most ``d`` and ``e`` it is proven positive if ``s > d``,
and its last change of sign lies between ``(-i - e) / (s + d)`` and ``(e - i) / (s - d)``.

All of it is computed by quotients and their minima. Masks without a pattern are an order of
magnitude slower, so that none are used: what a germ that never changes gives, zero over zero,
becomes infinity.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.exact.germ import is_batched

# Covers the rounding of the bounds themselves, for sums of up to a million products.
SLACK = 1 + 2.0**-30


@dataclass(frozen=True, slots=True)
class Leads:
    """Germs that are not negative, each part ``(rays, germs)``."""

    slope: Tensor
    intercept: Tensor
    slope_error: Tensor
    intercept_error: Tensor

    @classmethod
    def of(cls, rays: int, *parts: Tensor) -> Leads:
        """Make leads of four tensors ``(rays, ...)``."""
        return cls(*(part.reshape(rays, -1) for part in parts))

    def margins(self) -> tuple[Tensor, Tensor]:
        """Per ray the least ``s - d``; and ``(i - e) / |s - d|``: minus the latest crossing.

        A slope that is structurally zero leaves the decision to the intercept, and the quotient is
        ``-infinity`` where that is not proven to be positive, or structurally zero as well.
        """
        room = torch.add(self.slope, self.slope_error, alpha=-SLACK)
        least = room.amin(dim=1)
        ahead = torch.add(self.intercept, self.intercept_error, alpha=-SLACK)
        return least, _without_nan(ahead.div_(room.abs_()))

    def crossings(self) -> Tensor:
        """``(rays, germs)``: ``i / s``, minus the crossing as far as it is known."""
        return _without_nan(self.intercept / self.slope)

    def earliest(self, index: Tensor) -> Tensor:
        """A lower bound of the crossings of one germ on each ray, ``(rays, 1)``."""
        parts = (self.slope, self.intercept, self.slope_error, self.intercept_error)
        s, i, d, e = (part.gather(1, index) for part in parts)
        return (-i - e * SLACK) / (s + d * SLACK) * (2 - SLACK)


def turned(slope: Tensor, intercept: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Germs times their own signs, so that none is negative, and the signs."""
    size = slope.abs()
    if is_batched(slope) or bool(size.amin() == 0):
        sign = torch.sign(torch.where(slope == 0, intercept, slope))
    else:
        sign = torch.sign(slope)
    return size, intercept * sign, sign


def tournament(rows: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The largest of ``(4, rays, ...)`` germs with errors, and which it is; the first of equals."""
    best, winner = rows[0], torch.zeros_like(rows[0][0])
    for place, row in enumerate(rows[1:], start=1):
        ahead = (row[0] > best[0]) | ((row[0] == best[0]) & (row[1] > best[1]))
        better = ahead.to(best)
        best = torch.addcmul(best * (1 - better), row, better)
        winner = torch.maximum(winner, better * place)
    return best, winner


def _without_nan(quotients: Tensor) -> Tensor:
    """Infinity for zero over zero."""
    return torch.nan_to_num_(quotients, nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
