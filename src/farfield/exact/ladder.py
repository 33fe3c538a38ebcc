"""A ladder of precisions: rays that single floats cannot prove are walked again in slices.

A ray climbs only as far as it must. The first rung takes one slice and leaves bounds of
``2**-75``. Where a decision is still open, the error that was met there, and how deep in the
network it was, tell how many slices the next rung needs. An error that is ``TIE`` times smaller
than the numbers around it looks like a tie, which no precision ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.exact.bounded import Magnitudes
from farfield.exact.certify import pick, settle_exactly, winner_proven
from farfield.exact.far_field import FarField
from farfield.exact.germ import Germ
from farfield.exact.leads import SLACK
from farfield.exact.matrix import BudgetSpent, ExactBudget
from farfield.exact.sides import approached_jump
from farfield.exact.sliced import LostRays, SlicedDomain, SlicedGerm, error_of, floats_of
from farfield.exact.slices import SlicedWeight, add_up, sum_error
from farfield.graph.network import InstanceGroup, Network, chunks
from farfield.graph.program import walk

# More slices than these are never of use: their bounds are at 2**-300.
MOST_SLICES = 12
# Networks with fewer weights, and fewer numbers in every layer, are small.
SMALL = 1 << 11
# Errors so much smaller than the numbers around them leave only ties open.
TIE = 2.0**-64
BITS = 22


def climb(
    network: Network, far: FarField, origins: Tensor, directions: Tensor, seconds: float
) -> None:
    """Walk the unproven rays again, each as exactly as it needs, as far as the time reaches.

    Writes what it proves into the far field. Small networks go straight to rational arithmetic,
    which is quick on them.
    """
    if far.certified is None:
        raise ValueError("the far field was not computed with bounds")
    budget = ExactBudget(seconds)
    try:
        for group in network.groups:
            small = group.parameters <= SMALL * len(group.members) and group.program.width <= SMALL
            plain = approached_jump(group.program, group.instance(0)) is None
            for index in range(len(group.members)):
                climber = _Climber(network, far, group, index, (directions, origins), budget)
                if not small and plain and far.shares is None:
                    climber.climb()
                climber.settle_exactly()
    except BudgetSpent:
        return


@dataclass(slots=True)
class _Climber:
    """One instance, its open rays, and where results go."""

    network: Network
    far: FarField
    group: InstanceGroup
    index: int
    given: tuple[Tensor, Tensor]
    budget: ExactBudget

    @property
    def open_rays(self) -> Tensor:
        """Rays that are not proven."""
        if self.far.certified is None:
            raise ValueError("the far field was not computed with bounds")
        return torch.nonzero(~self.far.certified[self.group.members[self.index]]).flatten()

    def settle_exactly(self) -> None:
        """Follow what is open in rational arithmetic."""
        settle_exactly(self.network, self.far, self.group, self.index, self.given, self.budget)

    def climb(self) -> None:
        """Go from rung to rung until nothing is open that precision could close."""
        rays, slices = self.open_rays, 1
        while len(rays) and slices <= MOST_SLICES:
            needs = self._walk_all(rays, slices)
            rays = rays[needs > slices]
            needs = needs[needs > slices]
            slices = int(needs.min()) if len(needs) else MOST_SLICES + 1

    def _walk_all(self, rays: Tensor, slices: int) -> Tensor:
        """``(rays,)`` how many slices each ray needs next; 0 if it is proven, or cannot be."""
        weights: dict[int, SlicedWeight] = {}
        constants = self.group.instance(self.index)
        magnitudes = Magnitudes(list(constants.values()))
        needs = []
        for part in chunks(len(rays), self.group, factor=4 * len(self.group.members)):
            some = rays[part]
            pair = torch.cat([pick(rows, some) for rows in self.given])
            domain = SlicedDomain(len(some), pair, magnitudes, slices, weights, self.budget)
            start = SlicedGerm(pair, torch.zeros_like(pair))
            try:
                out = walk(self.group.program, domain, start, constants)
            except LostRays:
                needs.append(self._needed(domain))
                continue
            proven = self._store(some, out, domain)
            needs.append(torch.where(proven, 0, self._needed(domain)))
        return torch.cat(needs)

    def _needed(self, domain: SlicedDomain) -> Tensor:
        """Guess how many slices a lost ray needs; 0 where more would not help.

        So many bits were spent on the way to the place where it was lost; the rest of the way
        takes as many again in proportion.
        """
        depth = domain.lost.double() / max(1, len(self.group.program.steps))
        spent = 53 + BITS * domain.slices + torch.log2(domain.doubt.clamp(2.0**-200, 2.0**20))
        bits = spent / depth.clamp(min=0.05).clamp(max=1.0) + 40
        slices = torch.ceil((bits - 53) / BITS).clamp(domain.slices + 1, MOST_SLICES)
        hopeless = (domain.lost == 0) | (domain.doubt < TIE)
        if domain.slices >= MOST_SLICES:
            hopeless = torch.ones_like(hopeless)
        return torch.where(hopeless, 0, slices.to(torch.int64))

    def _store(self, rays: Tensor, out: Germ, domain: SlicedDomain) -> Tensor:
        """Write what is proven; the result says which rays are."""
        far, member = self.far, self.group.members[self.index]
        if far.certified is None or far.relative is None or far.reach_bounds is None:
            raise ValueError("the far field was not computed with bounds")
        floats = [_classes(self.network, part) for part in floats_of(out)]
        errors = _classes(self.network, error_of(out))
        first = _winner(floats[0])
        winner = _winner(_relative(floats, errors, first)[0])
        relative, error = _relative(floats, errors, winner)
        settled = (winner == _winner(relative))[:, 0] & winner_proven(*relative, *error)
        finite = torch.isfinite(torch.stack([*floats, errors])).all(dim=0).all(dim=-1).all(dim=0)
        proven = domain.certain & settled & finite
        where = rays[proven]
        far.slope[member, where], far.intercept[member, where] = floats[0][:, proven]
        far.relative[:, member, where] = relative[:, proven]
        far.leading[member, where] = (relative[0] == 0)[proven]
        far.reach[member, where] = domain.reach[proven]
        far.reach_bounds[:, member, where] = domain.enclosure[:, proven]
        far.asymptotic[member, where] = domain.asymptotic[proven]
        far.certified[member, where] = True
        return proven


def _classes(network: Network, rows: Tensor) -> Tensor:
    """``(2, rays, classes)``."""
    return network.as_classes(rows.unflatten(0, (2, -1)))


def _winner(leading: Tensor) -> Tensor:
    """``(rays, 1)`` the class that leads, as far as ``(2, rays, classes)`` floats tell."""
    slope, intercept = leading
    top = slope == slope.amax(dim=-1, keepdim=True)
    found: Tensor = intercept.masked_fill(~top, -torch.inf).argmax(dim=-1, keepdim=True)
    return found


def _relative(floats: list[Tensor], errors: Tensor, winner: Tensor) -> tuple[Tensor, Tensor]:
    """``(2, rays, classes)`` logits less that of the winner, and bounds; the winner is exact."""
    both = winner.expand(2, *winner.shape)
    best = [part.gather(-1, both) for part in floats]
    terms = [*floats, *(-part for part in best)]
    parts = add_up(terms, max(2, len(floats)))
    size = sum((term.abs() for term in terms), torch.zeros_like(errors))
    error = errors + errors.gather(-1, both) + size * sum_error(len(terms), max(2, len(floats)))
    for part in parts[1:]:
        error = error + part.abs()
    itself = torch.zeros_like(error, dtype=torch.bool).scatter(-1, both, True)
    return parts[0], error.masked_fill(itself, 0.0) * SLACK
