"""Proofs that numbers of a network are zero, by residues modulo primes.

Weights and rays are floats, so every number of a walk is a whole number over a known power of
two (and over the counts of means). A whole number of at most ``B`` that is divisible by primes
whose product exceeds ``B`` is zero. The walk modulo one prime is an ordinary walk in floats:
residues of about 22 bits, whose products sum up exactly in matrix products and convolutions. So a
tie, which no precision decides, costs a walk for every 22 bits that its numbers have, and nothing
is left to chance.

Decisions cannot be read off residues. They are replayed from another walk
(:mod:`farfield.exact.ties`), which says what it took to be zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import torch
from flint import fmpz
from torch import Tensor

from farfield.exact.germ import Parts
from farfield.exact.matrix import ExactBudget
from farfield.exact.piecewise import OnlyPieces
from farfield.graph.rules import Affine, Number, Pieces, Places


class NoResidue(Exception):  # noqa: N818 - control flow inside the package
    """An operation of the network cannot be done modulo a prime."""


class LastTie(Exception):  # noqa: N818 - control flow inside the package
    """Nothing that comes later was taken to be zero."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """What one decision took to be zero, and what it decided.

    Attributes:
        zeros: For each threshold or candidate, which numbers of the difference to it, slopes
            first, were taken to be zero; ``None`` for none.
        size: No number among them exceeds this.
        choice: The piece, or the candidate, of each germ.
        watched: For some thresholds or candidates, ``(2, numbers)``: rays and units of which the
            difference to it is asked for.
    """

    zeros: tuple[Tensor | None, ...]
    size: float
    choice: Tensor
    watched: Mapping[int, Tensor] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether nothing was taken to be zero, and nothing is asked for."""
        return not self.watched and all(each is None for each in self.zeros)


@dataclass(frozen=True, slots=True)
class Residue(Parts):
    """Numbers modulo a prime: multiples of ``2**-bits / odd``."""

    bits: int
    odd: int


class ResidueDomain(OnlyPieces[Residue]):
    """The walk at infinity modulo a prime, with the decisions of another walk.

    Attributes:
        holds: ``(rays,)`` whether all that was taken to be zero is divisible by the prime.
        needed: How many bits the product of all primes must have.
        seen: Slopes and intercepts that were asked for, ``(2, numbers)`` each.
        finest: The finest bits of weights that last, by their identity.
    """

    def __init__(
        self,
        rays: int,
        prime: int,
        assumed: Sequence[Assumed],
        device: torch.device,
        finest: Mapping[int, int] | None = None,
    ) -> None:
        self.rays = rays
        self.prime = prime
        self.finest = finest or {}
        self.left = list(assumed)
        while self.left and self.left[-1].empty:
            self.left.pop()
        self.holds = torch.ones(rays, dtype=torch.bool, device=device)
        self.needed = 0.0
        self.seen: list[Residue] = []

    def read(self, tensor: Tensor) -> Residue:
        """Floats as residues."""
        values = tensor.double()
        bits = self.finest.get(id(tensor))
        bits = finest_bit(values) if bits is None else bits
        return Residue(residues(values, self.prime), bits, 1)

    def sums(self, *terms: tuple[Tensor, Tensor]) -> Residue:
        """``(n, *row)`` sums of ``(n,)`` factors times ``(1, *row)`` rows."""
        rows, bits = torch.zeros((), dtype=torch.float64, device=self.holds.device), 0
        for factor, row in terms:
            factors, values = self.read(factor), self.read(row)
            shape = (-1, *[1] * (row.ndim - 1))
            product = self.reduced(factors.parts.reshape(shape) * values.parts)
            rows = self.reduced(rows + product)
            bits = max(bits, factors.bits + values.bits)
        return Residue(rows, bits, 1)

    def germs(self, slope: Residue, intercept: Residue) -> Residue:
        """Put slopes and intercepts into one value."""
        rows = torch.broadcast_tensors(slope.parts, intercept.parts)
        return Residue(torch.cat(rows), max(slope.bits, intercept.bits), 1)

    def constant(self, tensor: Tensor) -> Residue:
        """A constant: no slope."""
        values = tensor.double().clone()
        values[: len(values) // 2] = 0
        return self.read(values)

    def affine(self, operation: Affine, *values: Residue) -> Residue:
        """Apply the map to residues, and reduce."""
        result = self._linear(operation, values)
        if operation.offset is None:
            return result
        half = len(result.parts) // 2
        offset = torch.as_tensor(operation.offset, dtype=torch.float64, device=result.device)
        if offset.ndim == result.parts.ndim and len(offset) != 1:
            offset = offset[half:]
        constant = self.read(offset)
        rows = result.parts.clone()
        rows[half:] += constant.parts
        return Residue(self.reduced(rows), max(result.bits, constant.bits), result.odd)

    def _linear(self, operation: Affine, values: Sequence[Residue]) -> Residue:
        given = [value.parts for value in values]
        bits, odd = max(v.bits for v in values), math.lcm(*(v.odd for v in values))
        if len(operation.weights) == len(values) == 1:
            weight = self.read(operation.weights[0])
            product = operation.function(given[0], weight.parts)
            return Residue(self.reduced(product), bits + weight.bits, odd)
        if operation.weights:
            raise NoResidue("products of several weights are rounded by the operation itself")
        if operation.terms <= 1 or operation.adds:
            return Residue(self.reduced(operation.function(*given)), bits, odd)
        if operation.divisor is None:
            raise NoResidue("the operation hides its coefficients")
        sums = torch.round(operation.function(*given) * operation.divisor)
        return self._times(Residue(self.reduced(sums), bits, odd), Fraction(1, operation.divisor))

    def _times(self, value: Residue, factor: Fraction) -> Residue:
        """Multiply by a fraction."""
        number = self._number(factor)
        twos = twos_in(factor.denominator)
        rows = self.reduced(value.parts * number)
        return Residue(rows, value.bits + twos, value.odd * (factor.denominator >> twos))

    def _number(self, number: Number) -> float:
        fraction = Fraction(number)
        residue = fraction.numerator * pow(fraction.denominator, -1, self.prime) % self.prime
        return float(residue - self.prime if 2 * residue > self.prime else residue)

    def piecewise(self, value: Residue, pieces: Pieces) -> Residue:
        """Take the pieces that the other walk took."""
        noted = self._next()
        for place, threshold in enumerate(pieces.thresholds):
            if noted.zeros[place] is not None or place in noted.watched:
                self._look(self._below(value, threshold), noted, place)
        factors = [self._read_slope(slope) for slope in pieces.slopes]
        offsets = [self._number(offset) for offset in pieces.intercepts]
        factor, offset = factors[0][0], torch.tensor(offsets[0], dtype=torch.float64)
        for place in range(1, len(factors)):
            here = noted.choice == place
            factor = torch.where(here, factors[place][0], factor)
            offset = torch.where(here, offsets[place], offset)
        pair = value.parts.unflatten(0, (2, -1)) * factor
        pair[1] += offset
        parts = [Fraction(offset) for offset in pieces.intercepts]
        odd = math.lcm(*(odd_part(part.denominator) for part in parts))
        fine = max(twos_in(part.denominator) for part in parts)
        self._end()
        return Residue(
            self.reduced(pair.flatten(0, 1)),
            max(value.bits + max(bits for _, bits, _ in factors), fine),
            math.lcm(value.odd * math.lcm(*(other for _, _, other in factors)), odd),
        )

    def _read_slope(self, slope: Number | Tensor) -> tuple[Tensor, int, int]:
        """A slope as a residue, its bits and its odd denominator."""
        if isinstance(slope, Tensor):
            read = self.read(slope)
            return read.parts, read.bits, 1
        denominator = Fraction(slope).denominator
        number = torch.tensor(self._number(slope), dtype=torch.float64)
        return number, twos_in(denominator), odd_part(denominator)

    def _below(self, value: Residue, threshold: Number) -> Residue:
        """A value less a constant."""
        rows = value.parts.clone()
        rows[self.rays :] -= self._number(threshold)
        denominator = Fraction(threshold).denominator
        bits = max(value.bits, twos_in(denominator))
        return Residue(self.reduced(rows), bits, math.lcm(value.odd, odd_part(denominator)))

    def largest(
        self, candidates: Sequence[Residue], sign: int = 1, places: Places | None = None
    ) -> Residue:
        """Take the candidates that the other walk took."""
        noted = self._next()
        best = candidates[0].parts
        both = noted.choice.repeat(2, *[1] * (noted.choice.ndim - 1))
        for place, candidate in enumerate(candidates):
            best = torch.where(both == place, candidate.parts, best)
        bits = max(candidate.bits for candidate in candidates)
        odd = math.lcm(*(candidate.odd for candidate in candidates))
        for place, candidate in enumerate(candidates):
            if noted.zeros[place] is not None or place in noted.watched:
                gap = Residue(self.reduced(best - candidate.parts), bits, odd)
                self._look(gap, noted, place)
        self._end()
        return Residue(best, bits, odd)

    def check_last(self, differences: Tensor, out: Residue) -> None:
        """Look at differences of logits, which are ``(2 * rays, classes)``."""
        self._look(Residue(self.reduced(differences), out.bits, out.odd), self._next(), 0)

    def _look(self, value: Residue, noted: Assumed, place: int) -> None:
        """Check what was taken to be zero, and keep what is asked for."""
        zeros = noted.zeros[place]
        if zeros is not None:
            self._check(value, zeros, noted.size)
        if place in noted.watched:
            rays, units = noted.watched[place]
            numbers = value.parts.reshape(2, self.rays, -1)[:, rays, units]
            self.seen.append(Residue(numbers, value.bits, value.odd))

    def _check(self, value: Residue, zeros: Tensor, size: float) -> None:
        """Look whether what was taken to be zero is divisible by the prime."""
        wrong = (zeros & (value.parts != 0)).reshape(2, self.rays, -1).any(dim=2).any(dim=0)
        self.holds = self.holds & ~wrong
        bits = value.bits + math.log2(value.odd) + math.log2(size) + 2
        self.needed = max(self.needed, bits)

    def _next(self) -> Assumed:
        if not self.left:
            raise LastTie
        return self.left.pop(0)

    def _end(self) -> None:
        if not self.left:
            raise LastTie

    def reduced(self, rows: Tensor) -> Tensor:
        """Numbers below ``2**53`` modulo the prime, about zero."""
        return rows - torch.round(rows / self.prime) * self.prime

    def refused(self, what: str) -> Exception:
        """What has no residues is decided elsewhere."""
        return NoResidue(what)


# Where a walk begins, modulo the prime of a domain.
Start = Callable[[ResidueDomain], Residue]


def proven_zero(
    walked: Callable[[int], tuple[Tensor, float]],
    terms: int,
    budget: ExactBudget,
    most: float = math.inf,
) -> Tensor:
    """Which claims that numbers are zero are true.

    Args:
        walked: Tells which claims hold modulo a prime, and how many bits the product of all
            primes must have.
        terms: The most products that are summed anywhere.
        budget: Checked before every walk.
        most: More bits than these are not tried, and nothing is proven.
    """
    holds, bits = torch.ones((), dtype=torch.bool), 0.0
    for prime in primes_for(terms):
        budget.check()
        found, needed = walked(prime)
        holds = holds.to(found.device) & found
        bits += math.log2(prime)
        if bits > needed or not bool(holds.any()):
            return holds
        if needed > most:
            break
    return torch.zeros_like(holds)


def residues(values: Tensor, prime: int) -> Tensor:
    """Floats modulo a prime, about zero.

    >>> residues(torch.tensor([0.5, -3.0, 2.0**-1074], dtype=torch.float64), 7).tolist()
    [-3.0, -3.0, 1.0]
    """
    mantissa, exponent = torch.frexp(values)
    whole = torch.remainder((mantissa * 2.0**53).to(torch.int64), prime)
    least, most = (int(each) for each in torch.aminmax(exponent)) if values.numel() else (0, 0)
    powers = [pow(2, each - 53, prime) for each in range(least, most + 1)]
    table = torch.tensor(powers, dtype=torch.int64, device=values.device)
    found = torch.remainder(whole * table[(exponent - least).to(torch.int64)], prime)
    return torch.where(2 * found > prime, found - prime, found).double()


def finest_bit(values: Tensor) -> int:
    """The least ``b`` of which all numbers are multiples of ``2**-b``; at least 0.

    >>> finest_bit(torch.tensor([0.75, 3.0], dtype=torch.float64))
    2
    """
    mantissa, exponent = torch.frexp(values[values != 0])
    if not mantissa.numel():
        return 0
    whole = (mantissa * 2.0**53).to(torch.int64)
    last = exponent - 53 + torch.log2((whole & -whole).double()).to(torch.int64)
    return max(0, -int(last.min()))


def finest_bits(constants: Mapping[str, Tensor]) -> dict[int, int]:
    """The finest bit of every weight, by its identity."""
    return {id(tensor): finest_bit(tensor.double()) for tensor in constants.values()}


def primes_for(terms: int) -> Iterator[int]:
    """Primes, the largest first, of which sums of so many products of residues are exact."""
    number = 2 * math.isqrt(2**53 // max(terms, 4)) - 5
    while number > 3:
        if fmpz(number).is_prime():
            yield number
        number -= 2


def twos_in(number: int) -> int:
    """How often two divides a whole number."""
    return (number & -number).bit_length() - 1


def odd_part(number: int) -> int:
    """What is left of a whole number without its twos."""
    return number >> twos_in(number)
