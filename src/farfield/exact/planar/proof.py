"""Proofs of planes and arcs: that a network is affine on each of them, but for a seam around it.

On a side some unit is zero, where no sign can be proven. Polygons are therefore made a little
smaller; if a network decides alike at all corners of the smaller one, it is affine on it. What is
not proven of a plane whose polygons all are is the seams between them.

On a cone of directions on which no decision changes, slopes are linear in the direction and
constants do not depend on it. So decisions that agree at two directions less than half a turn
apart hold between them, and so does which logits lead: a network has one limit on all of an arc,
but for a seam at its ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from farfield.exact.alike import hulls_alike
from farfield.exact.bounded import BoundedDomain, BoundedGerm, Magnitudes
from farfield.exact.ladder import LogitOrder
from farfield.exact.matrix import ExactBudget
from farfield.exact.ray.place_domain import PlaceDomain
from farfield.exact.residues import Residue, ResidueDomain, Start
from farfield.exact.sliced import SlicedDomain
from farfield.exact.sliced_germ import SlicedGerm
from farfield.exact.slices import add_up, sum_error, two_product
from farfield.exact.ties import TieDomain, prove_ties
from farfield.graph.network import CHUNK_ELEMENTS, Network
from farfield.graph.program import Program, walk

# How much smaller polygons are made, and how much of an arc is left out at either end.
SEAM = 2.0**-20
# Numbers of slices: of polygons, one after another; of arcs.
RUNGS, SLICES = (1, 3), 2
# The widest step between two directions.
STEP = 1.0


def proven_polygons(
    program: Program,
    constants: Mapping[str, Tensor],
    frame: tuple[Tensor, Tensor, Tensor],
    vertices: Tensor,
    centres: Tensor,
    counts: Tensor,
) -> Tensor:
    """``(polygons,)`` whether the network is proven to be affine on each, but for its seam.

    Args:
        program: The network.
        constants: Its weights.
        frame: The origin and the directions of the slice.
        vertices: ``(corners, 2)`` of all polygons.
        centres: ``(polygons, 2)`` a point inside each.
        counts: ``(polygons,)`` how many corners each has.
    """
    middle = centres.repeat_interleave(counts, dim=0)
    inner = vertices + SEAM * (middle - vertices)
    a, b = (each.reshape(-1, *[1] * frame[0].ndim) for each in inner.unbind(dim=1))
    origin, u, v = frame
    terms = [*two_product(a, u[None]), *two_product(b, v[None]), origin[None]]
    points = add_up(terms, 3)
    size = sum((term.abs() for term in terms), torch.zeros_like(points[0]))

    def exactly(which: Tensor) -> Start:
        return partial(_points, frame, inner[which])

    error = size * sum_error(5, 3)
    return hulls_alike(program, constants, points, error, counts, RUNGS, exactly)


def _points(
    frame: tuple[Tensor, Tensor, Tensor], coordinates: Tensor, domain: ResidueDomain
) -> Residue:
    """Points of a slice modulo a prime, at rest."""
    a, b = coordinates.unbind(dim=1)
    factors = (torch.ones_like(a), a, b)
    rows = (row[None] for row in frame)
    value = domain.sums(*zip(factors, rows, strict=True))
    return domain.germs(replace(value, parts=torch.zeros_like(value.parts)), value)


class ConeDomain(TieDomain, PlaceDomain):
    """The walk at infinity that knows in which decisions neighbouring directions differ.

    What no precision decides is taken to be zero.
    """

    strict = True

    def note_pieces(
        self, zeros: Sequence[Tensor | None], taken: Tensor, above: Sequence[BoundedGerm]
    ) -> None:
        """Keep what was taken to be zero, and what differs."""
        TieDomain.note_pieces(self, zeros, taken, above)
        PlaceDomain.note_pieces(self, zeros, taken, above)

    def note_winner(
        self, zeros: Sequence[Tensor | None], winner: Tensor, leads: Sequence[BoundedGerm]
    ) -> None:
        """The same for candidates."""
        TieDomain.note_pieces(self, zeros, winner, leads)
        PlaceDomain.note_winner(self, zeros, winner, leads)

    def sign(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Far out the slope decides."""
        return SlicedDomain.sign(self, slope, intercept)

    def _settle(self, *parts: Tensor, where: Tensor | bool = True) -> None:
        """As at infinity."""
        BoundedDomain._settle(self, *parts, where=where)
        self.events += 1


def proven_arcs(
    network: Network,
    program: Program,
    constants: Mapping[str, Tensor],
    frame: Tensor,
    start: Tensor,
    width: Tensor,
    limits: Tensor,
) -> Tensor:
    """``(arcs,)`` whether one limit is proven for all of each arc, but for its seams.

    Args:
        network: Says what its outputs are.
        program: One of its programs.
        constants: The weights of an instance.
        frame: ``(3, *input)``: the directions at angles 0 and pi / 2, and the origin.
        start: ``(arcs,)`` angles at which arcs start.
        width: ``(arcs,)`` how wide they are.
        limits: ``(arcs, classes)`` the probabilities there, whose leading classes are proven too.
    """
    some = max(2, CHUNK_ELEMENTS // (32 * max(1, program.width)))
    if len(start) > some:
        parts = zip(*(each.split(some) for each in (start, width, limits)), strict=True)
        return torch.cat([proven_arcs(network, program, constants, frame, *part) for part in parts])
    counts = 2 + torch.ceil(width / STEP).long()
    owner = torch.arange(len(start)).repeat_interleave(counts)
    place = torch.arange(len(owner)) - (counts.cumsum(0) - counts)[owner]
    share = SEAM + (1 - 2 * SEAM) * place / (counts - 1)[owner]
    angles = start[owner] + share * width[owner]
    germ = directions(frame, angles)
    magnitudes, budget = Magnitudes(list(constants.values())), ExactBudget(float("inf"))
    domain = ConeDomain(len(owner), germ.parts, magnitudes, SLICES, {}, budget)
    out = walk(program, domain, germ, constants)
    verdict = LogitOrder.of(network, out, domain)
    leads = verdict.relative[0] == 0
    found = (leads == (limits > 0)[owner]).all(dim=1)
    found &= verdict.winner[:, 0] == limits.argmax(dim=1)[owner]
    found &= verdict.proven
    if not all(noted.empty for noted in domain.assumed):
        rays = partial(_rays, frame, angles)
        ties = (domain, verdict.winner, budget)
        found &= prove_ties(network, program, constants, rays, *ties)
    broken = torch.zeros(len(start), dtype=torch.bool)
    broken[owner[~found]] = True
    broken[owner[1:][(owner[1:] == owner[:-1]) & (domain.differing > 0)]] = True
    return ~broken


def directions(frame: Tensor, angles: Tensor) -> SlicedGerm:
    """Rays from the origin of a slice in directions of given angles."""
    u, v, origin = (row[None] for row in frame)
    a, b = (each.reshape(-1, *[1] * (frame.ndim - 1)) for each in (angles.cos(), angles.sin()))
    terms = [*two_product(a, u), *two_product(b, v)]
    floats = add_up(terms, 3)
    size = sum((term.abs() for term in terms), torch.zeros_like(floats[0]))
    origins = origin.expand_as(floats[0])
    still = torch.zeros_like(floats[0])
    parts = [torch.cat(pair) for pair in zip(floats, (origins, still, still), strict=True)]
    error = torch.cat([size * sum_error(4, 3), still])
    return SlicedGerm(parts[0], error, tuple(parts[1:]))


def _rays(frame: Tensor, angles: Tensor, domain: ResidueDomain) -> Residue:
    """Rays in directions of given angles modulo a prime."""
    u, v, origin = (row[None] for row in frame)
    slope = domain.sums((angles.cos(), u), (angles.sin(), v))
    return domain.germs(slope, domain.sums((torch.ones_like(angles), origin)))
