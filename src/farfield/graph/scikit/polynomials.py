"""Polynomial features in front of a linear classifier: logits of any whole order.

In front of anything else they are products of values, as ``growing.py`` writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.graph.program import forward
from farfield.graph.reading import InputColumn, Writer
from farfield.graph.scikit.leading import PolynomialSoftmax, Row
from farfield.graph.scikit.registry import ClassScores, Table, classify, transform

aten = torch.ops.aten
AFFINE = {
    aten.linear.default,
    aten.mul.Tensor,
    aten.div.Tensor,
    aten.add.Tensor,
    aten.index_select.default,
    aten.cat.default,
    aten.alias.default,
}


class Monomials(PolynomialSoftmax):
    """Logits ``weight @ (products of columns) + bias``.

    Args:
        powers: ``(products, columns)`` whole numbers.
        weight: ``(classes, products)``.
        bias: ``(classes,)``.
    """

    def __init__(self, powers: Any, weight: Tensor, bias: Tensor) -> None:
        table = np.asarray(powers)
        self.factors = [np.repeat(np.arange(len(row)), row).tolist() for row in table]
        self.degree = int(table.sum(axis=1).max())
        self.weight, self.bias = weight.double(), bias.double()

    def logits(self, rows: Tensor) -> Tensor:
        """Evaluate."""
        wide = rows.double()
        ones = torch.ones_like(wide[:, 0])
        products = [
            reduce(torch.mul, [wide[:, place] for place in factors], ones)
            for factors in self.factors
        ]
        return (torch.stack(products, dim=1) @ self.weight.T + self.bias).to(rows.dtype)

    def coefficients(self, slope: Tensor, intercept: Tensor) -> tuple[Tensor, Tensor]:
        """Multiply out."""
        return (
            self._multiplied(slope, intercept, self.weight, self.bias),
            self._multiplied(slope.abs(), intercept.abs(), self.weight.abs(), self.bias.abs()),
        )

    def _multiplied(self, slope: Tensor, intercept: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        out = slope.new_zeros(self.degree + 1, len(slope), len(bias))
        out[0] += bias
        for factors, own in zip(self.factors, weight.T, strict=True):
            product = [torch.ones_like(slope[:, 0])]
            for place in factors:
                product = _times(product, slope[:, place], intercept[:, place])
            for power, part in enumerate(product):
                out[power] += part[:, None] * own
        return out

    def exact(self, slope: Row, intercept: Row) -> list[list[Fraction]]:
        """The same with fractions."""
        products = []
        for factors in self.factors:
            product = [Fraction(1)]
            for place in factors:
                product = _times(product, slope[place], intercept[place])
            products.append(product + [Fraction(0)] * (self.degree + 1 - len(product)))
        found = []
        for weights, bias in zip(self.weight.tolist(), self.bias.tolist(), strict=True):
            terms = [
                [Fraction(weight) * part for part in product]
                for weight, product in zip(weights, products, strict=True)
            ]
            parts = [sum(each, Fraction(0)) for each in zip(*terms, strict=True)]
            found.append([parts[0] + Fraction(bias), *parts[1:]])
        return found


def _times(product: list[Any], slope: Any, intercept: Any) -> list[Any]:
    """A polynomial times ``slope t + intercept``, constants first."""
    raised = [0 * product[0], *(part * slope for part in product)]
    held = [*(part * intercept for part in product), 0 * product[0]]
    return [first + second for first, second in zip(raised, held, strict=True)]


def is_polynomial(part: Any) -> bool:
    """Whether a transformer multiplies columns with one another."""
    return type(part).__name__ == "PolynomialFeatures" and part.degree not in (1, (0, 1), (1, 1))


def classify_polynomial(
    writer: Writer, table: Table, part: Any, rest: Sequence[tuple[str, Any]]
) -> ClassScores | None:
    """Write polynomial features and all that follows as one function, if that is linear.

    Args:
        writer: What to write into.
        table: What goes into the features.
        part: The fitted ``PolynomialFeatures``.
        rest: The steps behind it by name, a classifier last.
    """
    powers = np.asarray(part.powers_)
    inner = Writer(len(powers), [], source=writer.source)
    columns = tuple(InputColumn(f"product {place}") for place in range(len(powers)))
    behind = Table(inner.input, columns)
    for name, each in rest[:-1]:
        behind = transform(inner, behind, each, name)
    scores = classify(inner, behind, rest[-1][1], rest[-1][0])
    linear = {step.target for step in inner.steps} <= AFFINE
    if inner.refusals or scores.link != "softmax" or not linear:
        return None
    classes = max(2, scores.value.width)
    weight, bias = _matrix(inner, scores)
    function = Monomials(powers, weight, bias)
    value = replace(table, reader=part).value
    return ClassScores(writer.apply(value, function, classes), "identity")


def _matrix(inner: Writer, scores: ClassScores) -> tuple[Tensor, Tensor]:
    """The affine map that a program is; one logit ``f`` becomes ``(0, f)``."""
    program = inner.program(scores.value)
    origin = torch.zeros(1, inner.columns, dtype=torch.float64)
    with torch.enable_grad():
        weight = torch.autograd.functional.jacobian(
            lambda rows: forward(program, rows, inner.constants)[0], origin
        )[:, 0]
        bias = forward(program, origin, inner.constants)[0]
    if len(bias) == 1:
        weight = torch.cat([torch.zeros_like(weight), weight])
        bias = torch.cat([torch.zeros_like(bias), bias])
    return weight, bias
