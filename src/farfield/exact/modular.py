"""Floats modulo primes: whole numbers over powers of two, which every odd prime can divide by."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from flint import fmpz
from torch import Tensor


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
