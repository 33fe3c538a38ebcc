"""Rules for maxima and minima: over windows, over dimensions, of two values.

Each is reduced to the same thing, the largest of a list of candidates of equal shape. A window
that hangs over the edge repeats one of its own elements there: a repeated candidate never changes
a maximum, so no padding with infinities is needed.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from farfield.graph.affine import spread_over
from farfield.graph.rules import Affine, Domain, Rule, V, register, rule

aten = torch.ops.aten
Positions = list[int]


def per_dimension(value: int | Sequence[int], dims: int) -> list[int]:
    """One number for each dimension, where one may stand for all."""
    items = [value] if isinstance(value, int) else list(value)
    return items * dims if len(items) == 1 else items


def window_positions(
    length: int,
    kernel: int,
    stride: int,
    padding: int,
    dilation: int,
    ceil_mode: bool,
    around: tuple[int, int] = (0, 0),
) -> list[Positions]:
    """List, for each place in the window, which element each output looks at.

    Places outside ``range(length)`` are replaced by the nearest place of the same window inside.
    ``around`` is padding with minus infinity before and after, beyond that of the pool itself.

    Raises:
        ValueError: If a window lies outside altogether.

    >>> window_positions(4, kernel=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    [[0, 2], [1, 3]]
    >>> window_positions(3, kernel=3, stride=2, padding=1, dilation=1, ceil_mode=False)
    [[0, 1], [0, 2], [1, 2]]
    """
    span = dilation * (kernel - 1) + 1
    padded = length + sum(around)
    room = padded + 2 * padding - span
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    if ceil_mode and (count - 1) * stride >= padded + padding:
        count -= 1
    starts = [i * stride - padding - around[0] for i in range(count)]
    table: list[Positions] = [[] for _ in range(kernel)]
    for start in starts:
        first = -(start // dilation) if start < 0 else 0
        last = min((length - 1 - start) // dilation, kernel - 1)
        if first > last:
            raise ValueError(f"a window of {kernel} places from {start} on lies outside the input")
        for place, row in enumerate(table):
            row.append(start + dilation * min(max(place, first), last))
    return table


def adaptive_positions(length: int, output: int) -> list[Positions]:
    """The same for adaptive pooling: output ``o`` sees ``o * length / output`` and what follows.

    >>> adaptive_positions(5, 2)
    [[0, 2], [1, 3], [2, 4]]
    """
    starts = [o * length // output for o in range(output)]
    ends = [-(-(o + 1) * length // output) for o in range(output)]
    size = max(end - start for start, end in zip(starts, ends, strict=True))
    return [
        [min(start + place, end - 1) for start, end in zip(starts, ends, strict=True)]
        for place in range(size)
    ]


def _take(rows: Tensor, dim: int, positions: Positions) -> Tensor:
    """Pick positions along a dimension: a view where they are evenly spaced, a copy elsewhere."""
    first, count = positions[0], len(positions)
    step = positions[1] - first if count > 1 else 1
    if step > 0 and positions == list(range(first, first + step * count, step)):
        return rows[(slice(None),) * (dim % rows.ndim) + (slice(first, positions[-1] + 1, step),)]
    return rows.index_select(dim, torch.tensor(positions, device=rows.device))


def pool(domain: Domain[V], value: Any, tables: Sequence[list[Positions]]) -> V:
    """The largest of the elements at the positions that each dimension's table lists."""
    dims = len(tables)
    windows = list(itertools.product(*tables))

    def pick(rows: Tensor, window: tuple[Positions, ...]) -> Tensor:
        for axis, positions in enumerate(window):
            rows = _take(rows, axis - dims, positions)
        return rows

    def places() -> list[Tensor]:
        row = value.shape[1:]
        index = torch.arange(math.prod(row), device=value.device).reshape(1, *row)
        return [pick(index, window) for window in windows]

    repeats = any(
        len(set(column)) < len(table) for table in tables for column in zip(*table, strict=True)
    )
    candidates = [
        domain.affine(Affine(functools.partial(pick, window=window)), value) for window in windows
    ]
    return domain.largest(candidates, 1, places if repeats else None)


def _max_pool(target: Any, dims: int, pair: bool) -> None:
    def lower(
        domain: Domain[V],
        value: Any,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:
        sizes = per_dimension(kernel, dims)
        settings = zip(
            value.shape[-dims:],
            sizes,
            per_dimension(stride, dims) or sizes,
            per_dimension(padding, dims),
            per_dimension(dilation, dims),
            strict=True,
        )
        result = pool(domain, value, [window_positions(*each, ceil_mode) for each in settings])
        return (result, None) if pair else result

    register(target, Rule("largest", lower, "the largest in a window"))


def _adaptive_max_pool(target: Any, dims: int) -> None:
    def lower(domain: Domain[V], value: Any, output: Any) -> Any:
        sizes = per_dimension(output, dims)
        lengths = value.shape[-dims:]
        tables = [adaptive_positions(n, o) for n, o in zip(lengths, sizes, strict=True)]
        return pool(domain, value, tables), None

    register(target, Rule("largest", lower, "the largest in windows that fit the output"))


# How many dimensions each pools over.
MAX_POOLS: dict[Any, int] = {
    aten.max_pool1d.default: 1,
    aten.max_pool2d.default: 2,
    aten.max_pool3d.default: 3,
}
MAX_POOLS_WITH_POSITIONS: dict[Any, int] = {
    aten.max_pool1d_with_indices.default: 1,
    aten.max_pool2d_with_indices.default: 2,
    aten.max_pool3d_with_indices.default: 3,
}
for _target, _dims in MAX_POOLS.items():
    _max_pool(_target, _dims, pair=False)
for _target, _dims in MAX_POOLS_WITH_POSITIONS.items():
    _max_pool(_target, _dims, pair=True)
_adaptive_max_pool(aten.adaptive_max_pool1d.default, 1)
_adaptive_max_pool(aten.adaptive_max_pool2d.default, 2)
_adaptive_max_pool(aten.adaptive_max_pool3d.default, 3)

WITH_POSITIONS = frozenset(
    {
        *MAX_POOLS_WITH_POSITIONS,
        aten.adaptive_max_pool1d.default,
        aten.adaptive_max_pool2d.default,
        aten.adaptive_max_pool3d.default,
        aten.max.dim,
        aten.min.dim,
    }
)


def _over(domain: Domain[V], value: Any, dims: Sequence[int], keepdim: bool, sign: int) -> V:
    """The extreme over dimensions: move them together, then compare slice by slice."""
    rank = len(value.shape)
    axes = sorted(d % rank for d in dims)

    def slices(rows: Tensor) -> Tensor:
        return rows.movedim(axes, list(range(-len(axes), 0))).flatten(-len(axes))

    count = 1
    for axis in axes:
        count *= value.shape[axis]
    candidates = [
        domain.affine(Affine(lambda t, i=i: slices(t).select(-1, i)), value) for i in range(count)
    ]
    result = domain.largest(candidates, sign)
    if not keepdim:
        return result

    def restore(rows: Tensor) -> Tensor:
        for axis in axes:
            rows = rows.unsqueeze(axis)
        return rows

    return domain.affine(Affine(restore), result)


@rule(aten.amax.default, kind="largest")
def amax(domain: Domain[V], value: V, dims: Sequence[int] = (), keepdim: bool = False) -> V:
    """The largest over dimensions."""
    return _over(domain, value, dims, keepdim, 1)


@rule(aten.amin.default, kind="largest")
def amin(domain: Domain[V], value: V, dims: Sequence[int] = (), keepdim: bool = False) -> V:
    """The smallest over dimensions."""
    return _over(domain, value, dims, keepdim, -1)


@rule(aten.max.dim, kind="largest")
def max_dim(domain: Domain[V], value: V, dim: int, keepdim: bool = False) -> tuple[V, None]:
    """The largest over one dimension (its value, not its position)."""
    return _over(domain, value, [dim], keepdim, 1), None


@rule(aten.min.dim, kind="largest")
def min_dim(domain: Domain[V], value: V, dim: int, keepdim: bool = False) -> tuple[V, None]:
    """The smallest over one dimension (its value, not its position)."""
    return _over(domain, value, [dim], keepdim, -1), None


def _extreme(domain: Domain[V], left: Any, right: Any, sign: int) -> V:
    pair = []
    for item, other in ((left, right), (right, left)):
        if isinstance(item, Tensor):
            rows = item.expand(torch.broadcast_shapes(item.shape, other.shape))
            pair.append(domain.constant(rows))
        else:
            pair.append(spread_over(domain, item, other))
    return domain.largest(pair, sign)


@rule(
    aten.maximum.default,
    aten.max.other,
    aten.fmax.default,
    kind="largest",
    data=(0, 1),
    together=True,
)
def maximum(domain: Domain[V], left: Any, right: Any) -> V:
    """The larger of two, one of which may be constant."""
    return _extreme(domain, left, right, 1)


@rule(
    aten.minimum.default,
    aten.min.other,
    aten.fmin.default,
    kind="largest",
    data=(0, 1),
    together=True,
)
def minimum(domain: Domain[V], left: Any, right: Any) -> V:
    """The smaller of two, one of which may be constant."""
    return _extreme(domain, left, right, -1)
