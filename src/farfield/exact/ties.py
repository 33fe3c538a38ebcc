"""Ties: a walk in slices that takes to be zero what no precision decides, and the proof afterwards.

Where a number is smaller than a bound that is tiny already, the walk goes on as if it were
exactly zero, and keeps which numbers these were and what it decided. Then residues modulo primes
(:mod:`farfield.exact.residues`) prove all of it at once, layer by layer: as long as everything
before was as assumed, the decisions replayed are the true ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from farfield.exact.bounded import BoundedGerm
from farfield.exact.germ import Germ
from farfield.exact.matrix import ExactBudget
from farfield.exact.residues import (
    Assumed,
    LastTie,
    NoResidue,
    ResidueDomain,
    Start,
    finest_bits,
    proven_zero,
)
from farfield.exact.sliced import SlicedDomain
from farfield.exact.sliced_germ import collapsed, zeroed
from farfield.graph.network import Network
from farfield.graph.program import Program, walk
from farfield.graph.rules import Affine

# Numbers within this many times their bound are taken to be zero.
WITHIN = 1.01


class TieDomain(SlicedDomain):
    """The walk in slices that takes small numbers to be zero.

    Attributes:
        assumed: What every decision took to be zero, in the order of the walk.
        terms: The most products that are summed anywhere.
    """

    def begin(self, like: Tensor) -> None:
        """Nothing is assumed yet."""
        super().begin(like)
        self.assumed: list[Assumed] = []
        self.terms = 1
        self._sizes: list[float] = []

    def affine(self, operation: Affine, *values: Germ) -> BoundedGerm:
        """As in slices; notes how many products are summed."""
        self.terms = max(self.terms, operation.terms if operation.weights else 1)
        return super().affine(operation, *values)

    def without_ties(self, value: Germ) -> tuple[Germ, Tensor | None]:
        """Take to be zero what is smaller than its bound: slopes, then intercepts at rest."""
        germ = collapsed(value)
        zeros = self.small(germ.pair, germ.error_pair).flatten(0, 1)
        if not bool(zeros.any()):
            return value, None
        sizes = (germ.parts.abs() + germ.error)[zeros]
        self._sizes.append(float(sizes.max()))
        return zeroed(value, zeros), zeros

    def small(self, pair: Tensor, error: Tensor) -> Tensor:
        """``(2, rays, ...)``: which slopes, and intercepts at rest, are within their bounds."""
        slope, intercept = pair
        slope_error, intercept_error = error
        open_slope = (slope.abs() <= slope_error * WITHIN) & (slope_error > 0)
        still = open_slope | (slope == 0)
        open_intercept = (intercept.abs() <= intercept_error * WITHIN) & (intercept_error > 0)
        return torch.stack([open_slope, open_intercept & still])

    def note_pieces(
        self, zeros: Sequence[Tensor | None], taken: Tensor, above: Sequence[BoundedGerm]
    ) -> None:
        """Keep what was taken to be zero and what was decided."""
        self.assumed.append(Assumed(tuple(zeros), max(self._sizes, default=1.0), taken))
        self._sizes.clear()

    def note_winner(
        self, zeros: Sequence[Tensor | None], winner: Tensor, leads: Sequence[BoundedGerm]
    ) -> None:
        """The same for candidates."""
        self.note_pieces(zeros, winner, leads)


def prove_ties(
    network: Network,
    program: Program,
    constants: Mapping[str, Tensor],
    start: Start,
    domain: TieDomain,
    winner: Tensor,
    budget: ExactBudget,
) -> Tensor:
    """``(rays,)`` whether all that a walk took to be zero is zero.

    Args:
        network: Says what its outputs are.
        program: The network.
        constants: Its weights.
        start: The rays modulo a prime.
        domain: The walk; its last decision is about the logits.
        winner: ``(rays, 1)`` the class to which logits were compared.
        budget: Checked before every walk.

    Raises:
        BudgetSpent: If the time is over.
    """
    finest, device = finest_bits(constants), domain.certain.device

    def walked(prime: int) -> tuple[Tensor, float]:
        residues = ResidueDomain(domain.rays, prime, domain.assumed, device, finest)
        try:
            out = walk(program, residues, start(residues), constants)
            rows = network.as_classes(out.parts.unflatten(0, (2, -1)))
            best = rows.gather(-1, winner.expand(2, *winner.shape))
            residues.check_last((rows - best).flatten(0, 1), out)
        except LastTie:
            pass
        return residues.holds, residues.needed

    try:
        return proven_zero(walked, domain.terms, budget)
    except NoResidue:
        return torch.zeros_like(domain.certain)
