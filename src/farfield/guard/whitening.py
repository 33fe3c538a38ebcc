"""The metric of a guard: inputs in units of their data.

``u(x) = W (x - mean)``. ``W`` never has a kernel: an input that moves without limit moves without
limit in ``u`` as well, or no promise could hold *for every input*. Columns that never vary and
directions that the data does not span therefore get a unit of their own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf
from torch import Tensor, nn

from farfield.exact.bounded import SLACK, gamma

MetricKind = Literal["full", "diagonal", "isotropic"]
Floats = NDArray[np.float64]
# A column that never varies is measured in hundredths of its value, or of one if it is zero.
CONSTANT_UNIT = 1e-2
# Standard deviations below this share of the mean are rounding, not variation.
NO_VARIATION = 1e-7
# Variances of correlated directions are raised to this share of their mean.
LEAST_VARIANCE = 1e-3
# Full covariances need this many rows per column, and at most so many columns.
ROWS_PER_COLUMN, MOST_COLUMNS = 5, 512
# Beyond these, products could overflow to infinities of both signs, and squares do overflow.
LARGEST_INPUT, LARGEST_UNIT = 1e200, 1e160
# With factors below this no float32 number leaves the range of float64 squares.
LARGEST_FACTOR = 1e100


@dataclass(frozen=True)
class Whitening:
    """``u = W (x - mean)``.

    Attributes:
        kind: ``"full"`` (a matrix), ``"diagonal"`` (a unit for each column) or ``"isotropic"``
            (one unit for all).
        mean: ``(columns,)`` float64.
        matrix: ``W``, ``(columns, columns)``; its diagonal, ``(columns,)``, unless full.
        shrinkage: How far the covariance was drawn towards independent columns, 0 to 1.
        constant: How many columns never vary.
    """

    kind: MetricKind
    mean: Tensor
    matrix: Tensor
    shrinkage: float
    constant: int

    def apply(self, rows: Tensor) -> Tensor:
        """Map ``(rows, columns)`` float64 to whitened units."""
        units: Tensor = Whiten(self)(rows)
        return units

    def turned(self) -> Tensor:
        """``W'``, laid out for ``rows @ W'``; its diagonal unless full."""
        return self.matrix.T.contiguous() if self.kind == "full" else self.matrix.clone()

    def inverse(self) -> tuple[Tensor, float]:
        """Directions in the input for each whitened unit, and a bound on what they miss.

        Returns:
            ``C``, ``(columns, columns)``: row i is where unit i points, ``x - mean = C' u``; and
            ``m`` with ``|x - mean - C' u| <= m |u|``.
        """
        if self.kind != "full":
            return torch.diag(1.0 / self.matrix), 4 * 2.0**-53 * float(1.0 / self.matrix.min())
        size = len(self.mean)
        inverse = torch.linalg.inv(self.matrix)
        residual = inverse @ self.matrix - torch.eye(size, dtype=torch.float64)
        rounding = gamma(size) * (inverse.abs() @ self.matrix.abs())
        missed = float(torch.linalg.matrix_norm(residual.abs() + rounding)) * SLACK
        largest = float(torch.linalg.matrix_norm(inverse, ord=2)) * SLACK
        if missed >= 0.5:
            raise AssertionError("the whitening matrix is not invertible")
        return inverse.T.contiguous(), missed * largest / (1 - missed)

    def condition(self) -> float:
        """How much rounding errors of ``W (x - mean)`` can grow: the norm of ``|W| |W^-1|``."""
        if self.kind != "full":
            return 1.0
        sizes = self.matrix.abs() @ torch.linalg.inv(self.matrix).abs()
        return float(torch.linalg.matrix_norm(sizes))

    def describe(self) -> str:
        """Say the metric in one line."""
        what = {
            "full": f"Mahalanobis distance, covariance shrunk by {self.shrinkage:.2g}",
            "diagonal": "Euclidean distance, each column in its standard deviations",
            "isotropic": "Euclidean distance, in root mean square standard deviations",
        }[self.kind]
        if self.constant and self.kind != "isotropic":
            what += f"; {self.constant} constant column(s) in hundredths of their value"
        return what


class Whiten(nn.Module):
    """Evaluates ``W (x - mean)`` on ``(rows, columns)`` float64.

    Values too large for products in float64 are cut off, where squares overflow to infinity.

    Args:
        metric: The units.
        bounded: Whether inputs are known to be in the range of float32, where nothing overflows.
    """

    mean: Tensor
    matrix: Tensor
    turned: Tensor

    def __init__(self, metric: Whitening, *, bounded: bool = False) -> None:
        super().__init__()
        self.register_buffer("mean", metric.mean.double())
        self.register_buffer("matrix", metric.matrix.double())
        self.register_buffer("turned", metric.turned(), persistent=False)
        self.bounded = bounded and float(metric.matrix.abs().max()) < LARGEST_FACTOR

    def numbers(self) -> tuple[Tensor, Tensor]:
        """Mean and matrix on the CPU."""
        return self.mean.detach().cpu(), self.matrix.detach().cpu()

    def forward(self, rows: Tensor) -> Tensor:
        """Map rows to whitened units."""
        centred = rows - self.mean
        if not self.bounded:
            centred = centred.clamp(-LARGEST_INPUT, LARGEST_INPUT)
        units = centred @ self.turned if self.turned.ndim == 2 else centred * self.turned
        return units if self.bounded else units.clamp(-LARGEST_UNIT, LARGEST_UNIT)


def fit_whitening(rows: Floats, kind: MetricKind | None = None) -> Whitening:
    """Estimate the units of rows.

    Args:
        rows: ``(rows, columns)``, finite.
        kind: The metric; if not given, full where rows are many and columns few, else diagonal.

    >>> rows = np.array([[0.0, 7.0], [2.0, 7.0], [4.0, 7.0]])
    >>> metric = fit_whitening(rows, "diagonal")
    >>> metric.constant, metric.mean.tolist()
    (1, [2.0, 7.0])
    >>> metric.apply(torch.tensor([[2.0, 7.07]], dtype=torch.float64)).numpy().round(6).tolist()
    [[0.0, 1.0]]
    """
    count, columns = rows.shape
    if kind is None:
        few = count < ROWS_PER_COLUMN * columns or columns > MOST_COLUMNS
        kind = "diagonal" if few else "full"
    mean = rows.mean(axis=0)
    spread = rows.std(axis=0)
    constant = spread <= NO_VARIATION * np.abs(mean)
    unit = np.where(constant, CONSTANT_UNIT * np.where(mean == 0, 1.0, np.abs(mean)), spread)
    if kind == "isotropic":
        common = math.sqrt(float(np.square(spread).mean()))
        common = common if common > 0 else float(unit.mean())
        return _finish(kind, mean, np.full(columns, 1.0 / common), 0.0, constant)
    if kind == "diagonal":
        return _finish(kind, mean, 1.0 / unit, 0.0, constant)
    matrix, shrinkage = _decorrelate((rows - mean) / unit, constant)
    return _finish(kind, mean, matrix / unit, shrinkage, constant)


def _decorrelate(standard: Floats, constant: NDArray[np.bool_]) -> tuple[Floats, float]:
    """Inverse square root of the shrunk correlation of standardised rows (Ledoit and Wolf 2004)."""
    matrix = np.eye(standard.shape[1])
    varying = np.flatnonzero(~constant)
    if len(varying) == 0 or len(standard) < 2:
        return matrix, 0.0
    covariance, shrinkage = ledoit_wolf(standard[:, varying], assume_centered=True)
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, LEAST_VARIANCE * values.mean())
    matrix[np.ix_(varying, varying)] = (vectors / np.sqrt(values)) @ vectors.T
    return matrix, float(shrinkage)


def _finish(
    kind: MetricKind, mean: Floats, matrix: Floats, shrinkage: float, constant: NDArray[np.bool_]
) -> Whitening:
    return Whitening(
        kind,
        torch.from_numpy(mean.astype(np.float64)),
        torch.from_numpy(np.ascontiguousarray(matrix, dtype=np.float64)),
        shrinkage,
        int(constant.sum()),
    )
