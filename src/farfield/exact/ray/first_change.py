"""Where the predicted class first changes along a ray.

On a piece every logit is affine, so that of one network a class is overtaken at a quotient. The
mean of several is searched by branch and bound, as :mod:`farfield.exact.ray.mean_confidence` does:
what is discarded holds no answer.
"""

from __future__ import annotations

import torch
from torch import Tensor

from farfield.exact.ray.mean_confidence import NARROW, SLACK, Boxes, Probabilities, search
from farfield.exact.ray.pieces import AffinePieces, per_ray


def first_change(pieces: AffinePieces, rays: int) -> Tensor:
    """The infimum of all ``t`` with another class than at 0, ``(rays,)``; infinite if none has.

    Of classes that tie the first is predicted.
    """
    label = _first_class(pieces, rays)[pieces.ray]
    if pieces.at_rest:
        other = pieces.limit.mean(dim=0).argmax(dim=-1) != label
        return per_ray(pieces.t[other], pieces.ray[other], rays, "amin", torch.inf)
    if len(pieces.start) > 1:
        return _of_mean(pieces, label, rays)
    u = _overtaken(pieces.start[0], pieces.growth[0], pieces.last, label)
    t = torch.where(u.isinf(), torch.inf, pieces.t + pieces.span * u)
    return per_ray(t, pieces.ray, rays, "amin", torch.inf)


def _first_class(pieces: AffinePieces, rays: int) -> Tensor:
    """``(rays,)`` the class at the origin: of the knot there, if pieces jump."""
    first = torch.full((rays,), len(pieces), device=pieces.t.device)
    at_zero = torch.nonzero(pieces.t == 0).flatten()
    first.scatter_reduce_(0, pieces.ray[at_zero], at_zero, "amin")
    p = torch.softmax(pieces.start[:, first], dim=-1).mean(dim=0)
    label: Tensor = p.argmax(dim=-1)
    if len(pieces.start) == 1:
        # Logits say more than what rounds to the same probabilities.
        label = pieces.start[0, first].argmax(dim=-1)
    return label


def _overtaken(start: Tensor, growth: Tensor, last: Tensor, label: Tensor) -> Tensor:
    """The first ``u`` on each piece at which another class is ahead; infinite if none is."""
    own = label[:, None]
    ahead = start - start.gather(1, own)
    rate = growth - growth.gather(1, own)
    earlier = torch.arange(start.shape[1], device=start.device) < own
    at_once = (ahead > 0) | ((ahead == 0) & ((rate > 0) | (earlier & (rate == 0))))
    root = torch.where(rate > 0, -ahead / rate, torch.inf)
    reached = (rate > 0) & (root < last[:, None])
    u = torch.where(at_once, 0.0, torch.where(reached, root, torch.inf))
    # Two classes that are both impossible have no difference.
    u = torch.where(torch.isnan(ahead), torch.inf, u).scatter(1, own, torch.inf)
    return u.amin(dim=1)


def _of_mean(pieces: AffinePieces, label: Tensor, rays: int) -> Tensor:
    """The same for the mean over instances; inside a piece, a lead of 1e-13 is none."""
    tied = _tied(pieces, label)
    found = per_ray(pieces.t[tied], pieces.ray[tied], rays, "amin", torch.inf)

    def look(boxes: Boxes) -> Tensor:
        nonlocal found
        ray, own = pieces.ray[boxes.piece], label[boxes.piece][:, None]
        start = pieces.place(boxes.low, boxes.piece)
        stop = pieces.place(boxes.high, boxes.piece)
        # The class itself is at least what it is at the worse end: log p is concave.
        lead = Probabilities.over(pieces, boxes).lead(own)
        most = torch.minimum(lead.most(), _most_ahead(pieces, boxes, own))
        low, high, most = (_best(part, own) for part in (lead.low, lead.high, most))
        t = torch.where(
            low > 0, start, torch.where((high > 0) & torch.isfinite(stop), stop, torch.inf)
        )
        found = torch.minimum(found, per_ray(t, ray, rays, "amin", torch.inf))
        nearest = torch.where(high > 0, 0.0, SLACK)
        open_ = (low <= 0) & (most > nearest) & (start < found[ray])
        return open_ & ((stop - start > NARROW * stop.abs()) | torch.isinf(stop))

    search(pieces, look)
    return found


def _tied(pieces: AffinePieces, label: Tensor) -> Tensor:
    """``(pieces,)`` whether every instance gives an earlier class the very same logits."""
    own = label[None, :, None].expand(len(pieces.start), -1, 1)
    same = pieces.start == pieces.start.gather(2, own)
    same &= pieces.growth == pieces.growth.gather(2, own)
    earlier = torch.arange(same.shape[2], device=same.device) < label[:, None]
    return (same.all(dim=0) & earlier).any(dim=1)


def _most_ahead(pieces: AffinePieces, boxes: Boxes, own: Tensor) -> Tensor:
    """A bound on the lead of every class: ``p_k - p <= exp(d) - 1``, ``d`` of logits, affine.

    Of classes with the same logits it is zero, however wide the box.
    """
    own = own[None].expand(len(pieces.start), -1, 1)
    ahead, rate = (
        part - part.gather(2, own)
        for part in (pieces.start[:, boxes.piece], pieces.growth[:, boxes.piece])
    )
    ahead = ahead.nan_to_num(0.0, torch.inf, -torch.inf)  # both are impossible
    end = torch.where(rate == 0, ahead, ahead + rate * boxes.high[:, None])
    most = torch.maximum(ahead + rate * boxes.low[:, None], end).nan_to_num(torch.inf, torch.inf)
    return most.clamp(min=0.0).expm1().clamp(max=1.0).mean(dim=0)


def _best(lead: Tensor, own: Tensor) -> Tensor:
    """By how much the best other class is ahead."""
    return lead.scatter(1, own, -torch.inf).amax(dim=1)
