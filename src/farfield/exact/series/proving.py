"""Certificates of series: far fields whose every decision is proven, by a walk in tubes.

From far enough out on, a tube has the true coefficients within bounds of rounding, and every
decision that it took (which order leads, which score wins, which side of a kink) holds for all
larger ``t``. A far field is certified if its numbers are within these bounds, and if they prove
which classes lead, and which of those is largest. What is taken for zero because it may be
rounding is never proven: a growing coefficient counts as zero only if nothing was ever rounded
in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from farfield.errors import UnsupportedOperation
from farfield.exact.leads import SLACK
from farfield.exact.series.settling import FACTOR, FARTHEST, FLOORS, Bundle, FarBounds
from farfield.exact.walking import cut_rows
from farfield.graph.network import InstanceGroup, Network, chunks

if TYPE_CHECKING:
    from farfield.exact.far_field import FarField

# How far numbers may be off those of the tube, beside its bounds: both are rounded.
AGREE = 1e-9


def prove(far: FarField, network: Network) -> FarField:
    """Say of every ray of a series whether it is proven; what is proven is not doubtful."""
    assert far.rays is not None
    assert far.certified is not None
    _, origins, directions = far.rays
    rays = far.slope.shape[1]
    with torch.no_grad():
        for group in network.groups:
            single = InstanceGroup(group.program, group.shared, {}, group.members[:1])
            for part in chunks(rays, single, factor=FACTOR):
                ends = [cut_rows(each, part, rays).double() for each in (origins, directions)]
                for index, member in enumerate(group.members):
                    proven = _proven(far, network, Bundle(group, index, *ends), member, part)
                    far.certified[member, part] = proven & ~far.undecided[member, part]
    if far.doubtful is None:
        return far
    return replace(far, doubtful=far.doubtful & ~far.certified)


def _proven(far: FarField, network: Network, rays: Bundle, member: int, part: slice) -> Tensor:
    """``(rays,)`` of one chunk; those that more orders may help are walked again."""
    proven = torch.zeros(len(rays.origins), dtype=torch.bool)
    open_ = torch.arange(len(proven))
    for floor in FLOORS:
        some = rays.at(open_)
        try:
            bounds = some.bounds(some.nearest() * FARTHEST, floor)
        except UnsupportedOperation:
            break
        sure = bounds.certain & torch.isfinite(bounds.off).all(dim=1)
        proven[open_] = sure & _same(far, network, bounds, member, open_ + part.start)
        open_ = open_[~sure]
        if not len(open_):
            break
    return proven


def _same(
    far: FarField, network: Network, bounds: FarBounds, member: int, places: Tensor
) -> Tensor:
    """Whether a far field is within bounds, and these prove who leads and who wins."""
    growth = () if far.growth is None else far.growth[:, member, places]
    found = dict(zip(far.powers, growth, strict=True)) | {1.0: far.slope[member, places]}
    outputs = far.intercept if far.shares is None else far.shares
    leading = torch.ones_like(far.leading[member, places])
    sure = torch.ones(len(places), dtype=torch.bool)
    per = bounds.per
    orders = {*(order for order in bounds.coefficients if order > 0)}
    orders |= {round(power * per) for power in found if (power * per).is_integer()}
    sure &= _all_there(found, per)
    for order in sorted(orders, reverse=True):
        value, error = _classes(network, bounds, order)
        mine = found.get(order / per, torch.zeros_like(value))
        sure &= _close(mine, value, error)
        leading, decided = _leaders(value, error, leading)
        sure &= decided
    value, error = _classes(network, bounds, 0)
    sure &= _close(outputs[member, places], value, error)
    if far.shares is None:
        sure &= (leading == far.leading[member, places]).all(dim=1)
    else:
        sure &= ((value.abs() > error * SLACK) | ((value == 0) & (error == 0))).all(dim=1)
    first, decided = _leaders(value, error, leading)
    winner = first.to(torch.uint8).argmax(dim=1)
    return sure & decided & (winner == far.winner[member, places])


def _all_there(found: dict[float, Tensor], per: int) -> Tensor:
    """Whether all powers that a far field has are whole numbers of orders, or zero."""
    odd = [part for power, part in found.items() if not (power * per).is_integer()]
    first = next(iter(found.values()))
    sure = torch.ones(len(first), dtype=torch.bool)
    for part in odd:
        sure &= (part == 0).all(dim=1)
    return sure


def _classes(network: Network, bounds: FarBounds, order: int) -> tuple[Tensor, Tensor]:
    """Coefficients of an order and their errors, ``(rays, classes)``."""
    parts = (
        each.get(order, torch.zeros_like(bounds.off))
        for each in (bounds.coefficients, bounds.errors)
    )
    value, error = (network.as_classes(part[None])[0] for part in parts)
    return value, error


def _close(mine: Tensor, value: Tensor, error: Tensor) -> Tensor:
    """Whether numbers are what the bounds say, but for rounding."""
    room = error * 2 + AGREE * value.abs().amax(dim=1, keepdim=True)
    return ((mine.double() - value).abs() <= room).all(dim=1)


def _leaders(value: Tensor, error: Tensor, among: Tensor) -> tuple[Tensor, Tensor]:
    """The largest of some, and whether that is proven: apart by more than errors, or exact ties."""
    top = value.masked_fill(~among, -torch.inf).argmax(dim=1, keepdim=True)
    gap = value.gather(1, top) - value
    doubt = (error.gather(1, top) + error) * SLACK
    itself = torch.zeros_like(among).scatter(1, top, True)
    tie = (gap == 0) & (doubt == 0)
    decided = ~among | itself | tie | (gap > doubt)
    return among & (itself | tie), decided.all(dim=1)
