"""Powers, roots and logarithms of single columns.

Yeo and Johnson's transformation of ``x`` is Box and Cox's of ``1 + x`` above zero, and that of
``1 - x`` with the exponent ``2 - e`` and the sign turned below it; both are zero at zero, so that
it is the difference of the two of ``max(x, 0)`` and ``max(-x, 0)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from farfield.errors import NotFollowed
from farfield.graph.reading import Wire, Writer
from farfield.graph.scikit.registry import Table, transform, transformer

aten = torch.ops.aten
# Exponents that SciPy takes for zero.
TINY = {"yeo-johnson": float(np.spacing(1.0)), "box-cox": 1e-19}


@transformer("PowerTransformer")
def _power(writer: Writer, table: Table, model: Any) -> Table:
    exponents = np.asarray(model.lambdas_, dtype=np.float64)
    if not np.isfinite(exponents).all():
        raise NotFollowed(
            "PowerTransformer has an exponent that is no number; drop the columns that it was "
            "fitted on in vain."
        )
    warp = _yeo_johnson if model.method == "yeo-johnson" else _box_cox
    made = Table(warp(writer, table.value, exponents), table.columns)
    return transform(writer, made, model._scaler) if model.standardize else made


def _yeo_johnson(writer: Writer, value: Wire, exponents: Any) -> Wire:
    sides = []
    for sign, given in ((1.0, exponents), (-1.0, 2 - exponents)):
        own = np.where(np.abs(given) < TINY["yeo-johnson"], 0.0, given)
        side = writer.step(aten.relu.default, _times(writer, value, sign))
        sides.append(_times(writer, writer.warp(side, own, beyond=True), sign))
    return writer.add(*sides)


def _box_cox(writer: Writer, value: Wire, exponents: Any) -> Wire:
    return writer.warp(value, np.where(np.abs(exponents) < TINY["box-cox"], 0.0, exponents))


def _cube_root(writer: Writer, value: Wire) -> Wire:
    """Of either sign."""
    sides = []
    for sign in (1.0, -1.0):
        side = writer.step(aten.relu.default, _times(writer, value, sign))
        root = writer.step(aten.pow.Tensor_Scalar, side, 1 / 3)
        sides.append(_times(writer, root, sign))
    return writer.add(*sides)


def _times(writer: Writer, value: Wire, factor: float) -> Wire:
    return writer.scale(value, np.full(value.width, factor))


def _plain(target: Any, factor: float = 1.0) -> Callable[[Writer, Wire], Wire]:
    """An operation on every element, and perhaps a factor behind it."""

    def write(writer: Writer, value: Wire) -> Wire:
        made = writer.step(target, value)
        return made if factor == 1.0 else _times(writer, made, factor)

    return write


FUNCTIONS: dict[Any, Callable[[Writer, Wire], Wire]] = {
    np.abs: _plain(aten.abs.default),
    np.negative: _plain(aten.neg.default),
    np.square: _plain(aten.square.default),
    np.tanh: _plain(aten.tanh.default),
    np.log: _plain(aten.log.default),
    np.log1p: _plain(aten.log1p.default),
    np.log2: _plain(aten.log.default, 1 / np.log(2.0)),
    np.log10: _plain(aten.log.default, 1 / np.log(10.0)),
    np.sqrt: _plain(aten.sqrt.default),
    np.cbrt: _cube_root,
}
EXPONENTIAL = ("exp", "exp2", "expm1", "sinh", "cosh")


@transformer("FunctionTransformer")
def _function(writer: Writer, table: Table, model: Any) -> Table:
    """A known function of single numbers."""
    if model.func is None:
        return Table(table.held, table.columns)
    name = getattr(model.func, "__name__", repr(model.func))
    if model.kw_args or model.func not in FUNCTIONS:
        known = ", ".join(f"numpy.{each.__name__}" for each in FUNCTIONS)
        help_ = (
            "it outgrows every power of its input; use PowerTransformer or QuantileTransformer"
            if name in EXPONENTIAL
            else f"known are None, {known}"
        )
        raise NotFollowed(f"FunctionTransformer applies {name}: {help_}.")
    return Table(FUNCTIONS[model.func](writer, table.value), table.columns)
