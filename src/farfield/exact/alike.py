"""Which points a network treats alike, proven: the same side of every unit, the same winners.

Behind decisions that agree at two points a network is affine between them, so that a unit with
the same sign at both has it in between; by induction over the layers, all decisions hold on the
whole polytope that such points span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from farfield.exact.bounded import Magnitudes
from farfield.exact.matrix import ExactBudget
from farfield.exact.ray.meetings import MeetingDomain, prove_meetings
from farfield.exact.ray.place_domain import PlaceDomain
from farfield.exact.residues import Start
from farfield.exact.sliced_germ import SlicedGerm
from farfield.exact.slices import SlicedWeight, Slices
from farfield.graph.network import CHUNK_ELEMENTS
from farfield.graph.program import Program, walk


def decisions_at(
    program: Program,
    constants: Mapping[str, Tensor],
    points: Slices,
    error: Tensor,
    slices: int,
    caution: float = 1.0,
    exactly: Start | None = None,
) -> tuple[Tensor, Tensor]:
    """Walk a network at points with error bounds.

    Args:
        program: The network.
        constants: Its weights.
        points: ``(points, *input)`` as sums of floats.
        error: Bounds on their errors.
        slices: How many slices the first layers take; 0 for single floats.
        caution: How many times its bound a number must exceed.
        exactly: The points modulo a prime, if numbers may be proven to be zero.

    Returns:
        ``(points,)`` whether all decisions are proven, and ``(points - 1,)`` whether those of each
        point and the next are the same.
    """
    still = torch.zeros_like(points[0])
    parts = [torch.cat([still, part]) for part in points]
    start = SlicedGerm(parts[0], torch.cat([still, error]), tuple(parts[1:]))
    weights: dict[int, SlicedWeight] = {}
    magnitudes, budget = Magnitudes(list(constants.values())), ExactBudget(float("inf"))
    kind = PlaceDomain if exactly is None else MeetingDomain
    domain = kind(len(error), parts[0], magnitudes, slices, weights, budget)
    domain.caution, domain.strict = caution, True
    walk(program, domain, start, constants)
    if isinstance(domain, MeetingDomain) and exactly is not None:
        prove_meetings(domain, program, constants, exactly)
    return domain.certain, domain.differing == 0


def proven_rows(program: Program, constants: Mapping[str, Tensor], rows: Tensor) -> Tensor:
    """``(points,)`` whether any walk in float64 decides as real numbers do.

    Numbers must exceed twice their bounds, so that another order of summation cannot turn them.
    """
    size = max(1, CHUNK_ELEMENTS // (4 * max(1, program.width)))
    found = [
        decisions_at(program, constants, (part,), torch.zeros_like(part), 0, caution=2.0)[0]
        for part in rows.split(size)
    ]
    return torch.cat(found)


def hulls_alike(
    program: Program,
    constants: Mapping[str, Tensor],
    points: Slices,
    error: Tensor,
    counts: Tensor,
    rungs: Sequence[int],
    exactly: Callable[[Tensor], Start],
) -> Tensor:
    """``(hulls,)`` whether a network is affine on the polytope that each group of points spans.

    Args:
        program: The network.
        constants: Its weights.
        points: ``(points, *input)`` as sums of floats, group after group.
        error: Bounds on their errors.
        counts: ``(hulls,)`` how many points each group has.
        rungs: Numbers of slices to try, one after another; with the last, units that are zero at
            all points of a group are proven to be.
        exactly: Some of the points modulo a prime, given which.
    """
    ends = counts.cumsum(0)
    alike = torch.zeros_like(counts, dtype=torch.bool)
    for slices in rungs:
        for part in _bunches(torch.nonzero(~alike).flatten(), counts, program.width):
            rows = torch.cat([torch.arange(int(ends[i] - counts[i]), int(ends[i])) for i in part])
            some = tuple(each[rows] for each in points)
            start = exactly(rows) if slices == rungs[-1] else None
            sure, same = decisions_at(program, constants, some, error[rows], slices, exactly=start)
            owner = torch.arange(len(part)).repeat_interleave(counts[part])
            within = owner[1:] == owner[:-1]
            broken = torch.zeros(len(part), dtype=torch.bool)
            broken[owner[~sure]] = True
            broken[owner[1:][within & ~same]] = True
            alike[part] = ~broken
    return alike


def _bunches(which: Tensor, counts: Tensor, width: int) -> Iterator[Tensor]:
    """Groups that are walked together."""
    room = max(1, CHUNK_ELEMENTS // (4 * max(1, width)))
    bunch = (counts[which].cumsum(0) - 1) // room
    for each in bunch.unique().tolist():
        yield which[bunch == each]
