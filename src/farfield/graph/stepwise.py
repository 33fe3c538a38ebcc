"""Operations that no framework has as one: steps, functions of whole rows, gaps that are filled.

Each is a plain function of tensors with a rule, so that programs of trees, encoders and classical
models are written with them as programs of networks are with ATen's operations.
"""

from __future__ import annotations

import torch
from torch import Tensor

from farfield.graph.rules import Affine, Domain, Pieces, RowFunction, Steps, V, rule


def take_steps(rows: Tensor, steps: Steps) -> Tensor:
    """Apply piecewise-constant functions of single columns: ``(rows, outputs)``."""
    return steps(rows)


@rule(take_steps, kind="steps")
def _take_steps(domain: Domain[V], value: V, steps: Steps) -> V:
    """The first or last value where a column moves, the value on its interval where it rests."""
    return domain.steps(value, steps)


def apply_row(rows: Tensor, function: RowFunction) -> Tensor:
    """Apply a function of whole rows: ``(rows, outputs)``."""
    return function(rows)


@rule(apply_row, kind="row function")
def _apply_row(domain: Domain[V], value: V, function: RowFunction) -> V:
    """The function's own limit where the row moves, the function itself where it rests."""
    return domain.row_function(value, function)


def fill_missing(rows: Tensor, fills: Tensor) -> Tensor:
    """Put ``fills``, ``(columns,)``, where values are NaN; a NaN among them changes nothing."""
    return torch.where(torch.isnan(rows), fills.to(rows), rows)


@rule(fill_missing, kind="copy")
def _fill_missing(domain: Domain[V], value: V, _: Tensor) -> V:
    """Values on a ray are numbers, and stay as they are."""
    return domain.affine(Affine(lambda rows: rows.clone()), value)


def bend(rows: Tensor, pieces: Pieces) -> Tensor:
    """Apply one piecewise-affine function to every element."""
    lines = [
        rows * (slope if isinstance(slope, Tensor) else float(slope)) + float(intercept)
        for slope, intercept in zip(pieces.slopes, pieces.intercepts, strict=True)
    ]
    out = lines[0]
    for threshold, above in zip(pieces.thresholds, lines[1:], strict=True):
        out = torch.where(rows > float(threshold), above, out)
    return torch.where(torch.isnan(rows), rows, out)


@rule(bend, kind="piecewise affine")
def _bend(domain: Domain[V], value: V, pieces: Pieces) -> V:
    """The piece that each value ends up in."""
    return domain.piecewise(value, pieces)
