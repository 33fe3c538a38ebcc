"""Proofs of lines: that breakpoints are all there, in this order, and where exactly.

A walk in floats proposes breakpoints. One place in each piece is taken, and the network there is
walked with bounds (:mod:`farfield.exact.ray.place_domain`), once looking ahead and once looking
back. A breakpoint is proven if the places before and behind it lie in neighbouring pieces, seen
from either side; so a line all of whose breakpoints are proven has no other. What that leaves open
is walked again for breakpoints that several units share (:mod:`farfield.exact.ray.meetings`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.exact.bounded import Magnitudes
from farfield.exact.matrix import ExactBudget
from farfield.exact.piecewise import has_jumps
from farfield.exact.ray.meetings import MeetingDomain, prove_meetings
from farfield.exact.ray.place_domain import ABOVE, BELOW, PlaceDomain
from farfield.exact.residues import Residue, ResidueDomain, Start
from farfield.exact.sliced_germ import SlicedGerm, collapsed
from farfield.exact.slices import SlicedWeight, add_up, two_product
from farfield.graph.network import CHUNK_ELEMENTS, Network
from farfield.graph.program import Program, walk

# Slices of the first walk, and of the one that follows for what it leaves open.
RUNGS: tuple[tuple[int, type[PlaceDomain]], ...] = ((1, PlaceDomain), (4, MeetingDomain))


@dataclass(frozen=True, eq=False)
class LineProof:
    """What is proven about the breakpoints of one instance on one ray.

    Attributes:
        proven: ``(breakpoints,)`` whether it is proven that there is one breakpoint within its
            bounds and none between the pieces beside it.
        bounds: ``(2, breakpoints)`` proven bounds of each; zero and infinity where it is not
            proven.
        end: Whether it is proven that nothing changes behind the last of them.
        places: ``(pieces,)`` a place in each piece.
        logits: ``(2, pieces, classes)`` the growth of the logits there, and the logits.
        errors: ``(2, pieces, classes)`` bounds on the errors of both.
        sure: ``(pieces,)`` whether those bounds hold.
        until: ``(pieces,)`` it is proven that nothing changes between each place and this one.
    """

    proven: Tensor
    bounds: Tensor
    end: bool
    places: Tensor
    logits: Tensor
    errors: Tensor
    sure: Tensor
    until: Tensor

    @property
    def certified(self) -> bool:
        """Whether the whole line is proven."""
        return self.end and bool(self.proven.all())

    def __repr__(self) -> str:
        found = f"{int(self.proven.sum())} of {len(self.proven)} breakpoints"
        return f"LineProof({found}{'' if self.end else ', not the end'})"


@dataclass(slots=True)
class LineProver:
    """Proves lines of one instance of a network."""

    network: Network
    program: Program
    constants: Mapping[str, Tensor]

    def prove(self, origin: Tensor, direction: Tensor, edges: Tensor) -> LineProof:
        """Prove one ray, given where its pieces begin and end.

        Args:
            origin: One row.
            direction: One row.
            edges: ``(pieces + 1,)``, the last perhaps infinite.
        """
        ahead = self._look(origin, direction, places_in(edges), edges)
        low, high = ahead.bounds()
        proven = ahead.neighbours
        if not bool(proven.all()):
            inside = middles(edges)
            back = self._look(origin, -direction, inside.flip(0), None)
            seen = back.neighbours.flip(0)
            if len(seen) and not (bool(ahead.sure[0]) and float(ahead.low[0]) > float(inside[0])):
                seen[0] = False
            latest, earliest = (bound.flip(0) for bound in back.bounds())
            use = seen & ~proven
            low, high = torch.where(use, earliest, low), torch.where(use, latest, high)
            proven = proven | seen
        bounds = torch.stack([low * BELOW, high * ABOVE])
        bounds[0].masked_fill_(~proven, 0.0)
        bounds[1].masked_fill_(~proven, torch.inf)
        end = ahead.ends_at(edges)
        return LineProof(
            proven,
            bounds,
            end,
            ahead.places,
            ahead.logits,
            ahead.errors,
            ahead.sure,
            (ahead.places + ahead.low) * BELOW,
        )

    def _look(
        self, origin: Tensor, direction: Tensor, places: Tensor, edges: Tensor | None
    ) -> _Found:
        """Walk from all places in one direction, in more slices where that is not enough."""
        found = _Found.blank(places, self.network.classes)
        sign = -1.0 if edges is None else 1.0
        magnitudes, budget = Magnitudes(list(self.constants.values())), ExactBudget(float("inf"))
        for slices, kind in RUNGS:
            open_ = found.open_places(edges)
            weights: dict[int, SlicedWeight] = {}
            for part in self._chunks(open_) if len(open_) else ():
                ray = (origin, direction, sign * places[part])
                start = behind(*ray)
                domain = kind(len(part), start.parts, magnitudes, slices, weights, budget)
                found.keep(part, domain, *self._walk(start, domain, partial(_residues, ray)))
        return found

    def _chunks(self, places: Tensor) -> Iterator[Tensor]:
        """Places that are walked together; the last of some is the first of the next."""
        size = max(2, CHUNK_ELEMENTS // (4 * max(1, self.program.width)))
        for first in range(0, max(1, len(places) - 1), size - 1):
            yield places[first : first + size]

    def _walk(
        self, start: SlicedGerm, domain: PlaceDomain, residues: Start
    ) -> tuple[Tensor, Tensor]:
        """Walk behind some places: ``(2, places, classes)`` logits and errors."""
        out = collapsed(walk(self.program, domain, start, self.constants))
        if isinstance(domain, MeetingDomain):
            prove_meetings(domain, self.program, self.constants, residues)
        logits, errors = (
            self.network.as_classes(rows.unflatten(0, (2, -1))) for rows in (out.parts, out.error)
        )
        return logits, errors


def middles(edges: Tensor) -> Tensor:
    """A place inside each piece; far beyond the last breakpoint of a line without an end."""
    places = (edges[:-1] + edges[1:]) / 2
    if bool(torch.isinf(edges[-1])):
        places[-1] = 2 * edges[-2] + 1
    return places


def places_in(edges: Tensor) -> Tensor:
    """A place in each piece: the beginning of the first, inside of others."""
    places = middles(edges)
    places[0] = 0.0
    return places


def behind(origin: Tensor, direction: Tensor, places: Tensor) -> SlicedGerm:
    """``origin + t * direction`` at places ``t``, exactly, and how it moves on."""
    t = places.reshape(-1, *[1] * (origin.ndim - 1))
    directions = direction.expand(len(places), *direction.shape[1:])
    product, rest = two_product(directions, t)
    floats = add_up([origin.expand_as(product), product, rest], 3)
    zeros = torch.zeros_like(directions)
    parts = [
        torch.cat([slope, part])
        for slope, part in zip((directions, zeros, zeros), floats, strict=True)
    ]
    return SlicedGerm(parts[0], torch.zeros_like(parts[0]), tuple(parts[1:]))


def _residues(ray: tuple[Tensor, Tensor, Tensor], domain: ResidueDomain) -> Residue:
    """The same modulo a prime."""
    origin, direction, places = ray
    ones = torch.ones_like(places)
    value = domain.sums((ones, origin), (places, direction))
    return domain.germs(domain.sums((ones, direction)), value)


@dataclass(slots=True)
class _Found:
    """What is known about the places of one ray, seen in one direction."""

    places: Tensor
    sure: Tensor
    low: Tensor
    high: Tensor
    neighbours: Tensor
    logits: Tensor
    errors: Tensor

    @classmethod
    def blank(cls, places: Tensor, classes: int) -> _Found:
        """Nothing is known."""
        no = torch.zeros_like(places, dtype=torch.bool)
        numbers = torch.zeros_like(places)
        logits = places.new_zeros(2, len(places), classes)
        apart = no[1:].clone()
        return cls(places, no, numbers, numbers + torch.inf, apart, logits, logits.clone())

    def open_places(self, edges: Tensor | None) -> Tensor:
        """Places on either side of what is not proven yet, in order."""
        wanted = ~self.sure
        wanted[:-1] |= ~self.neighbours
        wanted[1:] |= ~self.neighbours
        if edges is not None and not self.ends_at(edges):
            wanted[-1] = True
        return torch.nonzero(wanted).flatten()

    def keep(self, part: Tensor, domain: PlaceDomain, logits: Tensor, errors: Tensor) -> None:
        """Keep what a walk proves."""
        better = domain.certain & torch.isfinite(logits + errors).all(dim=-1).all(dim=0)
        rows = part[better]
        self.sure[rows] = True
        self.low[rows], self.high[rows] = domain.next_low[better], domain.next_high[better]
        self.logits[:, rows], self.errors[:, rows] = logits[:, better], errors[:, better]
        # A change at a place itself is seen from one side only; before a ray begins there is none.
        better = better & (domain.clear | (self.places[part] == 0))
        beside = (part.diff() == 1) & domain.neighbours() & better[:-1] & better[1:]
        self.neighbours[part[:-1][beside]] = True

    def bounds(self) -> tuple[Tensor, Tensor]:
        """Where the next change is, of all places but the last; the nearer bound first."""
        sign = -1.0 if len(self.places) > 1 and bool(self.places[0] > self.places[-1]) else 1.0
        return self.places[:-1] + sign * self.low[:-1], self.places[:-1] + sign * self.high[:-1]

    def ends_at(self, edges: Tensor) -> bool:
        """Whether nothing changes between the last place and the end of the ray."""
        return bool(self.sure[-1]) and bool(self.low[-1] >= edges[-1] - self.places[-1])


def check_provable(network: Network, clipped: bool) -> None:
    """Refuse what cannot be proven, and say what to do.

    Raises:
        InputError: If the network is not in float64, jumps, or its rays are projected.
    """
    if network.dtype != torch.float64:
        raise InputError(
            f"certify=True needs a network captured in float64, this one is {network.dtype}; "
            "capture it again with dtype=torch.float64"
        )
    if clipped:
        raise InputError("certify=True follows rays until they leave a box; use leaving='stop'")
    if any(has_jumps(group) for group in network.groups):
        raise InputError("certify=True needs a continuous network; this one jumps, as trees do")
