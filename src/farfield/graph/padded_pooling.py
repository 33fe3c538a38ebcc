"""Max pooling of what was padded with minus infinity, as TensorFlow's "same" pooling is written.

Minus infinity is no number to compute with, and need not be: it never wins. The padding is folded
into the pool, whose windows then hang over the edge by as much.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor

from farfield.graph.pooling import (
    MAX_POOLS,
    MAX_POOLS_WITH_POSITIONS,
    per_dimension,
    pool,
    window_positions,
)
from farfield.graph.program import Program, Ref, Step
from farfield.graph.rules import Domain, V, rule

aten = torch.ops.aten
POOLS = tuple(MAX_POOLS)
Sizes = Sequence[int]


def padded_max_pool(
    rows: Tensor,
    around: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
) -> Tensor:
    """Pad with minus infinity, then take the largest in each window.

    Args:
        rows: ``(rows, channels, *lengths)``.
        around: Before and after each length, the last one first, as ``torch.nn.functional.pad``.
        kernel: The size of a window; this and what follows as in ``max_pool2d``, one per length.
        stride: How far windows are apart.
        padding: Padding of the pool itself.
        dilation: How far the places of a window are apart.
        ceil_mode: Whether a window may begin before the end and reach beyond it.
    """
    padded = F.pad(rows, list(around), value=-math.inf)
    largest = POOLS[len(kernel) - 1]
    result: Tensor = largest(padded, kernel, stride, padding, dilation, ceil_mode)
    return result


@rule(padded_max_pool, kind="largest")
def lower(domain: Domain[V], value: Any, *settings: Any) -> V:
    """The largest in a window, padded with minus infinity."""
    return pool(domain, value, _tables(value.shape[-len(settings[1]) :], *settings))


def _tables(
    lengths: Sizes,
    around: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
) -> list[list[list[int]]]:
    sides = list(zip(around[::2], around[1::2], strict=True))[::-1]
    settings = zip(lengths, kernel, stride, padding, dilation, strict=True)
    return [
        window_positions(*each, ceil_mode, side) for each, side in zip(settings, sides, strict=True)
    ]


def fold_padding(program: Program) -> Program:
    """Fold padding with minus infinity into the max pools that read it."""
    readers: dict[str, list[Step]] = {}
    for step in program.steps:
        for name in set(step.refs()):
            readers.setdefault(name, []).append(step)
    folded: dict[str, Step] = {}
    for step in program.steps:
        if _is_minus_infinity(step) and step.name != program.output:
            for pooled in readers.get(step.name, []):
                folded.update(_fold(step, pooled, readers))
    return program.with_steps(tuple(folded.get(step.name, step) for step in program.steps))


def _is_minus_infinity(step: Step) -> bool:
    return step.target is aten.constant_pad_nd.default and step.args[2:3] == (-math.inf,)


def _fold(padding: Step, pooled: Step, readers: Mapping[str, Sequence[Step]]) -> dict[str, Step]:
    """The steps that take the place of a pool and of what reads its result; none if it stays."""
    settings = _settings(padding, pooled)
    after = readers.get(pooled.name, [])
    pairs = pooled.target in MAX_POOLS_WITH_POSITIONS
    if settings is None or (pairs and any(_place(step) != 0 for step in after)):
        return {}
    args = (padding.args[0], *settings)
    steps = {pooled.name: replace(pooled, target=padded_max_pool, args=args, kwargs={})}
    if pairs:
        for step in after:
            steps[step.name] = replace(step, target=aten.alias.default, args=(Ref(pooled.name),))
    return steps


def _place(step: Step) -> int | None:
    return step.args[1] if step.target is operator.getitem else None


def _settings(padding: Step, pooled: Step) -> tuple[Any, ...] | None:
    """What the pool becomes; ``None`` if it is none, or some window sees padding alone."""
    around = list(padding.args[1])
    if pooled.target is padded_max_pool:
        inner, *rest = pooled.args[1:]
        kernel, stride, own, dilation, ceil_mode = rest
    else:
        dims = {**MAX_POOLS, **MAX_POOLS_WITH_POSITIONS}.get(pooled.target)
        if dims is None or pooled.kwargs:
            return None
        given = (*pooled.args[1:], *((None,) * 5))[:5]
        kernel = per_dimension(given[0], dims)
        stride = per_dimension(given[1] or kernel, dims)
        own, dilation = per_dimension(given[2] or 0, dims), per_dimension(given[3] or 1, dims)
        ceil_mode, inner = bool(given[4]), [0] * (2 * dims)
    count = 2 * len(kernel)
    around = around + [0] * (count - len(around))
    if any(around[count:]) or min(around) < 0 or padding.shape is None:
        return None
    around = around[:count]
    lengths = [
        length - before - after
        for length, before, after in zip(
            padding.shape[-len(kernel) :], around[::2][::-1], around[1::2][::-1], strict=True
        )
    ]
    around = [one + other for one, other in zip(around, inner, strict=True)]
    settings = (around, kernel, stride, own, dilation, ceil_mode)
    try:
        _tables(lengths, *settings)
    except ValueError:
        return None
    return settings
