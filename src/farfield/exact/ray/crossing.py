"""Where a confidence is first reached, between two proven bounds.

On a proven piece the logits are affine within proven errors, and class ``k`` has the confidence
``1 / (1 + exp(g_k(t)))`` with a convex ``g_k``: the logarithm of a sum of exponentials of
differences of logits. A convex function lies above each of its tangents, so that one tangent, at
about its smallest value, proves that a confidence is not reached on a whole piece.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from farfield.exact.ray.proof import LineProof


# How close around the place that was found bounds are tried, relative to it.
AROUND = (1e-12, 1e-10, 1e-8, 1e-6)
# Steps of bisection towards the smallest value of a convex function.
STEPS = 50
# Rounding of exponentials, their sums and logarithms, relative to the numbers that go in.
ROUNDING = 1e-13
CHUNK = 1 << 18


def proven_crossing(
    proof: LineProof, edges: Tensor, t: float, confidence: float
) -> tuple[float, float]:
    """Bounds of the first ``t`` with a confidence: proven not before the first, but by the second.

    Both are infinite where it is proven that the confidence is never reached.

    Args:
        proof: Of the pieces from 0 on.
        edges: ``(pieces + 1,)`` where they begin and end.
        t: The place that was found; infinite if none was.
        confidence: Strictly between 0 and 1.
    """
    goal = math.log1p(-confidence) - math.log(confidence)
    starts = torch.cat([edges[:1], proof.bounds[0]])
    stops = torch.cat([proof.bounds[1], edges[-1:]])
    known = proof.sure.clone()
    known[1:] &= proof.proven.cumprod(0).bool()
    last = len(known) - 1
    if math.isfinite(t):
        last = min(last, int(torch.searchsorted(edges, t, right=True)) - 1)
    whole = torch.arange(len(known)) < last
    if math.isinf(t) and proof.end:
        at_rest = not bool(proof.logits[0, last].any() | proof.errors[0, last].any())
        whole[last] = at_rest or math.isfinite(float(edges[-1]))
        stops[last] = torch.minimum(stops[last], starts[last]) if at_rest else stops[last]
    fine = known & whole
    fine[fine.clone()] = never(proof, fine, starts[fine], stops[fine], goal)
    first = int((~fine).to(torch.int8).argmax()) if not bool(fine.all()) else len(fine)
    if first == len(fine):
        return math.inf, math.inf
    low = float(starts[first])
    if first < last or not bool(known[last]) or not math.isfinite(t):
        return low, math.inf
    return _around(proof, last, low, t, goal)


def _around(
    proof: LineProof, piece: int, start: float, t: float, goal: float
) -> tuple[float, float]:
    """Bounds around a place on a piece that holds the answer, as close as can be proven."""
    here = torch.zeros_like(proof.sure)
    here[piece] = True
    low, high = start, math.inf
    most = float(proof.until[piece])
    for share in AROUND:
        before = proof.places.new_tensor([min(most, max(start, t * (1 - share)))])
        begin = torch.full_like(before, start)
        if low == start and bool(never(proof, here, begin, before, goal)):
            low = float(before)
        after = t * (1 + share)
        if math.isinf(high) and after <= most and _reached(proof, piece, after, goal):
            high = after
    return low, high


def _reached(proof: LineProof, piece: int, t: float, goal: float) -> bool:
    """Whether some class is proven to have the confidence at a place on a piece."""
    row = torch.tensor([piece])
    growth, value = proof.logits[:, row]
    at = proof.places.new_full((1, growth.shape[-1]), t)
    gaps, _ = _tangents(growth, value, proof.places[row], at)
    error = _errors(proof, row, (at[:, 0] - proof.places[row]).abs())
    return bool(((gaps + error[:, None]) < goal).any())


def never(proof: LineProof, rows: Tensor, low: Tensor, high: Tensor, goal: float) -> Tensor:
    """``(pieces,)`` whether no class has the confidence anywhere between two places."""
    pieces = torch.nonzero(rows).flatten()
    classes = proof.logits.shape[-1]
    size = max(1, CHUNK // classes**2)
    found = [
        _never(proof, pieces[i : i + size], low[i : i + size], high[i : i + size], goal)
        for i in range(0, len(pieces), size)
    ]
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.bool)


def _never(proof: LineProof, pieces: Tensor, low: Tensor, high: Tensor, goal: float) -> Tensor:
    growth, value = proof.logits[:, pieces]
    places = proof.places[pieces]
    classes = growth.shape[-1]
    left, right = (end[:, None].expand(-1, classes).clone() for end in (low, high))
    middle = left
    for step in range(STEPS):
        middle = (left + right) / 2 if step else left
        _, rising = _tangents(growth, value, places, middle)
        left = torch.where(rising < 0, middle, left)
        right = torch.where(rising >= 0, middle, right)
    gap, rising = _tangents(growth, value, places, middle)
    slack = ROUNDING * 16 * (growth.abs().amax(dim=1) * (high - low).abs())[:, None]
    least = gap + torch.minimum(rising * (low[:, None] - middle), rising * (high[:, None] - middle))
    reach = torch.maximum((low - places).abs(), (high - places).abs())
    sure = (least - slack - _errors(proof, pieces, reach)[:, None]) > goal
    result: Tensor = sure.all(dim=1) & (low <= high)
    return result


def _errors(proof: LineProof, pieces: Tensor, away: Tensor) -> Tensor:
    """``(pieces,)`` how far off a logarithm of a sum may be, so far away from its place."""
    growth, value = proof.errors[:, pieces].amax(dim=-1)
    speed, size = proof.logits[:, pieces].abs().amax(dim=-1)
    errors: Tensor = 2 * (value + growth * away) + ROUNDING * (1 + size + speed * away)
    return errors


def _tangents(growth: Tensor, value: Tensor, places: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    """``(pieces, classes)`` each class's convex function at its own place, and its slope there."""
    classes = growth.shape[-1]
    away = (at - places[:, None])[:, :, None]
    logits = value[:, None, :] + growth[:, None, :] * away
    apart = logits - torch.diagonal(logits, dim1=1, dim2=2)[:, :, None]
    own = torch.eye(classes, dtype=torch.bool, device=growth.device)
    apart = apart.masked_fill(own, -torch.inf)
    weights = torch.softmax(apart, dim=2)
    rising = (weights * (growth[:, None, :] - growth[:, :, None])).sum(dim=2)
    return torch.logsumexp(apart, dim=2), rising
