"""Operations that no framework has as one: steps, functions of whole rows, gaps that are filled.

Each is a plain function of tensors with a rule, so that programs of trees, encoders and classical
models are written with them as programs of networks are with ATen's operations.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from farfield.graph.growth import BoxCox
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
        torch.full_like(rows, float(intercept))  # a product with zero loses infinite numbers
        if not isinstance(slope, Tensor) and slope == 0
        else rows * (slope if isinstance(slope, Tensor) else float(slope)) + float(intercept)
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


def box_cox(rows: Tensor, exponents: Tensor, beyond: bool = False) -> Tensor:
    """``(x^e - 1) / e``, or ``log x`` where ``e`` is 0, each column with its own exponent.

    The same of ``1 + x`` where ``beyond`` is set.

    >>> box_cox(torch.tensor([[4.0, 4.0]]), torch.tensor([0.5, 1.0])).tolist()
    [[2.0, 3.0]]
    """
    logs = torch.log1p(rows) if beyond else torch.log(rows)
    flat = exponents == 0
    scale = exponents.masked_fill(flat, 1.0).to(rows)
    return torch.where(flat, logs, torch.expm1(scale * logs) / scale)


@rule(box_cox, kind="growth")
def _box_cox(domain: Domain[V], value: V, exponents: Tensor, beyond: bool = False) -> V:
    """A power or the logarithm of each column; of values that are positive far out."""
    if beyond:
        value = domain.affine(Affine(lambda rows: rows, offset=1.0, terms=1), value)
    return domain.grow(BoxCox(exponents), value)


def choose(mask: Tensor, yes: Tensor | float, no: Tensor | float) -> Tensor:
    """Take ``yes`` where a mask is 1, ``no`` where it is 0; masks hold nothing else."""
    first, second = (torch.as_tensor(each).to(mask) for each in (yes, no))
    return torch.where(mask > 0.5, first, second)


@rule(choose, kind="choice", data=None, together=True)
def _choose(domain: Domain[V], mask: V, yes: Any, no: Any) -> V:
    """One value or another, by a mask that is at rest: it was decided when that was made."""
    return domain.choice(mask, *(_as_value(domain, mask, each) for each in (yes, no)))


def _as_value(domain: Domain[V], mask: V, branch: Any) -> V:
    """A constant as a value with the rows of a mask; other values as they are."""
    if not isinstance(branch, (int, float, Tensor)):
        value: V = branch
        return value
    if not isinstance(branch, Tensor):
        nothing = Affine(lambda rows: 0 * rows, offset=float(branch), terms=1)
        return domain.affine(nothing, mask)
    return domain.affine(Affine(torch.mul, (torch.zeros_like(branch),), branch, terms=1), mask)
