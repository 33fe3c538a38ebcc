"""Transformers that change how fast values grow: products of columns, division by a row's norm.

What follows them may be anything that has a limit of such values; at infinity they are series in
powers of ``t`` (:mod:`farfield.graph.growth`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.graph.reading import InputColumn, Wire, Writer
from farfield.graph.rules import Pieces
from farfield.graph.scikit.registry import Table, transformer

aten = torch.ops.aten
# scikit-learn divides by no norm below this, but leaves the row as it is.
LEAST = float(10 * np.finfo(np.float64).eps)
ORDERS = {"l1": 1, "l2": 2}


@transformer("Normalizer")
def _unit_rows(writer: Writer, table: Table, model: Any) -> Table:
    """Every row divided by its norm: far out it is the direction alone."""
    value = table.value
    norm = row_norm(writer, value, model.norm)
    # Thresholds belong to the piece below them: a norm of LEAST itself divides.
    turned = writer.step(aten.neg.default, norm)
    divisor = writer.bend(turned, Pieces((-LEAST,), (-1.0, 0.0), (0.0, 1.0)))
    return Table(writer.quotient(value, divisor), table.columns)


def row_norm(writer: Writer, value: Wire, norm: str) -> Wire:
    """The norm of every row: ``l1``, ``l2`` or ``max``."""
    if norm in ORDERS:
        order = aten.linalg_vector_norm.default
        return writer.step(order, value, ORDERS[norm], [1], True, width=1)
    return writer.step(aten.amax.default, writer.step(aten.abs.default, value), [1], True, width=1)


@transformer("PolynomialFeatures")
def _products(writer: Writer, table: Table, model: Any) -> Table:
    """Products of columns, degree by degree."""
    value, powers = table.value, np.asarray(model.powers_)
    degrees = powers.sum(axis=1)
    made, order = [], []
    for degree in np.unique(np.maximum(degrees, 1)):
        places = np.flatnonzero(np.maximum(degrees, 1) == degree)
        made.append(_of_degree(writer, value, powers[places], int(degree)))
        order.append(places)
    back = np.argsort(np.concatenate(order))
    names = tuple(InputColumn(f"product {place}") for place in range(len(powers)))
    return Table(writer.select(writer.concatenate(*made), back), names)


def _of_degree(writer: Writer, value: Wire, powers: NDArray[Any], degree: int) -> Wire:
    """Products of one degree; the constant is among those of degree one."""
    if degree == 1:
        return writer.linear(value, powers, (powers.sum(axis=1) == 0).astype(np.float64))
    factors = np.stack([np.repeat(np.arange(len(row)), row) for row in powers])
    made = writer.select(value, factors[:, 0])
    for place in range(1, degree):
        made = writer.product(made, writer.select(value, factors[:, place]))
    return made
