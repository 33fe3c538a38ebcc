"""The far field of a network whose values grow by other orders than one."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Literal

import torch
from torch import Tensor

from farfield.errors import UndecidedLimit
from farfield.exact.far_field import FarField
from farfield.exact.series.value import LOG
from farfield.exact.series.walk import Grown, leaders, walk_series
from farfield.exact.walking import cut_rows
from farfield.graph.network import InstanceGroup, Network, chunks

# Where doubtful rays are held against the network, how close is close enough, and how many numbers
# of input are evaluated at a time.
FAR = (1e4, 1e7)
CLOSE = 1e-6
CHECKED = 1 << 22
# Most values are at rest: one order.
FACTOR = 1


def series_far_field(
    far: FarField, network: Network, undecided: Literal["raise", "mark"]
) -> FarField:
    """Fill a blank far field by walking series; nothing of it is certified yet.

    Args:
        far: With arrays to be written into.
        network: The network.
        undecided: What to do with rays on which no limit was found.
    """
    assert far.rays is not None
    _, origins, directions = far.rays
    rays = far.slope.shape[1]
    doubtful = torch.zeros_like(far.undecided)
    higher: dict[Fraction, Tensor] = {}
    with torch.no_grad():
        for group in network.groups:
            for part in chunks(rays, _single(group), factor=FACTOR):
                ends = (cut_rows(directions, part, rays), cut_rows(origins, part, rays))
                for index, member in enumerate(group.members):
                    grown = walk_series(group, index, *ends)
                    _store(far, network, member, part, grown, doubtful, higher)
    far.asymptotic.fill_(True)
    far.reach.fill_(torch.inf)
    for each in (far.certified, far.reach_bounds, far.relative):
        if each is not None:
            each.zero_()
    _look_again(far, network, doubtful, higher)
    if undecided == "raise" and bool(far.undecided.any()):
        _raise(far.undecided)
    powers = sorted(higher, reverse=True)
    return replace(
        far,
        growth=torch.stack([higher[power] for power in powers]) if powers else None,
        powers=tuple(float(power) for power in powers),
        doubtful=doubtful,
        relative=None,
        reach_bounds=_nothing_known(far.reach_bounds),
    )


def _single(group: InstanceGroup) -> InstanceGroup:
    """A group as large as one member: they are walked one after another."""
    return replace(group, members=group.members[:1])


def _nothing_known(bounds: Tensor | None) -> Tensor | None:
    if bounds is not None:
        bounds[1] = torch.inf
    return bounds


def _store(
    far: FarField,
    network: Network,
    member: int,
    part: slice,
    grown: Grown,
    doubtful: Tensor,
    higher: dict[Fraction, Tensor],
) -> None:
    """Write one chunk of one instance."""
    growth = (
        torch.stack([network.as_classes(each[None])[0] for each in grown.growth])
        if len(grown.growth)
        else grown.growth.new_zeros(0, *far.slope.shape[1:])[:, part]
    )
    intercept = network.as_classes(grown.intercept[None])[0]
    leading, close = leaders(growth, grown.noise)
    if far.shares is not None:
        shares = intercept.clamp(0.0, 1.0)
        far.shares[member, part] = shares
        leading = shares > 0
        intercept = torch.log(torch.where(leading, shares, 1.0))
    far.slope[member, part] = 0.0
    far.intercept[member, part], far.leading[member, part] = intercept, leading
    doubtful[member, part] = grown.doubtful | close
    far.undecided[member, part] = grown.undecided
    for order, coefficients in zip(grown.orders, growth, strict=True):
        power = Fraction(0) if order == LOG else Fraction(order) / grown.per
        if power == 1:
            far.slope[member, part] = coefficients
        elif bool((coefficients != 0).any()):
            into = higher.setdefault(power, torch.zeros_like(far.slope))
            into[member, part] = coefficients


def _look_again(
    far: FarField, network: Network, doubtful: Tensor, higher: dict[Fraction, Tensor]
) -> None:
    """Hold doubtful rays against the network itself, far out: what differs has no known limit."""
    assert far.rays is not None
    _, origins, directions = far.rays
    rays = torch.nonzero(doubtful.any(dim=0)).flatten()
    size = max(1, CHECKED // math.prod(network.input_shape))
    for part in rays.split(size) if len(rays) else ():
        origin, direction = (
            each[part] if len(each) > 1 else each.expand(len(part), *each.shape[1:])
            for each in (origins, directions)
        )
        off = [_off(far, network, higher, part, origin, direction, t) for t in FAR]
        fits = (off[1] <= off[0] / 2) | (off[1] <= CLOSE)
        far.undecided[:, part] |= doubtful[:, part] & ~fits


def _off(
    far: FarField,
    network: Network,
    higher: dict[Fraction, Tensor],
    part: Tensor,
    origin: Tensor,
    direction: Tensor,
    t: float,
) -> Tensor:
    """``(instances, rays)`` by how much logits differ from their series at one place."""
    series = far.slope[:, part] * t
    for power, coefficients in higher.items():
        scale = t ** float(power) if power else math.log(t)
        series = series + coefficients[:, part] * scale
    outputs = network.outputs(origin + t * direction)
    limit = far.intercept[:, part] if far.shares is None else far.shares[:, part]
    gap = (outputs - (series + limit)).abs().amax(dim=-1)
    return gap / (1 + series.abs().amax(dim=-1))


def _raise(undecided: Tensor) -> None:
    rays = torch.nonzero(undecided.any(dim=0)).flatten()
    raise UndecidedLimit(
        f"no limit was found on {len(rays)} of {undecided.shape[1]} rays (rows "
        f"{rays[:5].tolist()}): a value there vanishes, meets a jump, ties in all orders that are "
        "followed, or leaves what a root or a logarithm is defined for; drop these rays, or pass "
        "undecided='mark' and look at far.undecided"
    )
