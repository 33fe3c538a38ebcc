"""Powers, roots and logarithms of single columns.

Yeo and Johnson's transformation of ``x`` is Box and Cox's of ``1 + x`` above zero, and that of
``1 - x`` with the exponent ``2 - e`` and the sign turned below it; both are zero at zero, so that
it is the difference of the two of ``max(x, 0)`` and ``max(-x, 0)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from farfield.errors import NotFollowed
from farfield.graph.reading import Wire, Writer
from farfield.graph.scikit.registry import Table, transform, transformer
from farfield.graph.scikit.sources import SourceColumn
from farfield.graph.stepwise import ROOTS_AND_LOGARITHMS, numpy_function

aten = torch.ops.aten
# The least number whose logarithm is taken: smaller ones are as good as zero.
LEAST = 1e-300
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
    made = Table(warp(writer, table, exponents), table.columns)
    return transform(writer, made, model._scaler) if model.standardize else made


def _yeo_johnson(writer: Writer, table: Table, exponents: Any) -> Wire:
    value, sides = table.value, []
    for sign, given in ((1.0, exponents), (-1.0, 2 - exponents)):
        own = np.where(np.abs(given) < TINY["yeo-johnson"], 0.0, given)
        side = writer.step(aten.relu.default, _times(writer, value, sign))
        sides.append(_times(writer, writer.warp(side, own, beyond=True), sign))
    return writer.add(*sides)


def _box_cox(writer: Writer, table: Table, exponents: Any) -> Wire:
    # Where a power overflows there is no answer either.
    lows = [LEAST ** min(1.0, 1 / max(-each, LEAST)) for each in exponents.tolist()]
    value = _bounded(writer, table, lows)
    return writer.warp(value, np.where(np.abs(exponents) < TINY["box-cox"], 0.0, exponents))


def _bounded(writer: Writer, table: Table, lows: Sequence[float]) -> Wire:
    """Note that raw columns may not be below some numbers."""
    value = table.value
    for column, origin, low in zip(table.columns, writer.origins(value), lows, strict=True):
        if isinstance(column, SourceColumn) and origin is not None:
            column.use.low = max(column.use.low, low)
    return value


def _times(writer: Writer, value: Wire, factor: float) -> Wire:
    return writer.scale(value, np.full(value.width, factor))


FUNCTIONS: dict[Any, Any] = {
    np.abs: aten.abs.default,
    np.negative: aten.neg.default,
    np.square: aten.square.default,
    np.tanh: aten.tanh.default,
}
# The least numbers whose logarithm or root is one, if that is another.
DOMAINS = {"log1p": float(np.nextafter(-1.0, 0.0)), "sqrt": 0.0, "cbrt": -np.inf}
EXPONENTIAL = ("exp", "exp2", "expm1", "sinh", "cosh")


@transformer("FunctionTransformer")
def _function(writer: Writer, table: Table, model: Any) -> Table:
    """A known function of single numbers."""
    if model.func is None:
        return Table(table.held, table.columns)
    name = getattr(model.func, "__name__", repr(model.func))
    is_root = name in ROOTS_AND_LOGARITHMS and model.func is getattr(np, name)
    if model.kw_args or not (is_root or model.func in FUNCTIONS):
        known = ", ".join((*(each.__name__ for each in FUNCTIONS), *ROOTS_AND_LOGARITHMS))
        help_ = (
            "it outgrows every power of its input; use PowerTransformer or QuantileTransformer"
            if name in EXPONENTIAL
            else f"known are None, and of NumPy {known}"
        )
        raise NotFollowed(f"FunctionTransformer applies {name}: {help_}.")
    if is_root:
        lows = [DOMAINS.get(name, LEAST)] * table.width
        value = writer.step(numpy_function, _bounded(writer, table, lows), name)
        return Table(value, table.columns)
    return Table(writer.step(FUNCTIONS[model.func], table.value), table.columns)
