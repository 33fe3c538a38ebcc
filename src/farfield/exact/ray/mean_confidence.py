"""The same two questions for the mean of several instances, by branch and bound.

A mean of probabilities is not convex, but each instance's is log-concave on a piece: between two
places the smaller of the two tangents of ``log p`` bounds it from above. Where instances rise and
fall against one another, the mean itself is looked at: it stays within ``B h^2 / 8`` of its chord,
``B`` a bound on its second derivative, and within ``D h^4 / 384`` of the cubic that has its values
and slopes at both ends, ``D`` a bound on its fourth. With ``R`` the range of an instance's slopes,
``l = log p`` has the slope ``g - E g`` and then minus the cumulants of the slopes. As ``|g - E g|
<= (1 - p) R``, and their variance is at most ``(1 - p) R^2`` and at most ``R^2 / 4``::

    |p''|   = p |l'^2 + l''|                                      <=     p (1 - p) R^2
    |p''''| = p |l'^4 + 6 l'^2 l'' + 3 l''^2 + 4 l' l''' + l''''| <= 5 p (1 - p) R^4

What is discarded holds no answer, but for the rounding of the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.exact.ray.pieces import CHUNK, AffinePieces, per_ray

# Relative width in t below which a bracket is an answer; absolute slack of the highest value.
NARROW = 1e-11
SLACK = 1e-13
# More than what a probability near one may have lost to rounding, of up to a thousand classes.
EPSILON = 1e-13
ROUNDS = 1200


@dataclass(frozen=True, eq=False)
class Boxes:
    """Stretches of pieces still to be searched: piece, and ``low <= u <= high``."""

    piece: Tensor
    low: Tensor
    high: Tensor

    def __getitem__(self, rows: Tensor | slice) -> Boxes:
        return Boxes(self.piece[rows], self.low[rows], self.high[rows])

    def parts(self, size: int) -> Iterator[Boxes]:
        """Cut into parts of so many."""
        for first in range(0, len(self.piece), size):
            yield self[slice(first, first + size)]

    def split(self, pieces: AffinePieces) -> Boxes:
        """Halve them; one without an end loses a stretch that doubles each time."""
        growth = pieces.growth[:, self.piece]
        rate = (growth.amax(dim=-1) - growth.amin(dim=-1)).amax(dim=0)
        first = 1 / torch.where(rate > 0, rate, 1.0)
        half = self.low + (self.high - self.low) / 2
        middle = torch.where(torch.isinf(self.high), 2 * self.low + first, half)
        return Boxes(
            torch.cat([self.piece, self.piece]),
            torch.cat([self.low, middle]),
            torch.cat([middle, self.high]),
        )


@dataclass(frozen=True, eq=False)
class Probabilities:
    """The mean probabilities of every class on boxes, ``(boxes, classes)`` each.

    Attributes:
        low: At the lower end.
        high: At the upper end, or the limit.
        peak: A bound from above in between, by tangents.
        least: A bound from below in between.
        curve: How far they may be from the chord; infinite where there is no end.
        inner: ``(2, boxes, classes)`` the other two points whose hull holds the cubic.
        rest: How far they may be from the cubic; infinite where there is no end.
    """

    low: Tensor
    high: Tensor
    peak: Tensor
    least: Tensor
    curve: Tensor
    inner: Tensor
    rest: Tensor

    @classmethod
    def over(cls, pieces: AffinePieces, boxes: Boxes) -> Probabilities:
        """Evaluate and bound them."""
        part = pieces[boxes.piece]
        endless = torch.isinf(boxes.high)
        width = torch.where(endless, 0.0, boxes.high - boxes.low)
        at_low, rise_low = _log_probabilities(part, boxes.low)
        at_high, rise_high = _log_probabilities(part, boxes.low + width)
        bend = (rise_low - rise_high).clamp(min=torch.finfo(at_low.dtype).tiny)
        meet = ((at_high - at_low - rise_high * width[:, None]) / bend).clamp(min=0.0)
        peak = at_low + rise_low * torch.minimum(meet, width[:, None])
        peak = torch.where(rise_low <= 0, at_low, torch.where(rise_high >= 0, at_high, peak))
        # log p is concave: without an end it falls for good, or rises to its limit.
        beyond = torch.where(part.limit > 0, torch.log(part.limit), 0.0)
        open_peak = torch.where(rise_low <= 0, at_low, torch.maximum(at_low, beyond))
        peak = torch.where(endless[:, None], open_peak, peak).clamp(max=0.0).exp()
        low, high = at_low.exp(), torch.where(endless[:, None], part.limit, at_high.exp())
        least = torch.minimum(low, high)
        spread = part.growth.amax(dim=-1, keepdim=True) - part.growth.amin(dim=-1, keepdim=True)
        bent = peak * (1 - least + EPSILON) * spread.square()
        square = torch.where(endless, torch.inf, width**2)[:, None]
        third = width[:, None] / 3
        inner = torch.stack([low + low * rise_low * third, high - high * rise_high * third])
        return cls(
            low.mean(dim=0),
            high.mean(dim=0),
            peak.mean(dim=0),
            least.mean(dim=0),
            bent.mean(dim=0) * square / 8,
            inner.mean(dim=1),
            (bent * spread.square()).mean(dim=0) * square.square() * (5 / 384),
        )

    def most(self) -> Tensor:
        """A bound from above on every class in between."""
        ends = torch.maximum(self.low, self.high)
        cubic = torch.maximum(ends, self.inner.amax(dim=0)) + self.rest
        known = torch.minimum(ends + self.curve, cubic)
        return torch.minimum(self.peak, known.nan_to_num(torch.inf, torch.inf))

    def lead(self, own: Tensor) -> Probabilities:
        """The same of the lead of every class over one of them, ``(boxes, 1)``."""

        def less(part: Tensor) -> Tensor:
            return part - part.gather(-1, own.expand(*part.shape[:-1], 1))

        return Probabilities(
            less(self.low),
            less(self.high),
            self.peak - self.least.gather(1, own),
            self.least - self.peak.gather(1, own),
            self.curve + self.curve.gather(1, own),
            less(self.inner),
            self.rest + self.rest.gather(1, own),
        )


@dataclass(frozen=True, eq=False)
class Bounds:
    """The mean at both ends of boxes, and a bound in between; the largest class of each."""

    low: Tensor
    high: Tensor
    most: Tensor


def bounds(pieces: AffinePieces, boxes: Boxes) -> Bounds:
    """Evaluate and bound the mean confidence on boxes."""
    seen = Probabilities.over(pieces, boxes)
    return Bounds(seen.low.amax(dim=-1), seen.high.amax(dim=-1), seen.most().amax(dim=-1))


def _log_probabilities(pieces: AffinePieces, u: Tensor) -> tuple[Tensor, Tensor]:
    """``log p`` and its derivative, ``(instances, boxes, classes)`` each."""
    logs = torch.log_softmax(pieces.start + pieces.growth * u[:, None], dim=-1)
    return logs, pieces.growth - (logs.exp() * pieces.growth).sum(dim=-1, keepdim=True)


def first_reaching(pieces: AffinePieces, rays: int, confidence: float) -> Tensor:
    """The smallest ``t`` at which some class has the confidence, ``(rays,)``; infinite if none."""
    found = pieces.t.new_full((rays,), torch.inf)

    def look(boxes: Boxes) -> Tensor:
        nonlocal found
        seen = bounds(pieces, boxes)
        ray = pieces.ray[boxes.piece]
        start = pieces.place(boxes.low, boxes.piece)
        stop = pieces.place(boxes.high, boxes.piece)
        t = torch.where(
            seen.low >= confidence,
            start,
            torch.where((seen.high >= confidence) & torch.isfinite(stop), stop, torch.inf),
        )
        found = torch.minimum(found, per_ray(t, ray, rays, "amin", torch.inf))
        undecided = (seen.low < confidence) & (seen.most >= confidence) & (start < found[ray])
        return undecided & ((stop - start > NARROW * stop.abs()) | torch.isinf(stop))

    search(pieces, look)
    return found


def highest(pieces: AffinePieces, rays: int) -> Tensor:
    """The supremum of the confidence along each ray, ``(rays,)``, to 1e-13."""
    best = pieces.t.new_zeros(rays)

    def look(boxes: Boxes) -> Tensor:
        nonlocal best
        seen = bounds(pieces, boxes)
        ray = pieces.ray[boxes.piece]
        ends = torch.maximum(seen.low, seen.high)
        best = torch.maximum(best, per_ray(ends, ray, rays, "amax", 0.0))
        return seen.most > best[ray] + SLACK

    search(pieces, look)
    return best


def search(pieces: AffinePieces, look: Callable[[Boxes], Tensor]) -> None:
    """Split boxes until ``look`` keeps none of them; it is shown a bounded number at a time."""
    every = torch.arange(len(pieces), device=pieces.t.device)
    boxes = Boxes(every, torch.zeros_like(pieces.t), pieces.last)
    instances, _, classes = pieces.start.shape
    at_once = max(1, CHUNK // (instances * classes))
    for _ in range(ROUNDS):
        kept = torch.cat([look(part) for part in boxes.parts(at_once)])
        wide = (boxes.high - boxes.low > 1e-15 * boxes.high) | torch.isinf(boxes.high)
        kept &= wide & (boxes.low < 1e300)
        if not bool(kept.any()):
            return
        boxes = boxes[kept].split(pieces)
