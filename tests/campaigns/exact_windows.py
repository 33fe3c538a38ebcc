"""Sums and extremes over dimensions and windows, by their definitions."""

import itertools
import math
from typing import Any

import numpy as np

from campaigns.exact_numbers import Array, Numbers


def total(_: Numbers, values: Array, dims: Any, keepdim: bool = False, **__: Any) -> Array:
    return values.sum(axis=tuple(dims), keepdims=keepdim)


def mean(_: Numbers, values: Array, dims: Any, keepdim: bool = False, **__: Any) -> Array:
    count = math.prod(values.shape[d] for d in dims)
    return values.sum(axis=tuple(dims), keepdims=keepdim) / count


def extreme(function: Any, pair: bool = False) -> Any:
    def over(_: Numbers, values: Array, dims: Any, keepdim: bool = False) -> Any:
        axes = (dims,) if isinstance(dims, int) else tuple(dims)
        result = function.reduce(values, axis=axes, keepdims=keepdim)
        return (result, None) if pair else result

    return over


def windows(
    n: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool
) -> list[range]:
    """The places that each output looks at, those in the padding among them."""
    room = n + 2 * padding - dilation * (kernel - 1) - 1
    count = (math.ceil(room / stride) if ceil else room // stride) + 1
    starts = [i * stride - padding for i in range(count)]
    if ceil and starts[-1] >= n + padding:
        starts = starts[:-1]
    return [range(start, start + dilation * kernel, dilation) for start in starts]


def adaptive(n: int, outputs: int) -> list[range]:
    return [
        range(math.floor(i * n / outputs), math.ceil((i + 1) * n / outputs)) for i in range(outputs)
    ]


def pooled(values: Array, tables: list[list[range]], reduce: Any) -> Array:
    """``reduce(elements, window)`` for each window; elements last."""
    dims = len(tables)
    out = np.empty((*values.shape[:-dims], *map(len, tables)), dtype=object)
    for goal in itertools.product(*(range(len(table)) for table in tables)):
        window = [table[i] for table, i in zip(tables, goal, strict=True)]
        inside = [
            [place for place in places if 0 <= place < n]
            for places, n in zip(window, values.shape[-dims:], strict=True)
        ]
        block = values[(..., *np.ix_(*inside))]
        out[(..., *goal)] = reduce(block.reshape(*values.shape[:-dims], -1), window)
    return out


def spread(value: Any, dims: int) -> list[int]:
    items = [value] if isinstance(value, int) else list(value)
    return items * dims if len(items) == 1 else items


def max_pool(dims: int, pair: bool) -> Any:
    def pool(
        _: Numbers,
        values: Array,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil: bool = False,
    ) -> Any:
        kernel = spread(kernel, dims)
        options = (spread(stride, dims) or kernel, spread(padding, dims), spread(dilation, dims))
        tables = [
            windows(*one, ceil) for one in zip(values.shape[-dims:], kernel, *options, strict=True)
        ]
        result = pooled(values, tables, lambda block, _: np.maximum.reduce(block, axis=-1))
        return (result, None) if pair else result

    return pool


def padded_pool(
    _: Numbers,
    values: Array,
    around: list[int],
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil: bool,
) -> Array:
    """Windows over the padded lengths; places in the padding are left out."""
    before, after = around[::2][::-1], around[1::2][::-1]
    lengths = [
        n + b + a for n, b, a in zip(values.shape[-len(kernel) :], before, after, strict=True)
    ]
    tables = [
        [range(r.start - b, r.stop - b, r.step) for r in windows(*one, ceil)]
        for b, *one in zip(before, lengths, kernel, stride, padding, dilation, strict=True)
    ]
    return pooled(values, tables, lambda block, _: np.maximum.reduce(block, axis=-1))


def average_pool(dims: int) -> Any:
    def pool(
        _: Numbers,
        values: Array,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil: bool = False,
        count_padding: bool = True,
        divisor: int | None = None,
    ) -> Array:
        kernel = spread(kernel, dims)
        padding = spread(padding, dims)
        options = (spread(stride, dims) or kernel, padding, [1] * dims)
        sizes = values.shape[-dims:]
        tables = [windows(*one, ceil) for one in zip(sizes, kernel, *options, strict=True)]

        def average(block: Array, window: Any) -> Array:
            # Places in the padding count, places that hang over the padding do not.
            counted = math.prod(
                sum(-p <= place < n + p for place in places)
                for places, n, p in zip(window, sizes, padding, strict=True)
            )
            count = divisor or (counted if count_padding else block.shape[-1])
            return block.sum(axis=-1) / count

        return pooled(values, tables, average)

    return pool


def adaptive_pool(dims: int, largest: bool) -> Any:
    def pool(_: Numbers, values: Array, output: Any) -> Any:
        tables = [
            adaptive(n, o) for n, o in zip(values.shape[-dims:], spread(output, dims), strict=True)
        ]
        if largest:
            return pooled(values, tables, lambda b, _: np.maximum.reduce(b, axis=-1)), None
        return pooled(values, tables, lambda b, _: b.sum(axis=-1) / b.shape[-1])

    return pool


def of_two(function: Any) -> Any:
    return lambda numbers, left, right: function(numbers.array(left), numbers.array(right))
