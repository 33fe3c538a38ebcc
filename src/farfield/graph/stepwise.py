"""Operations that no framework has as one: steps, functions of whole rows, gaps that are filled.

Each is a plain function of tensors with a rule, so that programs of trees, encoders and classical
models are written with them as programs of networks are with ATen's operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.graph.affine import SUBTRACT
from farfield.graph.growth import BoxCox, Logarithm, Power
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
    if not rows.requires_grad:
        return _as_numpy(lambda array: _box_cox_of(array, exponents.numpy(), beyond), rows)
    logs = torch.log1p(rows) if beyond else torch.log(rows)
    flat = exponents == 0
    scale = exponents.masked_fill(flat, 1.0).to(rows)
    return torch.where(flat, logs, torch.expm1(scale * logs) / scale)


def _box_cox_of(rows: Any, exponents: Any, beyond: bool) -> Any:
    """The same as SciPy computes it, to the last bit, so that ties behind it stay what they are."""
    if not beyond:
        from scipy.special import boxcox  # whoever has such a model has loaded it already

        return boxcox(rows, exponents)
    logs = np.log1p(rows)
    scale = np.where(exponents == 0, 1.0, exponents)
    return np.where(exponents == 0, logs, np.expm1(scale * logs) / scale)


def _as_numpy(function: Callable[[Any], Any], rows: Tensor) -> Tensor:
    """Apply a function of NumPy; what is outside of its domain is no number, silently."""
    with np.errstate(all="ignore"):
        return torch.from_numpy(np.asarray(function(rows.double().cpu().numpy()))).to(rows)


@rule(box_cox, kind="growth")
def _box_cox(domain: Domain[V], value: V, exponents: Tensor, beyond: bool = False) -> V:
    """A power or the logarithm of each column; of values that are positive far out."""
    if beyond:
        value = domain.affine(Affine(lambda rows: rows, offset=1.0, terms=1), value)
    return domain.grow(BoxCox(exponents), value)


ROOTS_AND_LOGARITHMS: dict[str, Callable[[Tensor], Tensor]] = {
    "log": torch.log,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "log10": torch.log10,
    "sqrt": torch.sqrt,
    "cbrt": lambda rows: rows.sign() * rows.abs() ** (1 / 3),
}


def numpy_function(rows: Tensor, name: str) -> Tensor:
    """A root or a logarithm of every element, as NumPy computes it."""
    if rows.requires_grad:
        return ROOTS_AND_LOGARITHMS[name](rows)
    return _as_numpy(getattr(np, name), rows)


@rule(numpy_function, kind="growth")
def _numpy_function(domain: Domain[V], value: V, name: str) -> V:
    """A root or a logarithm of every element; of values that are positive far out."""
    if name == "sqrt":
        return domain.grow(Power(Fraction(1, 2)), value)
    if name == "cbrt":
        sides = [domain.piecewise(value, Pieces.hinge(*ends)) for ends in ((0.0, 1.0), (-1.0, 0.0))]
        roots = [domain.grow(Power(Fraction(1, 3)), side) for side in sides]
        return domain.affine(SUBTRACT, *roots)
    if name == "log1p":
        value = domain.affine(Affine(lambda rows: rows, offset=1.0, terms=1), value)
    found = domain.grow(Logarithm(), value)
    base = {"log2": 2.0, "log10": 10.0}.get(name)
    if base is None:
        return found
    weight = torch.tensor(1 / math.log(base), dtype=torch.float64)
    return domain.affine(Affine(torch.mul, (weight,), terms=1), found)


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
