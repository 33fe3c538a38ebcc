"""Rules for sorted values: sort, top-k, median, running maxima.

The k-th largest of several values is continuous and piecewise linear: only *which* value it is
changes. Sorting is done by comparing pairs in a fixed order (Batcher's odd-even merge sort): each
comparison is a largest and a smallest of two, and all comparisons of one stage are done at once.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from farfield.graph.rules import Affine, Domain, V, rule

aten = torch.ops.aten
Stage = tuple[tuple[int, int], ...]


@functools.lru_cache(maxsize=256)
def stages(count: int) -> tuple[Stage, ...]:
    """Which pairs of places to compare, stage by stage, to sort so many values upward.

    >>> stages(3)
    (((0, 1),), ((0, 2),), ((1, 2),))
    """
    found: list[Stage] = []
    width = 1
    while width < count:
        step = width
        while step >= 1:
            pairs = [
                (low, low + step)
                for start in range(step % width, count - step, 2 * step)
                for low in range(start, min(start + step, count - step))
                if low // (2 * width) == (low + step) // (2 * width)
            ]
            if pairs:
                found.append(tuple(pairs))
            step //= 2
        width *= 2
    return tuple(found)


def _sorted(domain: Domain[V], value: Any, dim: int) -> V:
    """Values along one dimension in rising order."""
    count = value.shape[dim]

    def pick(rows: Tensor, places: Sequence[int]) -> Tensor:
        return rows.index_select(dim, torch.tensor(places, device=rows.device))

    for stage in stages(count):
        lows, highs = ([pair[side] for pair in stage] for side in (0, 1))
        rest = [place for place in range(count) if place not in {*lows, *highs}]
        pairs = [
            domain.affine(Affine(functools.partial(pick, places=places)), value)
            for places in (lows, highs)
        ]
        parts = [domain.largest(pairs, -1), domain.largest(pairs, 1)]
        if rest:
            parts.append(domain.affine(Affine(functools.partial(pick, places=rest)), value))
        order = [*lows, *highs, *rest]
        back = [order.index(place) for place in range(count)]
        joined = Affine(lambda *each, back=back: pick(torch.cat(each, dim), back))
        value = domain.affine(joined, *parts)
    result: V = value
    return result


def _cut(domain: Domain[V], value: V, dim: int, places: Sequence[int]) -> V:
    def pick(rows: Tensor) -> Tensor:
        return rows.index_select(dim, torch.tensor(places, device=rows.device))

    return domain.affine(Affine(pick), value)


@rule(aten.sort.default, aten.sort.stable, kind="largest")
def sort(
    domain: Domain[V], value: Any, dim: int = -1, descending: bool = False, **_: Any
) -> tuple[V, None]:
    """The values in order (not their positions)."""
    found = _sorted(domain, value, dim)
    places = range(value.shape[dim])
    return (_cut(domain, found, dim, places[::-1]) if descending else found), None


def _in_order(
    _: Any, __: int, ___: int = -1, ____: bool = True, ordered: bool = True
) -> str | None:
    """Refuse to guess an order that the model leaves open."""
    return None if ordered else "returns values in no particular order; pass sorted=True"


@rule(aten.topk.default, kind="largest", refuse=_in_order)
def topk(
    domain: Domain[V], value: Any, k: int, dim: int = -1, largest: bool = True, *_: Any
) -> tuple[V, None]:
    """The largest or smallest values in order (not their positions)."""
    places = range(value.shape[dim])
    chosen = places[::-1][:k] if largest else places[:k]
    return _cut(domain, _sorted(domain, value, dim), dim, chosen), None


def _one(domain: Domain[V], value: Any, dim: int, keepdim: bool, place: int) -> tuple[V, None]:
    found = _cut(domain, _sorted(domain, value, dim), dim, [place])
    if keepdim:
        return found, None
    return domain.affine(Affine(lambda rows: rows.squeeze(dim)), found), None


@rule(aten.kthvalue.default, kind="largest")
def kthvalue(
    domain: Domain[V], value: Any, k: int, dim: int = -1, keepdim: bool = False
) -> tuple[V, None]:
    """The k-th smallest value (not its position)."""
    return _one(domain, value, dim, keepdim, k - 1)


@rule(aten.median.dim, aten.nanmedian.dim, kind="largest")
def median(domain: Domain[V], value: Any, dim: int, keepdim: bool = False) -> tuple[V, None]:
    """The lower of the middle values (not its position)."""
    return _one(domain, value, dim, keepdim, (value.shape[dim] - 1) // 2)


def _running(domain: Domain[V], value: Any, dim: int, sign: int) -> V:
    """The extreme of all values so far: of pairs, of fours, of eights and so on."""
    count, step = value.shape[dim], 1
    while step < count:
        head, *ends = (
            domain.affine(Affine(lambda t, s=start, n=size: t.narrow(dim, s, n)), value)
            for start, size in ((0, step), (0, count - step), (step, count - step))
        )
        joined = Affine(lambda *parts: torch.cat(parts, dim))
        value = domain.affine(joined, head, domain.largest(ends, sign))
        step *= 2
    result: V = value
    return result


@rule(aten.cummax.default, kind="largest")
def cummax(domain: Domain[V], value: V, dim: int) -> tuple[V, None]:
    """The largest value so far (not its position)."""
    return _running(domain, value, dim, 1), None


@rule(aten.cummin.default, kind="largest")
def cummin(domain: Domain[V], value: V, dim: int) -> tuple[V, None]:
    """The smallest value so far (not its position)."""
    return _running(domain, value, dim, -1), None


WITH_ORDER = frozenset(
    {
        aten.sort.default,
        aten.sort.stable,
        aten.topk.default,
        aten.kthvalue.default,
        aten.median.dim,
        aten.nanmedian.dim,
        aten.cummax.default,
        aten.cummin.default,
    }
)
