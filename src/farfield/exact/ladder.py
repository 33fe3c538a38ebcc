"""A ladder of precisions: rays that single floats cannot prove are walked again in slices.

A ray climbs only as far as it must. The first rung takes one slice and leaves bounds of
``2**-75``. Where a decision is still open, the error that was met there, and how deep in the
network it was, tell how many slices the next rung needs. An error that is ``TIE`` times smaller
than the numbers around it looks like a tie, which no precision ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from farfield.exact.bounded import Magnitudes
from farfield.exact.certify import pick, settle_exactly, winner_proven
from farfield.exact.far_field import FarField
from farfield.exact.germ import Germ
from farfield.exact.leads import SLACK
from farfield.exact.matrix import BudgetSpent, ExactBudget
from farfield.exact.residues import ResidueDomain
from farfield.exact.sides import approached_jump
from farfield.exact.sliced import LostRays, SlicedDomain
from farfield.exact.sliced_germ import SlicedGerm, collapsed, error_of, floats_of
from farfield.exact.slices import SlicedWeight, add_up, sum_error
from farfield.exact.ties import TieDomain, prove_ties
from farfield.graph.network import InstanceGroup, Network, chunks
from farfield.graph.program import walk

D = TypeVar("D", bound=SlicedDomain)
# More slices than these are never of use: their bounds are at 2**-300.
MOST_SLICES = 12
# Networks with fewer weights, and fewer numbers in every layer, are small.
SMALL = 1 << 11
# Errors so much smaller than the numbers around them leave only ties open.
TIE = 2.0**-64
BITS = 22
# Bits to spare when the next rung is chosen, and slices to add when a tie was none.
SPARE = 40
MORE = 3


def climb(
    network: Network, far: FarField, origins: Tensor, directions: Tensor, seconds: float
) -> None:
    """Walk the unproven rays again, each as exactly as it needs, as far as the time reaches.

    Writes what it proves into the far field. Small networks go straight to rational arithmetic,
    which is quick on them.
    """
    if far.certified is None:
        raise ValueError("the far field was not computed with bounds")
    if bool(far.certified.all()):
        return
    budget, given = ExactBudget(seconds), (directions, origins)
    climbers = [
        _Climber(network, far, group, index, group.instance(index), given, budget)
        for group in network.groups
        for index in range(len(group.members))
    ]
    try:
        for climber in climbers:
            if len(climber.open_rays) and climber.climbs:
                climber.climb()
        for climber in climbers:
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
    constants: Mapping[str, Tensor]
    given: tuple[Tensor, Tensor]
    budget: ExactBudget

    @property
    def climbs(self) -> bool:
        """Whether slices are of use: not for small networks, probabilities, and jumps at limits."""
        group, program = self.group, self.group.program
        small = group.parameters <= SMALL * len(group.members) and program.width <= SMALL
        if small or self.far.shares is not None:
            return False
        return approached_jump(program, self.constants) is None

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
        """Go from rung to rung until nothing is open that slices or residues could close."""
        rays, slices = self.open_rays, 1
        needs = torch.ones_like(rays)
        while len(rays):
            slices = int(needs.min())
            here = needs == slices
            found = self._walk_all(rays[here], slices)
            ties = found == slices
            if bool(ties.any()):
                found[ties] = self._prove_ties(rays[here][ties], slices)
            needs[here] = found
            rays, needs = (each[(needs > 0) & (needs <= MOST_SLICES)] for each in (rays, needs))

    def _walk_all(self, rays: Tensor, slices: int) -> Tensor:
        """``(rays,)`` how many slices each ray needs next.

        0 if it is proven or cannot be, and as many as it had where a tie is suspected.
        """
        needs = []
        for some, pair, domain in self._walks(SlicedDomain, rays, slices):
            try:
                out = walk(self.group.program, domain, start_of(pair), self.constants)
            except LostRays:
                needs.append(self._needed(domain))
                continue
            verdict = LogitOrder.of(self.network, out, domain)
            self._store(some, verdict, domain, verdict.proven)
            needs.append(torch.where(verdict.proven, 0, self._needed(domain)))
        return torch.cat(needs)

    def _prove_ties(self, rays: Tensor, slices: int) -> Tensor:
        """``(rays,)`` 0 for those with ties that are proven, more slices for all others."""
        needs = []
        for some, pair, domain in self._walks(TieDomain, rays, slices):
            proven = torch.zeros_like(domain.certain)
            try:
                out = walk(self.group.program, domain, start_of(pair), self.constants)
                verdict = LogitOrder.of(self.network, out, domain)
                proven = verdict.proven & prove_ties(
                    self.network,
                    self.group.program,
                    self.constants,
                    partial(ResidueDomain.read, tensor=pair),
                    domain,
                    verdict.winner,
                    self.budget,
                )
                self._store(some, verdict, domain, proven)
            except LostRays:
                pass
            needs.append(torch.where(proven, 0, slices + MORE))
        return torch.cat(needs)

    def _walks(
        self, kind: type[D], rays: Tensor, slices: int
    ) -> Iterator[tuple[Tensor, Tensor, D]]:
        """Chunks of rays, and what walks them."""
        weights: dict[int, SlicedWeight] = {}
        magnitudes = Magnitudes(list(self.constants.values()))
        for part in chunks(len(rays), self.group, factor=4):
            some = rays[part]
            pair = torch.cat([pick(rows, some) for rows in self.given])
            yield some, pair, kind(len(some), pair, magnitudes, slices, weights, self.budget)

    def _needed(self, domain: SlicedDomain) -> Tensor:
        """Guess how many slices a lost ray needs.

        So many bits were spent on the way to the place where it was lost; the rest of the way
        takes as many again in proportion. 0 where more slices are of no use.
        """
        depth = domain.lost.double() / max(1, len(self.group.program.steps))
        spent = 53 + BITS * domain.slices + torch.log2(domain.doubt.clamp(2.0**-200, 2.0**20))
        bits = spent / depth.clamp(0.05, 1.0) + SPARE
        slices = torch.ceil((bits - 53) / BITS).clamp(domain.slices + 1, MOST_SLICES)
        if domain.slices >= MOST_SLICES:
            slices = torch.zeros_like(slices)
        slices = torch.where(domain.doubt < TIE, domain.slices, slices)
        return torch.where(domain.certain | (domain.lost > 0), slices, 0).to(torch.int64)

    def _store(
        self, rays: Tensor, verdict: LogitOrder, domain: SlicedDomain, proven: Tensor
    ) -> None:
        """Write what is proven."""
        far, member = self.far, self.group.members[self.index]
        if far.certified is None or far.relative is None or far.reach_bounds is None:
            raise ValueError("the far field was not computed with bounds")
        where = rays[proven]
        far.slope[member, where], far.intercept[member, where] = verdict.germs[:, proven]
        far.relative[:, member, where] = verdict.relative[:, proven]
        far.leading[member, where] = (verdict.relative[0] == 0)[proven]
        far.reach[member, where] = domain.reach[proven]
        far.reach_bounds[:, member, where] = domain.enclosure[:, proven]
        far.asymptotic[member, where] = domain.asymptotic[proven]
        far.certified[member, where] = True


@dataclass(frozen=True, slots=True)
class LogitOrder:
    """What a walk in slices says about logits, each ``(2, rays, classes)``."""

    germs: Tensor
    relative: Tensor
    winner: Tensor
    proven: Tensor

    @classmethod
    def of(cls, network: Network, out: Germ, domain: SlicedDomain) -> LogitOrder:
        """Compare the logits; a walk that takes ties for granted does so here too."""
        floats = [_classes(network, part) for part in floats_of(out)]
        errors = _classes(network, error_of(out))
        winner = _winner(floats[0])
        for _ in range(2):
            relative, error = _relative(floats, errors, winner)
            zeros = None
            if isinstance(domain, TieDomain):
                tied = SlicedGerm(relative.flatten(0, 1), error.flatten(0, 1))
                germ, zeros = domain.without_ties(tied)
                relative, error = collapsed(germ).pair, collapsed(germ).error_pair
            winner, before = _winner(relative), winner
        domain.note_winner([zeros], winner, [])
        settled = (winner == before)[:, 0] & winner_proven(*relative, *error)
        finite = torch.isfinite(torch.stack([*floats, errors])).all(dim=0).all(dim=-1).all(dim=0)
        return cls(floats[0], relative, winner, domain.certain & settled & finite)


def start_of(pair: Tensor) -> SlicedGerm:
    """Rays as exact germs."""
    return SlicedGerm(pair, torch.zeros_like(pair))


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
