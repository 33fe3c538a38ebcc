"""Germs in exact rational arithmetic: for rays that floating point cannot decide.

The weights of a captured network are floats, that is dyadic rationals, so slopes and intercepts
are rationals as well. All numbers of a value share one denominator; signs and comparisons are then
those of integers. Affine maps are read off the operation itself by applying it to unit vectors,
which is exact, so that every operation in the rule table is covered by one piece of code.

A smooth function at rest (slope zero) has no rational value: such rays stay undecided.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from flint import fmpz
from numpy.typing import NDArray
from torch import Tensor

from farfield.exact.matrix import (
    ExactBudget,
    Integers,
    Matrix,
    as_integers,
    choose,
    objects,
    quotient,
    read_matrix,
)
from farfield.exact.sides import SideDomain, approached_jump
from farfield.graph.growth import Growth, unused
from farfield.graph.program import Program, walk
from farfield.graph.rules import (
    Affine,
    Asymptote,
    Number,
    Pieces,
    Places,
    RowFunction,
    Smooth,
    Steps,
)


class NotRational(Exception):  # noqa: N818 - control flow inside the package
    """A value of the network has no rational form."""


@dataclass(frozen=True, slots=True)
class Rational:
    """Numbers ``numerators / denominator``: first the slopes of all rays, then the intercepts."""

    numerators: Integers
    denominator: Any
    device: torch.device

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the numerators, twice as many rows as rays."""
        return tuple(self.numerators.shape)

    @property
    def pair(self) -> Integers:
        """The numerators as ``(2, rays, ...)``."""
        return self.numerators.reshape(2, -1, *self.shape[1:])

    def new_zeros(self, shape: tuple[int, ...]) -> Tensor:
        """Zeros to build constants from."""
        return torch.zeros(shape, dtype=torch.float64, device=self.device)


class RationalDomain:
    """The walk at infinity in rational arithmetic.

    Attributes:
        rays: How many rays.
        reach: The last decision of each ray, rounded once.
        asymptotic: Whether some value only approaches its germ.
        matrices: The affine maps met so far, in the order of the walk; shared between walks.
    """

    def __init__(
        self, rays: int, matrices: dict[tuple[int, int], Matrix], budget: ExactBudget
    ) -> None:
        self.rays = rays
        self.reach = np.zeros(rays)
        self.asymptotic = np.zeros(rays, dtype=bool)
        self.matrices = matrices
        self.budget = budget
        self.count = 0

    def constant(self, tensor: Tensor) -> Rational:
        """A constant: no slope."""
        values = tensor.double().cpu().numpy().copy()
        values[: len(values) // 2] = 0
        return exact(values, tensor.device)

    def affine(self, operation: Affine, *values: Rational) -> Rational:
        """Apply the map's matrix, read off the operation by unit vectors."""
        self.budget.check()
        self.count += 1
        rows = len(values[0].numerators)
        common = math.lcm(*(int(value.denominator) for value in values))
        total: Integers | None = None
        denominator: Any = fmpz(common)
        for place, value in enumerate(values):
            matrix = self._matrix(operation, values, place)
            scaled = value.numerators.reshape(rows, -1) * fmpz(common // int(value.denominator))
            product = matrix.apply(scaled, self.budget)
            if total is None:
                total, scale = product, matrix.denominator
            else:
                merged = scale.lcm(matrix.denominator)
                total = total * (merged / scale) + product * (merged / matrix.denominator)
                scale = merged
        if total is None:
            raise AssertionError("an affine operation has at least one input")
        result = Rational(total.reshape(rows, *matrix.shape), denominator * scale, values[0].device)
        return result if operation.offset is None else _plus(result, operation.offset)

    def _matrix(self, operation: Affine, values: Sequence[Rational], place: int) -> Matrix:
        key = (self.count, place)
        if len(operation.weights) > 1:
            raise NotRational("products of several weights are rounded by the operation itself")
        if key not in self.matrices:
            self.matrices[key] = read_matrix(
                operation, [v.shape for v in values], place, self.budget
            )
        return self.matrices[key]

    def piecewise(self, value: Rational, pieces: Pieces) -> Rational:
        """Take the piece that each germ ends up in."""
        self.budget.check()
        shape = value.shape[1:]
        slopes = [_fractions(slope, shape) for slope in pieces.slopes]
        offsets = [Fraction(offset) for offset in pieces.intercepts]
        scale = math.lcm(
            *(int(f.denominator) for each in slopes for f in each.ravel()),
            *(offset.denominator for offset in offsets),
        )
        factor = np.broadcast_to(_scaled(slopes[0], scale), value.pair.shape[1:])
        shift: Any = fmpz(int(offsets[0] * scale))
        for index, threshold in enumerate(pieces.thresholds):
            above = self._exceeds(value, threshold)
            kink = (slopes[index] != slopes[index + 1]) | (offsets[index] != offsets[index + 1])
            self._note_threshold(value, threshold, kink)
            factor = choose(above, _scaled(slopes[index + 1], scale), factor)
            shift = choose(above, fmpz(int(offsets[index + 1] * scale)), shift)
        pair = value.pair * factor
        pair[1] = pair[1] + shift * value.denominator
        return _of_pair(pair, value.denominator * fmpz(scale), value.device)

    def largest(
        self, candidates: Sequence[Rational], sign: int = 1, places: Places | None = None
    ) -> Rational:
        """Take the lexicographically largest candidate."""
        self.budget.check()
        common = math.lcm(*(int(candidate.denominator) for candidate in candidates))
        pairs = [c.pair * fmpz(sign * (common // int(c.denominator))) for c in candidates]
        best = pairs[0]
        for pair in pairs[1:]:
            better = (pair[0] > best[0]) | ((pair[0] == best[0]) & (pair[1] > best[1]))
            best = choose(better, pair, best)
        for pair in pairs:
            self._note(pair[1] - best[1], best[0] - pair[0])
        return _of_pair(best * fmpz(sign), fmpz(common), candidates[0].device)

    def smooth(self, value: Rational, curve: Smooth) -> Rational:
        """Take the asymptote; a value at rest stays rational only where zero goes to zero."""
        slope, intercept = value.pair
        still = np.equal(slope, 0)
        fixed = float(curve.function(torch.zeros(1, dtype=torch.float64))[0]) == 0
        if np.any(still & ~(np.equal(intercept, 0) & fixed)):
            raise NotRational("a smooth function at rest has no rational value")
        moving = (~still).reshape(self.rays, -1).any(axis=1)
        if curve.settles is None:
            self.asymptotic |= moving
        else:
            for threshold in curve.settles:
                self._note_threshold(value, threshold, np.True_)
        ends = [_asymptote(curve.below), _asymptote(curve.above)]
        scale = math.lcm(*(part.denominator for end in ends for part in end))
        below, above = ([fmpz(int(part * scale)) for part in end] for end in ends)
        up = np.greater(slope, 0)
        pair = value.pair * choose(up, above[0], below[0])
        pair[1] = pair[1] + choose(still, fmpz(0), choose(up, above[1], below[1])) * (
            value.denominator
        )
        return _of_pair(pair, value.denominator * fmpz(scale), value.device)

    def steps(self, value: Rational, steps: Steps) -> Rational:
        """Take the value on the interval that each column ends up in."""
        self.budget.check()
        bounds, outputs = steps.offsets.tolist(), len(steps)
        heights = np.empty((self.rays, outputs))
        for ray, output in np.ndindex(self.rays, outputs):
            column = int(steps.columns[output])
            slope, intercept = (
                Fraction(int(part), int(value.denominator)) for part in value.pair[:, ray, column]
            )
            own = steps.breaks[bounds[output] : bounds[output + 1]].tolist()
            place = bisect_left(own, intercept) if slope == 0 else len(own) * (slope > 0)
            heights[ray, output] = steps.values[bounds[output] + output + place]
            if slope != 0 and own:
                last = Fraction(own[-1 if slope > 0 else 0])
                self.reach[ray] = max(float(self.reach[ray]), float((last - intercept) / slope))
        return exact(np.concatenate([np.zeros_like(heights), heights]), value.device)

    def steps_from_above(self, value: Rational, steps: Steps) -> tuple[Rational, Tensor]:
        """Not needed so far: what stands behind smooth functions is rarely rational."""
        raise NotRational("steps behind smooth functions")

    def choice(self, mask: Rational, yes: Rational, no: Rational) -> Rational:
        """Take the value that a mask says."""
        return self.choose(self.compare(mask, Fraction(1, 2)) > 0, yes, no)

    def grow(self, operation: Growth, *values: Rational) -> Rational:
        """What changes growth is walked in series."""
        raise unused(operation)

    def row_function(self, value: Rational, function: RowFunction) -> Rational:
        """Functions of rows are floating point by nature."""
        raise NotRational(f"{type(function).__name__} has no rational value")

    def compare(self, value: Rational, threshold: Number) -> Tensor:
        """Say where germs stand to a constant: 1 above, 0 at, -1 below it."""
        slope, _ = value.pair
        decisive = choose(np.equal(slope, 0), _above(value, threshold), slope)
        return _signs(decisive, value.device)

    def motion(self, value: Rational) -> Tensor:
        """Say whether values grow, rest or fall."""
        return _signs(value.pair[0], value.device)

    def choose(self, condition: Tensor, yes: Rational, no: Rational) -> Rational:
        """Take one value where a condition holds, another elsewhere."""
        common = yes.denominator.lcm(no.denominator)
        pairs = [each.pair * (common / each.denominator) for each in (yes, no)]
        return _of_pair(choose(condition.cpu().numpy(), *pairs), common, yes.device)

    def _exceeds(self, value: Rational, threshold: Number) -> Any:
        slope, _ = value.pair
        above = np.greater(_above(value, threshold), 0)
        return choose(np.equal(slope, 0), above, np.greater(slope, 0))

    def _note_threshold(self, value: Rational, threshold: Number, kink: Any) -> None:
        gap = -_above(value, threshold) * choose(kink, fmpz(1), fmpz(0))
        self._note(gap, value.pair[0] * fmpz(Fraction(threshold).denominator))

    def _note(self, top: Integers, bottom: Integers) -> None:
        """Keep the largest quotient of each ray, where the bottom is not zero."""
        tops, bottoms = top.reshape(self.rays, -1), bottom.reshape(self.rays, -1)
        ahead = np.not_equal(bottoms, 0) & (np.greater(tops, 0) == np.greater(bottoms, 0))
        for ray, unit in np.argwhere(ahead & np.not_equal(tops, 0)):
            crossing = quotient(tops[ray, unit], bottoms[ray, unit])
            self.reach[ray] = max(self.reach[ray], crossing)


def exact(values: NDArray[np.float64], device: torch.device) -> Rational:
    """Read floats as rationals with a common denominator."""
    numerators, denominator = as_integers(values.ravel())
    return Rational(numerators.reshape(values.shape), denominator, device)


def _above(value: Rational, threshold: Number) -> Integers:
    """How far intercepts are above a constant, times something positive."""
    limit = Fraction(threshold)
    scaled = value.pair[1] * fmpz(limit.denominator)
    return scaled - fmpz(limit.numerator) * value.denominator  # type: ignore[no-any-return]


def _signs(numbers: Integers, device: torch.device) -> Tensor:
    signs = np.greater(numbers, 0).astype(np.int8) - np.less(numbers, 0).astype(np.int8)
    return torch.from_numpy(signs).to(device)


def _fractions(slope: Number | Tensor, shape: tuple[int, ...]) -> NDArray[np.object_]:
    """A piece's slope as an array of fractions that broadcasts against a row."""
    if isinstance(slope, Tensor):
        values = slope.double().cpu().numpy()
        return objects([Fraction(v) for v in values.ravel().tolist()], values.shape)
    return objects([Fraction(slope)], (1,) * len(shape))


def _scaled(fractions: NDArray[np.object_], scale: int) -> Integers:
    return objects([fmpz(int(f * scale)) for f in fractions.ravel()], fractions.shape)


def _asymptote(end: Asymptote) -> tuple[Fraction, Fraction]:
    return Fraction(end.slope), Fraction(end.intercept)


def _of_pair(pair: Integers, denominator: Any, device: torch.device) -> Rational:
    return Rational(pair.reshape(-1, *pair.shape[2:]), denominator, device)


def _plus(value: Rational, offset: Tensor | float) -> Rational:
    """Add a constant to the intercepts."""
    constant = np.asarray(offset.double().cpu() if isinstance(offset, Tensor) else float(offset))
    if constant.ndim == len(value.shape) and len(constant) != 1:
        constant = constant[len(constant) // 2 :]
    numerators, denominator = as_integers(constant.ravel())
    common = denominator.lcm(value.denominator)
    pair = value.pair * (common / value.denominator)
    pair[1] = pair[1] + numerators.reshape(constant.shape) * (common / denominator)
    return _of_pair(pair, common, value.device)


def walk_exactly(
    program: Program,
    constants: Mapping[str, Tensor],
    pair: Tensor,
    matrices: dict[tuple[int, int], Matrix],
    budget: ExactBudget,
) -> tuple[Rational, RationalDomain, Tensor]:
    """Follow rays through a program in rational arithmetic.

    Args:
        program: The network.
        constants: Its weights.
        pair: ``(2 * rays, *input)``: directions, then origins.
        matrices: Filled on the first walk, reused by later ones of the same network.
        budget: Runs out on networks that are too large.

    Returns:
        The germs, the domain with what it noted, and ``(rays,)`` whether a ray is undecided.

    Raises:
        BudgetSpent: If the budget runs out.
        NotRational: If a smooth function has no rational value.
    """
    budget.check()
    domain = RationalDomain(len(pair) // 2, matrices, budget)
    start = exact(pair.double().cpu().numpy(), pair.device)
    if approached_jump(program, constants) is None:
        settled = torch.zeros(domain.rays, dtype=torch.bool, device=pair.device)
        return walk(program, domain, start, constants), domain, settled
    sides = SideDomain(domain, pair.device)
    out = walk(program, sides, sides.exactly(start), constants)
    return out.value, domain, sides.undecided
