"""From where on a network stays close to what it is at infinity, soundly: a search for ``T``.

A walk in tubes from a given ``T`` either fails or bounds, for all ``t >= T``, how far every logit
is off its asymptote. Whatever it bounds is true, so any search will do: first ``T`` is as large as
numbers allow, then bisected on a scale of powers, for all rays at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from farfield.errors import InputError, UnsupportedOperation
from farfield.exact.leads import SLACK
from farfield.exact.series.growing import FinerOrders
from farfield.exact.series.tube import Tube
from farfield.exact.series.tube_domain import TubeDomain
from farfield.exact.series.walk import FINEST
from farfield.exact.walking import cut_rows
from farfield.graph.network import InstanceGroup, chunks
from farfield.graph.program import walk

if TYPE_CHECKING:
    from farfield.exact.far_field import FarField

# The lowest orders that are kept, one search after another.
FLOORS = (0, -1, -2, -4)
# The first ``T`` that is tried, and how often the way down from there is halved.
FARTHEST, HALVINGS = 2.0**100, 8
# A walk of few rays takes as long as a walk of one: so many halvings are looked ahead where all
# values of a step are no more numbers than these.
AHEAD, FEW = 4, 1 << 10
# How many numbers a walk carries per element, about.
FACTOR = 16


class FarBounds(NamedTuple):
    """Logits of some rays behind one instance, for all ``t`` from ``start`` on.

    Attributes:
        start: ``(rays,)``.
        off: ``(rays, outputs)`` the most that a logit is off its asymptote; infinite if not known.
        per: How many orders a power of ``t`` is worth.
        coefficients: Those of order 0 and above, ``(rays, outputs)`` each.
        errors: Bounds on their rounding errors.
        certain: ``(rays,)`` whether every decision is proven.
    """

    start: Tensor
    off: Tensor
    per: int
    coefficients: Mapping[int, Tensor]
    errors: Mapping[int, Tensor]
    certain: Tensor


class Bundle(NamedTuple):
    """Some rays through one instance, in double precision."""

    group: InstanceGroup
    member: int
    origins: Tensor
    directions: Tensor

    def at(self, places: Tensor) -> Bundle:
        """Some of them."""
        return self._replace(origins=self.origins[places], directions=self.directions[places])

    def nearest(self) -> Tensor:
        """``(rays,)`` the ``t`` at which moving has changed the input by about its own size."""
        origin, direction = (
            each.reshape(len(each), -1).abs().amax(dim=1)
            for each in (self.origins, self.directions)
        )
        return (origin + 1e-3) / direction / 16

    def bounds(self, start: Tensor, floor: int) -> FarBounds:
        """Walk from given ``T`` on, in roots of ``t`` if need be."""
        per = 1
        while True:
            try:
                return self._bounds(start, floor * per, per)
            except FinerOrders as finer:
                per *= finer.exponent.denominator
                if per > FINEST:
                    raise

    def _bounds(self, start: Tensor, floor: int, per: int) -> FarBounds:
        root = start if per == 1 else start ** (1 / per) / SLACK
        domain = TubeDomain(root, floor, per)
        constants = {
            name: each.double() if each.is_floating_point() else each
            for name, each in self.group.instance(self.member).items()
        }
        begin = domain.start(self.directions, self.origins)
        out = walk(self.group.program, domain, begin, constants)
        return _read(domain, out)._replace(start=start)


def _read(domain: TubeDomain, out: Tube) -> FarBounds:
    rays = len(domain.failed)
    flat = {
        order: tuple(part.reshape(rays, -1) for part in ball) for order, ball in out.balls.items()
    }
    off = torch.zeros_like(out.ball(0).value.reshape(rays, -1))
    for order, (value, error, rest) in flat.items():
        if order < 0:
            size = (value.abs() + error + rest) * SLACK
            off = off + size * domain.frame.power(order, size) * SLACK
        else:
            off = off.masked_fill(rest != 0, torch.inf)
    finite = [torch.isfinite(part).all(dim=1) for ball in flat.values() for part in ball]
    failed = domain.failed | ~torch.stack(finite).all(dim=0)
    known = {order: ball for order, ball in flat.items() if order >= 0}
    return FarBounds(
        domain.frame.start,
        off.masked_fill(failed[:, None], torch.inf),
        domain.per,
        {order: ball[0] for order, ball in known.items()},
        {order: ball[1] for order, ball in known.items()},
        domain.certain & ~failed,
    )


Accept = Callable[[FarBounds], Tensor]


def earliest(rays: Bundle, accept: Callable[[Tensor], Accept]) -> Tensor:
    """``(rays,)`` a ``T`` from which on something holds; infinite where none was found.

    Args:
        rays: Bundle through one instance.
        accept: Given the places of some rays, says what is to hold of their bounds, ``(rays,)``.
    """
    found = torch.full((len(rays.origins),), torch.inf, dtype=torch.float64)
    open_ = torch.arange(len(found))
    for floor in FLOORS:
        if not len(open_):
            break
        low = rays.at(open_).nearest()
        high = low * FARTHEST
        good = _Search(rays, open_, floor, accept).holds(high[None])[0]
        if bool(good.any()):
            search = _Search(rays, open_[good], floor, accept)
            found[open_[good]] = search.bisected(low[good], high[good])
        open_ = open_[~good]
    return found


class _Search(NamedTuple):
    """Places of rays, the lowest order that is kept on them, and what is to hold."""

    rays: Bundle
    places: Tensor
    floor: int
    accept: Callable[[Tensor], Accept]

    def holds(self, starts: Tensor) -> Tensor:
        """``(ways, rays)`` whether it does from such ``T`` on, all of them in one walk."""
        places = self.places.repeat(len(starts))
        bounds = self.rays.at(places).bounds(starts.flatten(), self.floor)
        return self.accept(places)(bounds).reshape(starts.shape)

    def bisected(self, low: Tensor, high: Tensor) -> Tensor:
        """Halve the way down from where it holds; where it holds at its end, that is all."""
        high = torch.where(self.holds(low[None])[0], low, high)
        few = len(low) * self.rays.group.program.width <= FEW
        levels = AHEAD if few else 1
        for _ in range(HALVINGS // levels):
            low, high = self._halved(low, high, levels)
        return high

    def _halved(self, low: Tensor, high: Tensor, levels: int) -> tuple[Tensor, Tensor]:
        """Halve so often, asked at once about every ``T`` that may turn out to be a middle."""
        starts = torch.stack([low, high])
        for _ in range(levels):
            middles = (starts[:-1] * starts[1:]).sqrt()
            pairs = torch.stack([starts[:-1], middles], dim=1).flatten(0, 1)
            starts = torch.cat([pairs, starts[-1:]])
        good = self.holds(starts[1:-1])
        bottom = torch.zeros_like(low, dtype=torch.int64)[None]
        top = bottom + len(starts) - 1
        for _ in range(levels):
            middle = (bottom + top) // 2
            here = good.gather(0, middle - 1)
            bottom, top = torch.where(here, bottom, middle), torch.where(here, middle, top)
        return starts.gather(0, bottom)[0], starts.gather(0, top)[0]


def settles(far: FarField, delta: float) -> Tensor:
    """``(instances, rays)`` a ``T`` from which on no logit is off its asymptote by more.

    Args:
        far: The far field.
        delta: By how much logits may be off.
    """
    if not delta > 0:
        raise InputError(f"delta must be positive, got {delta}")
    open_ = far.asymptotic & ~far.undecided
    found = far.reach.double().masked_fill(far.asymptotic, torch.inf)

    def near(_: int, __: Tensor) -> Accept:
        return lambda bounds: (bounds.off <= delta).all(dim=1)

    return searched(far, open_, near, found)


def searched(
    far: FarField, open_: Tensor, accept: Callable[[int, Tensor], Accept], found: Tensor
) -> Tensor:
    """Search on some rays, in chunks, and write what was found.

    Args:
        far: The far field, with its rays.
        open_: ``(instances, rays)`` which to search on.
        accept: Given an instance and the places of rays, what is to hold of their bounds.
        found: ``(instances, rays)`` to be written into.
    """
    if far.rays is None:
        raise InputError("this far field does not know its rays; compute it with at_infinity")
    network, origins, directions = far.rays
    count = open_.shape[1]
    with torch.no_grad():
        for group in network.groups:
            single = InstanceGroup(group.program, group.shared, {}, group.members[:1])
            for part in chunks(count, single, factor=FACTOR):
                ends = [cut_rows(each, part, count).double() for each in (origins, directions)]
                for index, member in enumerate(group.members):
                    places = torch.nonzero(open_[member, part]).flatten()
                    if not len(places):
                        continue
                    rays = Bundle(group, index, *ends).at(places)
                    whole = places + part.start

                    def holds(some: Tensor, member: int = member, whole: Tensor = whole) -> Accept:
                        return accept(member, whole[some])

                    found[member, whole] = _earliest(rays, holds)
    return found


def _earliest(rays: Bundle, accept: Callable[[Tensor], Accept]) -> Tensor:
    """Infinity where an operation has no bounds."""
    try:
        return earliest(rays, accept)
    except UnsupportedOperation:
        return torch.full((len(rays.origins),), torch.inf, dtype=torch.float64)
