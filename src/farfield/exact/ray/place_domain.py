"""Networks just behind places of a ray: which decisions hold there, and what changes next, proven.

At a place ``t`` every number of a network is ``value + slope * s`` for small ``s >= 0``. The value
decides; where it is exactly zero, the slope does. As long as no decision changes, the network
is affine, so that the next change comes where the first unit's line reaches zero: its
distance ``-value / slope`` is enclosed by bounds on both, and so are those of all others.

Two neighbouring places are proven to lie in neighbouring pieces if the one unit that changes
first behind the first place, before any other can, is the only one in which they differ: there
both readings of the network agree, and what holds at the one place and there holds in between.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from farfield.exact.bounded import BoundedGerm
from farfield.exact.leads import SLACK
from farfield.exact.sliced import SlicedDomain

# Cover the rounding of a few sums and quotients.
BELOW, ABOVE = 1 - 2.0**-49, 1 + 2.0**-49
# Events are numbered; each has fewer units than this.
UNITS = 1 << 32


class PlaceDomain(SlicedDomain):
    """The walk behind places, in slices.

    Values of places take the rows of intercepts.

    Attributes:
        next_low: ``(places,)`` nothing changes within this distance.
        next_high: ``(places,)`` the unit that changes first does so within this distance.
        next_event: ``(places,)`` which unit that is.
        clear: ``(places,)`` whether no decision changes at the place itself.
        others: ``(places,)`` no other unit changes within this distance.
        differing: ``(places - 1,)`` how many decisions differ from those of the next place.
        difference: ``(places - 1,)`` the change that makes the last of these.
        caution: How many times its bound a number must exceed.
        strict: Whether decisions that hang on a germ that is zero for good may not differ either.
    """

    caution: float = 1.0
    strict: bool = False

    def begin(self, like: Tensor) -> None:
        """Nothing changes yet, and nothing differs."""
        super().begin(like)
        places = self.rays
        self.next_low = like.new_full((places,), torch.inf)
        self.next_high = like.new_full((places,), torch.inf)
        self.next_event = torch.full((places,), -1, dtype=torch.int64, device=like.device)
        self.clear = torch.ones_like(self.certain)
        self.others = like.new_full((places,), torch.inf)
        self.differing = torch.zeros(places - 1, dtype=torch.int64, device=like.device)
        self.difference = torch.full_like(self.differing, -1)
        self.events = 0

    def sign(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """The sign just behind a place: of the value, or of the slope where that is zero."""
        return torch.sign(torch.where(intercept == 0, slope, intercept))

    def _settle(self, *parts: Tensor, where: Tensor | bool = True) -> None:
        """Prove that leads are not negative behind their places, and enclose where they end."""
        slope, value, slope_error, value_error = (part.reshape(self.rays, -1) for part in parts)
        least = value - value_error * (SLACK * self.caution)
        rests = (value == 0) & (value_error == 0)
        stays = (slope == 0) & (slope_error == 0)
        moves = (slope > slope_error * SLACK) | stays
        self.certain = self.certain & ((least > 0) | (rests & moves)).all(dim=1)
        self.clear = self.clear & ~(rests & ~stays).any(dim=1)
        fastest = slope_error * SLACK - slope
        low = torch.where(fastest > 0, least.clamp(min=0.0) / fastest * BELOW, torch.inf)
        surely = -slope - slope_error * SLACK
        most = (value + value_error * SLACK) / surely * ABOVE
        high = torch.where(surely > 0, most, torch.inf)
        if where is False:
            low = torch.full_like(low, torch.inf)
        elif isinstance(where, Tensor):
            low = low.masked_fill(~where.reshape(self.rays, -1), torch.inf)
        self._first(low, high)
        self.events += 1

    def _first(self, low: Tensor, high: Tensor) -> None:
        """Keep the first change of each place, and a bound on all others."""
        both = low if low.shape[1] > 1 else torch.cat([low, torch.full_like(low, torch.inf)], dim=1)
        nearest, units = both.topk(2, dim=1, largest=False)
        first = units[:, :1].clamp(max=low.shape[1] - 1)
        sooner = nearest[:, 0] < self.next_low
        later = torch.where(sooner, torch.minimum(self.next_low, nearest[:, 1]), nearest[:, 0])
        self.others = torch.minimum(self.others, later)
        self.next_low = torch.where(sooner, nearest[:, 0], self.next_low)
        self.next_high = torch.where(sooner, high.gather(1, first)[:, 0], self.next_high)
        event = self.events * UNITS + units[:, 0]
        self.next_event = torch.where(sooner, event, self.next_event)

    def note_pieces(
        self, zeros: Sequence[Tensor | None], taken: Tensor, above: Sequence[BoundedGerm]
    ) -> None:
        """A unit that goes to a neighbouring piece passes the threshold between the two."""
        if not above:
            return
        pieces = taken.reshape(self.rays, -1).to(torch.int64)
        passed = torch.minimum(pieces[1:], pieces[:-1])
        far = (pieces[1:] - pieces[:-1]).abs() > 1
        first = self.events - len(above)
        self._differ(pieces, passed, above, torch.where(far, -1, first + passed))

    def note_winner(
        self, zeros: Sequence[Tensor | None], winner: Tensor, leads: Sequence[BoundedGerm]
    ) -> None:
        """A maximum changes hands where the lead over the next winner ends."""
        if not leads:
            return
        places = winner.reshape(self.rays, -1).to(torch.int64)
        self._differ(places, places[1:], leads, self.events - len(leads) + places[1:])

    def _differ(
        self, decisions: Tensor, which: Tensor, germs: Sequence[BoundedGerm], events: Tensor
    ) -> None:
        """Count decisions that differ between neighbours, and keep the change of one.

        Where the germ that decides is zero for good at the first of two places, either decision is
        true there, and the one of the second counts.
        """
        rests = torch.stack([self._at_rest(germ)[:-1] for germ in germs])
        tied = rests.gather(0, which.clamp(max=len(germs) - 1)[None])[0]
        changed = (decisions[1:] != decisions[:-1]) & (~tied | self.strict)
        counts = changed.sum(dim=1)
        unit = changed.to(torch.int8).argmax(dim=1, keepdim=True)
        event = events.gather(1, unit)[:, 0] * UNITS + unit[:, 0]
        self.difference = torch.where(counts > 0, event, self.difference)
        self.differing = self.differing + counts
        self.note_changes(changed, events)

    def note_changes(self, changed: Tensor, events: Tensor) -> None:
        """A place for walks that keep which ``(places - 1, units)`` differ, by which events."""

    def _at_rest(self, germ: BoundedGerm) -> Tensor:
        """``(places, units)`` which germs are exactly zero behind a place."""
        numbers = torch.cat([germ.pair, germ.error_pair]).reshape(4, self.rays, -1)
        return (numbers == 0).all(dim=0)

    def neighbours(self) -> Tensor:
        """``(places - 1,)`` whether each place and the next lie in neighbouring pieces, proven."""
        known = self.certain[:-1] & self.certain[1:]
        alone = self.next_high[:-1] < self.others[:-1]
        same = (self.differing == 1) & (self.difference == self.next_event[:-1])
        return known & alone & same
