"""Quadratic discriminants and Gaussian naive Bayes: logits of order two."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.errors import NotFollowed
from farfield.graph.reading import Wire, Writer
from farfield.graph.scikit.leading import PolynomialSoftmax, Row
from farfield.graph.scikit.registry import ClassScores, Table, classifier

aten = torch.ops.aten


class Quadratics(PolynomialSoftmax):
    """Logits ``offset_c - |(x - mean_c) matrix_c|^2 / 2``.

    Args:
        means: ``(classes, columns)``.
        matrices: For each class ``(columns, rank)``.
        offsets: ``(classes,)``.
    """

    def __init__(self, means: Any, matrices: Sequence[Any], offsets: Any) -> None:
        self.means = torch.from_numpy(np.array(means, dtype=np.float64))
        self.matrices = [torch.from_numpy(np.array(each, dtype=np.float64)) for each in matrices]
        self.offsets = torch.from_numpy(np.array(offsets, dtype=np.float64))

    def logits(self, rows: Tensor) -> Tensor:
        """Evaluate."""
        found = [
            -0.5 * ((rows.double() - mean) @ matrix).square().sum(dim=1) + offset
            for mean, matrix, offset in zip(self.means, self.matrices, self.offsets, strict=True)
        ]
        return torch.stack(found, dim=1).to(rows.dtype)

    def coefficients(self, slope: Tensor, intercept: Tensor) -> tuple[Tensor, Tensor]:
        """Square ``slope * t + intercept`` behind each matrix."""
        values, magnitudes = [], []
        for mean, matrix, offset in zip(self.means, self.matrices, self.offsets, strict=True):
            moving, resting = slope @ matrix, (intercept - mean) @ matrix
            values.append(_square(moving, resting, offset, -1))
            size = (slope.abs() @ matrix.abs(), (intercept.abs() + mean.abs()) @ matrix.abs())
            magnitudes.append(_square(*size, offset.abs(), 1))
        return torch.stack(values, dim=-1), torch.stack(magnitudes, dim=-1)

    def exact(self, slope: Row, intercept: Row) -> list[list[Fraction]]:
        """The same with fractions."""
        found = []
        for mean, matrix, offset in zip(self.means, self.matrices, self.offsets, strict=True):
            apart = [at - Fraction(m) for at, m in zip(intercept, mean.tolist(), strict=True)]
            parts = [Fraction(0)] * 3
            for column in matrix.T.tolist():
                weights = [Fraction(weight) for weight in column]
                moving = sum((w * s for w, s in zip(weights, slope, strict=True)), Fraction(0))
                resting = sum((w * a for w, a in zip(weights, apart, strict=True)), Fraction(0))
                for power, term in enumerate((resting**2, 2 * moving * resting, moving**2)):
                    parts[power] -= term / 2
            found.append([parts[0] + Fraction(float(offset)), *parts[1:]])
        return found


def _square(moving: Tensor, resting: Tensor, offset: Tensor, sign: int) -> Tensor:
    """Coefficients of ``sign |moving t + resting|^2 / 2 + offset``, constants first."""
    constant = sign * 0.5 * resting.square().sum(dim=1) + offset
    linear = sign * (moving * resting).sum(dim=1)
    return torch.stack([constant, linear, sign * 0.5 * moving.square().sum(dim=1)])


class SeparateQuadratics(PolynomialSoftmax):
    """Logits ``offset_c - sum_j (x_j - mean_cj)^2 / variance_cj / 2``.

    Args:
        means: ``(classes, columns)``.
        variances: ``(classes, columns)``.
        offsets: ``(classes,)``.
    """

    def __init__(self, means: Any, variances: Any, offsets: Any) -> None:
        self.means, self.variances, self.offsets = (
            torch.from_numpy(np.array(each, dtype=np.float64))
            for each in (means, variances, offsets)
        )

    def logits(self, rows: Tensor) -> Tensor:
        """Evaluate."""
        found = [
            -0.5 * ((rows.double() - mean).square() / variance).sum(dim=1) + offset
            for mean, variance, offset in zip(self.means, self.variances, self.offsets, strict=True)
        ]
        return torch.stack(found, dim=1).to(rows.dtype)

    def coefficients(self, slope: Tensor, intercept: Tensor) -> tuple[Tensor, Tensor]:
        """Square ``slope * t + intercept`` column by column."""
        values, magnitudes = [], []
        for mean, variance, offset in zip(self.means, self.variances, self.offsets, strict=True):
            unit = variance.sqrt()
            sizes = slope.abs() / unit, (intercept.abs() + mean.abs()) / unit
            values.append(_square(slope / unit, (intercept - mean) / unit, offset, -1))
            magnitudes.append(_square(*sizes, offset.abs(), 1))
        return torch.stack(values, dim=-1), torch.stack(magnitudes, dim=-1)

    def exact(self, slope: Row, intercept: Row) -> list[list[Fraction]]:
        """The same with fractions."""
        found = []
        for mean, variance, offset in zip(self.means, self.variances, self.offsets, strict=True):
            parts = [Fraction(float(offset)), Fraction(0), Fraction(0)]
            each = zip(slope, intercept, mean.tolist(), variance.tolist(), strict=True)
            for moving, at, centre, width in each:
                apart, twice = at - Fraction(centre), 2 * Fraction(width)
                for power, term in enumerate((apart**2, 2 * moving * apart, moving**2)):
                    parts[power] -= term / twice
            found.append(parts)
        return found


def _logarithms(priors: Any) -> Any:
    if not np.all(np.asarray(priors) > 0):
        raise NotFollowed("a class has the prior probability 0; leave that class out of training.")
    return np.log(priors)


def _squares(
    writer: Writer, value: Wire, means: Any, matrices: Sequence[Any], offsets: Any
) -> ClassScores:
    """The same logits step by step, of columns that do not grow like ``t`` themselves."""
    logits = []
    for mean, matrix, offset in zip(means, matrices, offsets, strict=True):
        apart = writer.linear(writer.shift(value, -mean), matrix.T)
        squares = writer.step(aten.square.default, apart)
        logits.append(writer.linear(squares, np.full((1, squares.width), -0.5), [offset]))
    return ClassScores(writer.concatenate(*logits), "softmax")


@classifier("QuadraticDiscriminantAnalysis")
def _quadratic(writer: Writer, table: Table, model: Any) -> ClassScores:
    matrices = [
        rotation * scaling**-0.5
        for rotation, scaling in zip(model.rotations_, model.scalings_, strict=True)
    ]
    spread = np.array([np.log(scaling).sum() for scaling in model.scalings_])
    offsets = _logarithms(model.priors_) - 0.5 * spread
    if writer.grows:
        return _squares(writer, table.value, model.means_, matrices, offsets)
    function = Quadratics(model.means_, matrices, offsets)
    return ClassScores(writer.apply(table.value, function, len(offsets)), "identity")


@classifier("GaussianNB")
def _gaussian(writer: Writer, table: Table, model: Any) -> ClassScores:
    spread = np.log(2.0 * np.pi * model.var_).sum(axis=1)
    offsets = _logarithms(model.class_prior_) - 0.5 * spread
    if writer.grows:
        matrices = [np.diag(width**-0.5) for width in model.var_]
        return _squares(writer, table.value, model.theta_, matrices, offsets)
    function = SeparateQuadratics(model.theta_, model.var_, offsets)
    return ClassScores(writer.apply(table.value, function, len(offsets)), "identity")
