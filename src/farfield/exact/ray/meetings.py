"""Places of a ray behind which several decisions change at the very same distance, proven.

No precision tells whether two decisions change at one place or at two that are close: bounds of
``-v / s`` and ``-w / r`` overlap either way. But they are equal if and only if ``v r - w s`` is
zero. That is a whole number over a known power of two, and residues modulo primes prove that it
is zero (:mod:`farfield.exact.residues`). The same walks prove it of values on which decisions
hang: of two equal candidates of a maximum, of a unit that is zero on a whole piece.

Two neighbouring places are then proven to lie in neighbouring pieces if all that may change first
behind the first place does so at once, and the two differ in nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import torch
from torch import Tensor

from farfield.exact.bounded import BoundedGerm
from farfield.exact.ray.place_domain import UNITS, PlaceDomain
from farfield.exact.residues import (
    Assumed,
    LastTie,
    NoResidue,
    ResidueDomain,
    Start,
    finest_bits,
    proven_zero,
)
from farfield.exact.ties import WITHIN, TieDomain
from farfield.graph.program import Program, walk

# Numbers with more bits than these are not proven: a walk is needed for every 22 to 26 of them.
MOST_BITS = 1 << 13


class MeetingDomain(TieDomain, PlaceDomain):
    """The walk behind places that takes small numbers to be zero, and keeps what changes first.

    Attributes:
        soonest: ``(places,)`` something changes within this distance.
        together: ``(places,)`` whether all that may change first does so at once.
        size: No number that decides is larger.
        starts: The first event of each decision.
    """

    def begin(self, like: Tensor) -> None:
        """Nothing changes yet."""
        super().begin(like)
        self.soonest = like.new_full((self.rays,), torch.inf)
        self.together = torch.zeros_like(self.certain)
        self.size = 0.0
        self.starts: list[int] = []
        self._near: list[tuple[Tensor, Tensor]] = []
        self._changes: list[Tensor] = []

    def small(self, pair: Tensor, error: Tensor) -> Tensor:
        """Values decide here, and slopes where these are zero, or whether anything ever changes."""
        return (pair.abs() <= error * WITHIN) & (error > 0)

    def _settle(self, *parts: Tensor, where: Tensor | bool = True) -> None:
        """As behind places; notes how large numbers are."""
        largest = sum(float(part.abs().max()) for part in parts)
        self.size = math.inf if math.isnan(largest) else max(self.size, largest)
        super()._settle(*parts, where=where)

    def _first(self, low: Tensor, high: Tensor) -> None:
        """Also keep all that may change before anything surely does, as far as is known yet."""
        super()._first(low, high)
        never = low == torch.inf
        self.soonest = torch.minimum(self.soonest, high.masked_fill(never, torch.inf).amin(dim=1))
        near = (low <= self.soonest[:, None]) & ~never
        place, unit = torch.nonzero(near, as_tuple=True)
        keys = torch.stack([place, torch.full_like(place, self.events), unit])
        self._near.append((keys, low[place, unit]))

    def note_pieces(
        self, zeros: Sequence[Tensor | None], taken: Tensor, above: Sequence[BoundedGerm]
    ) -> None:
        """Keep what was taken to be zero, and what differs."""
        TieDomain.note_pieces(self, zeros, taken, above)
        PlaceDomain.note_pieces(self, zeros, taken, above)
        self.starts.append(self.events - len(above))

    def note_winner(
        self, zeros: Sequence[Tensor | None], winner: Tensor, leads: Sequence[BoundedGerm]
    ) -> None:
        """The same for candidates."""
        TieDomain.note_pieces(self, zeros, winner, leads)
        PlaceDomain.note_winner(self, zeros, winner, leads)
        self.starts.append(self.events - len(leads))

    def note_changes(self, changed: Tensor, events: Tensor) -> None:
        """Keep all that differs."""
        place, unit = torch.nonzero(changed, as_tuple=True)
        self._changes.append(torch.stack([place, events[place, unit], unit]))

    def rivals(self) -> Tensor:
        """``(3, numbers)``: places, events and units of what may change first, in this order."""
        soon = self.soonest.masked_fill(self.soonest == torch.inf, -1.0)
        found = [keys[:, low <= soon[keys[0]]] for keys, low in self._near]
        return torch.cat([torch.zeros(3, 0, dtype=torch.int64, device=soon.device), *found], dim=1)

    def beside(self, rivals: Tensor) -> Tensor:
        """``(places - 1,)`` whether neighbours differ, and in nothing that may not change first."""
        if not self._changes:
            return torch.zeros_like(self.certain[1:])
        changes = torch.cat(self._changes, dim=1)
        strange = ~torch.isin(self._names(changes), self._names(rivals))
        known: Tensor = self.certain[:-1] & self.certain[1:] & (self.differing > 0)
        known[changes[0, strange]] = False
        return known

    def _names(self, keys: Tensor) -> Tensor:
        """A number for each place, event and unit."""
        place, event, unit = keys
        names: Tensor = (event * UNITS + unit) * self.rays + place
        return names

    def neighbours(self) -> Tensor:
        """``(places - 1,)`` whether each place and the next lie in neighbouring pieces, proven."""
        return self.beside(self.rivals()) & self.together[:-1]


def prove_meetings(
    domain: MeetingDomain,
    program: Program,
    constants: Mapping[str, Tensor],
    start: Start,
) -> None:
    """Prove what a walk took to be zero, and that what may change first does so at once.

    Args:
        domain: The walk. Loses places that hang on what is not proven.
        program: The network.
        constants: Its weights.
        start: The places modulo a prime.
    """
    rivals = domain.rivals()
    number = torch.bincount(rivals[0], minlength=domain.rays)
    asked = torch.zeros_like(domain.certain)
    asked[:-1] = domain.beside(rivals)
    asked &= number > 1
    claims = torch.stack([_assumes(domain), asked])
    domain.next_high = domain.soonest
    domain.together = number == 1
    if not bool(claims.any()):
        return
    watched = rivals[:, asked[rivals[0]]]
    noted = _with_watched(domain, watched)
    first = _first_of_each(watched[0])
    finest = finest_bits(constants)

    def walked(prime: int) -> tuple[Tensor, float]:
        residues = ResidueDomain(domain.rays, prime, noted, claims.device, finest)
        with suppress(LastTie):
            walk(program, residues, start(residues), constants)
        apart, needed = _apart(residues, first, domain.size)
        meets = claims[1].clone()
        meets[watched[0, apart]] = False
        return torch.stack([claims[0] & residues.holds, meets]), max(needed, residues.needed)

    try:
        holds = proven_zero(walked, domain.terms, domain.budget, MOST_BITS)
    except NoResidue:
        holds = torch.zeros_like(claims)
    domain.certain = domain.certain & (holds[0] | ~claims[0])
    domain.together = domain.together | holds[1]


def _assumes(domain: MeetingDomain) -> Tensor:
    """``(places,)`` where something was taken to be zero."""
    found = torch.zeros_like(domain.certain)
    for noted in domain.assumed:
        for zeros in noted.zeros:
            if zeros is not None:
                found |= zeros.reshape(2, domain.rays, -1).any(dim=2).any(dim=0)
    return found & domain.certain


def _with_watched(domain: MeetingDomain, watched: Tensor) -> list[Assumed]:
    """What a walk decided, and which of its numbers are asked for."""
    result = []
    for start, noted in zip(domain.starts, domain.assumed, strict=True):
        asks = {
            event - start: watched[::2, watched[1] == event]
            for event in range(start, start + len(noted.zeros))
        }
        asks = {place: keys for place, keys in asks.items() if keys.shape[1]}
        result.append(replace(noted, watched=asks))
    return result


def _first_of_each(places: Tensor) -> Tensor:
    """``(numbers,)`` where the first number of the same place stands."""
    numbers = torch.arange(len(places), device=places.device)
    _, which = places.unique(return_inverse=True)
    first = torch.full_like(numbers, len(places)).scatter_reduce(0, which, numbers, "amin")
    return first[which]


def _apart(residues: ResidueDomain, first: Tensor, size: float) -> tuple[Tensor, float]:
    """``(numbers,)`` which are not zero where the first of their place is; and the bits needed."""
    if not residues.seen:
        return torch.zeros_like(first, dtype=torch.bool), 0.0
    slope, value = torch.cat([seen.parts for seen in residues.seen], dim=1)
    cross = residues.reduced(value * slope[first] - value[first] * slope)
    bits = max(seen.bits + math.log2(seen.odd) for seen in residues.seen)
    return cross != 0, 2 * (bits + math.log2(max(size, 1.0)) + 2) if size < math.inf else math.inf
