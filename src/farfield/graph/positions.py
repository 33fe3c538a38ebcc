"""Positions of largest values, and what is picked or put by positions that depend on the input.

Which of several values is the largest is decided once and for all far out: from there on its
position is a whole number at rest. Ties are decided as PyTorch decides them where it says how: the
first of several largest values counts. What top-k makes of ties is open, so these are marked. A
position then picks by choices: ``value[k]`` where the position is ``k``, for every ``k``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from farfield.graph.affine import SUBTRACT
from farfield.graph.growth import Power, Product
from farfield.graph.placing import among
from farfield.graph.products import scaled
from farfield.graph.rowwise import row_dimensions
from farfield.graph.rules import Affine, Domain, Pieces, V, rule

# How many places there may be to choose from, one after another; or all pairs of them at once.
MOST_PLACES, MOST_COMPARED = 256, 64
# 1 above 0, and 0 at it and below.
STEP = Pieces((0.0,), (0.0, 0.0), (0.0, 1.0))
# 1 at 0, and 0 at every other whole number; it jumps where no rounding gets to.
AT_ZERO = Pieces((-0.5, 0.5), (0.0, 0.0, 0.0), (0.0, 1.0, 0.0))


def place_of_largest(rows: Tensor, dim: int, keepdim: bool = False, sign: int = 1) -> Tensor:
    """The position of the first largest value; of the smallest where ``sign`` is -1."""
    found = rows.argmax(dim, keepdim) if sign > 0 else rows.argmin(dim, keepdim)
    return found.to(rows.dtype).masked_fill(rows.isnan().any(dim, keepdim), torch.nan)


def places_in_order(rows: Tensor, count: int, dim: int, sign: int = 1) -> Tensor:
    """The positions of the largest values in falling order; of the smallest in rising order."""
    found = torch.topk(rows, count, dim, sign > 0).indices.to(rows.dtype)
    return found.masked_fill(rows.isnan().any(dim, True), torch.nan)


def take_at(rows: Tensor, dim: int, index: Tensor) -> Tensor:
    """``gather`` by positions that are told as numbers."""
    unknown = index.isnan()
    found = rows.gather(dim, index.masked_fill(unknown, 0).round().long())
    return found.masked_fill(unknown, torch.nan)


def put_at(rows: Tensor, dim: int, index: Tensor, source: Tensor | float) -> Tensor:
    """``scatter`` by positions that are told as numbers."""
    unknown = index.isnan()
    places = index.masked_fill(unknown, 0).round().long()
    made = (
        rows.scatter(dim, places, source.to(rows))
        if isinstance(source, Tensor)
        else rows.scatter(dim, places, source)
    )
    return made.masked_fill(unknown.any(dim, True), torch.nan)


def _part(domain: Domain[V], value: V, dim: int, places: Sequence[int]) -> V:
    """Some of the values along a dimension."""

    def pick(rows: Tensor) -> Tensor:
        return rows.index_select(dim, torch.tensor(places, device=rows.device))

    return domain.affine(Affine(pick), value)


def _along(dim: int, count: int, like: Any) -> Tensor:
    """0, 1, 2 and so on along one of as many dimensions as another value has."""
    shape = [count if place == dim else 1 for place in range(len(like.shape))]
    numbers = torch.arange(count, device=like.device).to(like.new_zeros(()))
    return numbers.reshape(shape)


def _is(domain: Domain[V], position: V, number: Tensor | float) -> V:
    """1 where a position is a number, else 0."""
    away = domain.affine(Affine(lambda rows: rows, offset=-number, terms=1), position)
    return domain.piecewise(away, AT_ZERO)


@rule(place_of_largest, kind="choice")
def _place_of_largest(
    domain: Domain[V], value: Any, dim: int, keepdim: bool = False, sign: int = 1
) -> V:
    """The position of the first largest value: neighbours are compared, then the winners."""
    dim = dim % len(value.shape)
    blank = value.new_zeros((1,) * row_dimensions(value) + value.shape[row_dimensions(value) :])
    places: Any = among(domain, blank + _along(dim, value.shape[dim], value), value)
    while (length := value.shape[dim]) > 1:
        sides = [range(start, length - length % 2, 2) for start in (0, 1)]
        pair = [_part(domain, value, dim, side) for side in sides]
        ahead = domain.piecewise(domain.affine(SUBTRACT, *pair[::-sign]), STEP)
        value, places = (
            _winners(domain, item, dim, ahead, range(2 * (length // 2), length))
            for item in (value, places)
        )
    found: V = places
    return found if keepdim else domain.affine(Affine(lambda rows: rows.squeeze(dim)), found)


def _winners(domain: Domain[V], item: Any, dim: int, ahead: V, rest: Sequence[int]) -> V:
    """The better of all neighbours, and who has none."""
    even = item.shape[dim] - len(rest)
    first, second = (_part(domain, item, dim, range(start, even, 2)) for start in (0, 1))
    better = domain.choice(ahead, second, first)
    if not rest:
        return better
    joined = Affine(lambda *parts: torch.cat(parts, dim))
    return domain.affine(joined, better, _part(domain, item, dim, rest))


@rule(places_in_order, kind="growth")
def _places_in_order(domain: Domain[V], value: Any, count: int, dim: int, sign: int = 1) -> V:
    """The positions of the largest values: those that fewest exceed; ties are marked."""
    dim = dim % len(value.shape)
    length = value.shape[dim]

    def repeated(new: int) -> V:
        sizes = [length if place == new else -1 for place in range(len(value.shape) + 1)]
        return domain.affine(Affine(lambda rows: rows.unsqueeze(new).expand(sizes)), value)

    # Whether each of the values is exceeded by each other one; by itself it is not.
    pair = [repeated(dim), repeated(dim + 1)]
    shape = [length if place in (dim, dim + 1) else 1 for place in range(len(value.shape) + 1)]
    others = (1 - torch.eye(length, dtype=torch.float64, device=value.device)).reshape(shape)
    apart = scaled(domain, domain.affine(SUBTRACT, *pair[::sign]), others)
    exceeded = domain.piecewise(apart, STEP)
    rank = domain.affine(Affine(lambda rows: rows.sum(dim + 1), terms=length), exceeded)
    total = domain.affine(Affine(lambda rows: rows.sum(dim, True), terms=length), rank)
    # One over zero where two are equal: of such an order no limit is known.
    decided = domain.grow(Power(Fraction(-1)), _is(domain, total, length * (length - 1) / 2))
    weigh = Affine(
        lambda rows, numbers: (rows * numbers).sum(dim, True),
        (_along(dim, length, value),),
        terms=length,
    )
    found = [domain.affine(weigh, _is(domain, rank, float(place))) for place in range(count)]
    joined = domain.affine(Affine(lambda *parts: torch.cat(parts, dim)), *found)
    return domain.grow(Product(torch.mul), joined, decided)


@rule(take_at, kind="choice", data=(0, 2), together=True)
def _take_at(domain: Domain[V], value: Any, dim: int, index: Any) -> V:
    """The value at each position, by one choice for each place."""
    dim = dim % len(index.shape)
    value = among(domain, value, index)
    found: V = _spread(domain, value, dim, 0, index)
    for place in range(1, value.shape[dim]):
        here = _is(domain, index, float(place))
        found = domain.choice(here, _spread(domain, value, dim, place, index), found)
    return found


def _spread(domain: Domain[V], value: V, dim: int, place: int, like: Any) -> V:
    """The values at one place, in the shape of others."""
    lead = row_dimensions(like)

    def spread(rows: Tensor) -> Tensor:
        rows = rows.narrow(dim, place, 1)
        for other in range(lead, rows.ndim):
            if other != dim:
                rows = rows.narrow(other, 0, like.shape[other])
        return rows.expand([like.shape[dim] if each == dim else -1 for each in range(rows.ndim)])

    return domain.affine(Affine(spread), value)


@rule(put_at, kind="choice", data=(0, 2, 3), together=True)
def _put_at(domain: Domain[V], base: Any, dim: int, index: Any, source: Any) -> V:
    """Values put at positions, by one choice for each of them."""
    dim = dim % len(index.shape)
    if isinstance(source, (int, float)):
        source = index.new_zeros((1,) * len(index.shape)).expand(index.shape) + source
    found: V = among(domain, base, index)
    source = among(domain, source, index)
    for place in range(index.shape[dim]):
        position = _spread(domain, index, dim, place, found)
        here = _is(domain, position, _along(dim, base.shape[dim], index))
        found = domain.choice(here, _spread(domain, source, dim, place, found), found)
    return found
