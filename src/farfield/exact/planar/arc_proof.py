"""Proofs of arcs: that a network has one limit on all of an arc, but for a seam at its ends.

On a cone of directions on which no decision changes, slopes are linear in the direction and
constants do not depend on it. So decisions that agree at two directions less than half a turn
apart hold between them, and so does which logits lead.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from farfield.exact.bounded import BoundedDomain, Magnitudes
from farfield.exact.ladder import LogitOrder
from farfield.exact.matrix import ExactBudget
from farfield.exact.ray.place_domain import PlaceDomain
from farfield.exact.sliced import SlicedDomain
from farfield.exact.sliced_germ import SlicedGerm
from farfield.exact.slices import add_up, sum_error, two_product
from farfield.graph.network import CHUNK_ELEMENTS, Network
from farfield.graph.program import Program, walk

# How much of an arc is left out at either end, and the widest step between two directions.
SEAM, STEP = 2.0**-20, 1.0
SLICES = 2


class ConeDomain(PlaceDomain):
    """The walk at infinity that knows in which decisions neighbouring directions differ."""

    strict = True

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
    arcs = zip(*(each.split(some) for each in (start, width, limits)), strict=True)
    return torch.cat([_proven(network, program, constants, frame, *part) for part in arcs])


def _proven(
    network: Network,
    program: Program,
    constants: Mapping[str, Tensor],
    frame: Tensor,
    start: Tensor,
    width: Tensor,
    limits: Tensor,
) -> Tensor:
    counts = 2 + torch.ceil(width / STEP).long()
    owner = torch.arange(len(start)).repeat_interleave(counts)
    place = torch.arange(len(owner)) - (counts.cumsum(0) - counts)[owner]
    share = SEAM + (1 - 2 * SEAM) * place / (counts - 1)[owner]
    germ = directions(frame, start[owner] + share * width[owner])
    magnitudes, budget = Magnitudes(list(constants.values())), ExactBudget(float("inf"))
    domain = ConeDomain(len(owner), germ.parts, magnitudes, SLICES, {}, budget)
    out = walk(program, domain, germ, constants)
    verdict = LogitOrder.of(network, out, domain)
    leads = verdict.relative[0] == 0
    found = (leads == (limits > 0)[owner]).all(dim=1)
    found &= verdict.winner[:, 0] == limits.argmax(dim=1)[owner]
    broken = torch.zeros(len(start), dtype=torch.bool)
    broken[owner[~(verdict.proven & found)]] = True
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
