"""Numbers as sums of several floats, and products of them that ordinary kernels compute exactly.

A number is kept as ``c_0 + c_1 + ...``, not added up, each float about ``2**53`` times smaller than
the one before. Sums are free of error by Knuth's two-sum. Products are cut into *slices*: multiples
of a common power of two so large that ``n`` products of two slices and their sum fit into the 53
bits of a float. Matrix products and convolutions of slices are then exact in whatever order they
are summed, at the speed of ordinary ones (Ozaki, Ogita, Oishi, Rump: *Error-free transformations of
matrix multiplication by using fast routines of matrix multiplication*, 2012).

With ``k`` slices of ``b`` bits only products of what is left, ``2**-(b + 1) k`` times smaller, are
rounded: ``k (k + 1) / 2`` exact products and ``k + 1`` others give an error of about
``2**-(53 + (b + 1) k)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

ROUNDOFF = 2.0**-53
# Adding 1.5 * 2**52 grids to a number rounds it to a multiple of the grid.
TO_GRID = 1.5 * 2.0**52
# Cuts a float into two halves of 26 bits (Dekker).
HALVES = 2.0**27 + 1

# Rows and factors beyond these would leave the range of floats somewhere behind their slices.
LARGEST, SMALLEST, LEAST_FACTOR = 2.0**300, 2.0**-200, 2.0**-300
# Slices of weights that have no more numbers than this in all are kept.
KEPT = 1 << 20

Slices = tuple[Tensor, ...]
Linear = Callable[..., Tensor]


def two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """A rounded sum and its error, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)).add_(b - part)


def two_product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """A rounded product and its error, exactly (Dekker)."""
    product = a * b
    (high, low), (top, rest) = _halves(a), _halves(b)
    return product, low * rest - (((product - high * top) - low * top) - high * rest)


def _halves(a: Tensor) -> tuple[Tensor, Tensor]:
    scaled = a * HALVES
    high = scaled - (scaled - a)
    return high, a - high


def add_up(terms: Sequence[Tensor], count: int) -> Slices:
    """Add floats into ``count`` floats; see :func:`sum_error` for how far off that may be.

    >>> one, small = torch.ones((), dtype=torch.float64), torch.tensor(2.0**-80).double()
    >>> [float(part) for part in add_up([one, small, -one], 2)]
    [8.271806125530277e-25, 0.0]
    """
    sums = [terms[0]]
    for term in terms[1:]:
        rest = term
        for place, old in enumerate(sums):
            if place == count - 1:
                sums[place] = old + rest
                break
            sums[place], rest = two_sum(old, rest)
        else:
            sums.append(rest)
    return normalised(sums)


def sum_error(terms: int, count: int) -> float:
    """A bound on the error of :func:`add_up`, relative to the sum of the sizes of its terms.

    The last float takes at most ``terms`` remainders of ``ROUNDOFF ** (count - 1)`` each, and is
    rounded as often.
    """
    return 2 * terms**2 * ROUNDOFF**count


def normalised(parts: Sequence[Tensor], turns: int = 2) -> Slices:
    """Move everything into the first float that fits, without error."""
    found = list(parts)
    for _ in range(min(len(found) - 1, turns)):
        for place in range(len(found) - 1, 0, -1):
            found[place - 1], found[place] = two_sum(found[place - 1], found[place])
    return tuple(found)


def out_of_range(sizes: Tensor) -> Tensor:
    """Which sizes, not being zero, are too small or too large for factors of what is cut."""
    return (sizes > LARGEST) | ((sizes > 0) & (sizes < LEAST_FACTOR))


def row_tops(leading: Tensor) -> Tensor:
    """``(rows, 1, ...)`` powers of two that no float of a row exceeds; 1 for rows of zeros."""
    most = leading.abs().reshape(len(leading), -1).amax(dim=1)
    exponent = torch.frexp(most).exponent
    tops = torch.ldexp(torch.ones_like(most), torch.where(most == 0, 0, exponent))
    return tops.reshape(-1, *[1] * (leading.ndim - 1))


def cut(parts: Slices, tops: Tensor | float, bits: int, count: int) -> tuple[Slices, Slices]:
    """Cut numbers of at most ``tops`` into slices, and what is left before and after each.

    Slice ``j`` is a multiple of ``tops * 2**(1 - j (bits + 1))``, at most ``2**bits`` of them; what
    is left behind it is at most half of that. Rests are given by their first floats.
    """
    slices, rests, left = [], [parts[0]], list(parts)
    grid = tops * 2.0**-bits
    for _ in range(count):
        shift = grid * TO_GRID
        slices.append((left[0] + shift) - shift)
        left[0] = left[0] - slices[-1]
        left = list(normalised(left, 1))
        rests.append(left[0])
        grid = grid * 2.0 ** -(bits + 1)
    return tuple(slices), tuple(rests)


def slice_bits(products: int) -> int:
    """How many bits slices may have so that sums of so many products are exact."""
    return (53 - math.ceil(math.log2(max(products, 1)))) // 2


@dataclass(frozen=True, slots=True)
class SlicedWeight:
    """A weight that an operation multiplies in slices.

    Attributes:
        function: The operation, linear in its data and in its weight.
        weight: The weight.
        top: A power of two that no entry exceeds.
        sizes: ``(1, *output)`` the sum of the sizes that meet in an output.
        bits: How many bits slices have.
        terms: How many products are summed into one output.
        usable: Whether no entry is too small or too large to be cut.
        kept: Slices of small weights, by how many there are.
    """

    function: Linear
    weight: Tensor
    top: float
    sizes: Tensor
    bits: int
    terms: int
    usable: bool
    kept: dict[int, tuple[Slices, Tensor]]

    @classmethod
    def of(
        cls, function: Linear, weight: Tensor, row: Sequence[int], terms: int, most: int
    ) -> SlicedWeight:
        """Take a weight for an operation on rows of a shape, to be cut at most so often."""
        weight = weight.double()
        sizes = weight.abs()
        top = 2.0 ** math.frexp(float(sizes.max()))[1] if weight.numel() else 1.0
        ones = torch.ones(1, *row, dtype=torch.float64, device=weight.device)
        found = function(ones, sizes)
        usable = not bool(out_of_range(sizes).any())
        return cls(function, weight, top, found, slice_bits(terms * most), terms, usable, {})

    def floats(self, count: int) -> int:
        """How many floats hold what ``count`` slices leave exact."""
        return 1 + math.ceil((self.bits + 1) * count / 53)

    def fresh_error(self, count: int) -> Tensor:
        """``(1, *output)``: how far off :meth:`apply` may be for data of at most 1.

        Rounded are products of the first slice and the last rest, and so on: each at most
        ``2**-(bits + 1) count`` of the largest weight, and the first of the weights themselves.
        """
        n = self.terms + count + 16
        rounded = n * ROUNDOFF / (1 - n * ROUNDOFF) * 2.0 ** (-(self.bits + 1) * count)
        added = sum_error(count + 1, self.floats(count)) * 4
        rest = rounded * count * self.terms * self.top * 2
        return (self.sizes * (2 * rounded + added) + rest) * (1 + 2.0**-30)

    def apply(self, parts: Slices, tops: Tensor, count: int) -> Slices:
        """Multiply, exactly but for what is left behind ``count`` slices of both."""
        slices, rests = cut(parts, tops, self.bits, count)
        weights, last = self._cut(count)
        levels: list[Tensor | None] = [None] * count
        plain = self.function(rests[0], last)
        for place, weight in enumerate(weights):
            plain = plain.add_(self.function(rests[count - place], weight))
            for other in range(count - place):
                product = self.function(slices[other], weight)
                level = levels[place + other]
                levels[place + other] = product if level is None else level.add_(product)
        exact = [level for level in levels if level is not None]
        return add_up([*exact, plain], self.floats(count))

    def _cut(self, count: int) -> tuple[Slices, Tensor]:
        """The weight's slices and what is left of it."""
        if count in self.kept:
            return self.kept[count]
        slices, rests = cut((self.weight,), self.top, self.bits, count)
        found = (slices, rests[count])
        if self.weight.numel() * (count + 1) <= KEPT:
            self.kept[count] = found
        return found
