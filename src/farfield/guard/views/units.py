"""Inputs in units of their data: the coordinates that views measure in.

``u(x) = W (x - mean)``. ``W`` never has a kernel: an input that moves without limit moves without
limit in ``u`` as well, or no promise could hold *for every input*. Columns that never vary and
directions that the data does not span therefore get a unit of their own. Wide inputs are described
by their principal components, with the length of what those miss as a further coordinate.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from farfield.shrinkage import ledoit_wolf

Kind = Literal["full", "diagonal", "isotropic", "principal"]
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
# Standardised values are cut off here, so that neither products nor squares ever overflow.
LARGEST = 1e100
# Principal components that stand for wide inputs.
COMPONENTS = 60
# They are found on at most so many rows.
FITTED_ROWS = 5000


class Units(nn.Module):
    """Maps ``(rows, columns)`` float64 to units, ``(rows, units)``.

    Args:
        kind: ``"full"`` (a matrix), ``"diagonal"`` (a unit for each column), ``"isotropic"`` (one
            unit for all), or ``"principal"`` (components, and the length of the rest).
        mean: ``(columns,)``.
        unit: ``(columns,)`` standard deviations.
        matrix: ``(columns, units)`` on standardised rows; ``None`` where they are units already.
        spread: ``(components + 1,)`` for ``"principal"``: deviations of the components, whose
            directions are the columns of ``matrix``, and of the length of the rest.
    """

    mean: Tensor
    unit: Tensor
    matrix: Tensor | None
    spread: Tensor | None

    def __init__(
        self,
        kind: Kind,
        mean: Tensor,
        unit: Tensor,
        matrix: Tensor | None = None,
        spread: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.kind: Kind = kind
        self.register_buffer("mean", mean.double())
        self.register_buffer("unit", unit.double())
        self.register_buffer("matrix", None if matrix is None else matrix.double())
        self.register_buffer("spread", None if spread is None else spread.double())

    def standard(self, rows: Tensor) -> Tensor:
        """``(x - mean) / unit``, cut off where products could overflow."""
        return ((rows - self.mean) / self.unit).clamp(-LARGEST, LARGEST)

    def forward(self, rows: Tensor) -> Tensor:
        """Map rows to units."""
        return self.of_standard(self.standard(rows))

    def of_standard(self, standard: Tensor) -> Tensor:
        """Map standardised rows to units."""
        if self.matrix is None:
            return standard
        units = standard @ self.matrix
        if self.spread is None:
            return units
        rest = standard.square().sum(dim=1, keepdim=True) - units.square().sum(dim=1, keepdim=True)
        return torch.cat([units, rest.clamp(min=0.0).sqrt()], dim=1) / self.spread

    def back(self, units: Tensor) -> Tensor:
        """Standardised rows at places in units; the rest of principal components is left out."""
        if self.matrix is None:
            return units
        if self.spread is not None:
            return (units * self.spread)[:, :-1] @ self.matrix.T
        back: Tensor = torch.linalg.solve(self.matrix.T, units.T).T
        return back

    def inputs(self, units: Tensor) -> Tensor:
        """Inputs at places in units."""
        return self.back(units) * self.unit + self.mean

    def condition(self) -> float:
        """How much rounding errors of ``W (x - mean)`` can grow: the norm of ``|W| |W^-1|``."""
        if self.matrix is None:
            return 1.0
        inverse, failed = torch.linalg.inv_ex(self.matrix)
        if bool(failed):
            return math.inf
        return float(torch.linalg.matrix_norm(self.matrix.abs() @ inverse.abs()))

    def shortest(self) -> float:
        """The least length in units of a standardised row of length one."""
        if self.matrix is None:
            return 1.0
        return float(torch.linalg.svdvals(self.matrix).min()) * (1 - 1e-9)

    def describe(self) -> str:
        """Say the metric in words."""
        return {
            "full": "Mahalanobis distance, by the shrunk covariance",
            "diagonal": "Euclidean distance, each column in its standard deviations",
            "isotropic": "Euclidean distance, in root mean square standard deviations",
            "principal": "principal components, and the length of what they miss",
        }[self.kind]


def fit_units(rows: Floats, kind: MetricKind | None = None) -> Units:
    """Estimate units without a kernel.

    Args:
        rows: ``(rows, columns)``, finite.
        kind: The metric; if not given, full where rows are many and columns few, else diagonal.

    >>> rows = np.array([[0.0, 7.0], [2.0, 7.0], [4.0, 7.0]])
    >>> units = fit_units(rows, "diagonal")
    >>> units.mean.tolist()
    [2.0, 7.0]
    >>> units(torch.tensor([[2.0, 7.07]], dtype=torch.float64)).numpy().round(6).tolist()
    [[0.0, 1.0]]
    """
    count, columns = rows.shape
    if kind is None:
        few = count < ROWS_PER_COLUMN * columns or columns > MOST_COLUMNS
        kind = "diagonal" if few else "full"
    mean, unit = column_units(rows)
    if kind == "isotropic":
        common = math.sqrt(float(np.square(rows.std(axis=0)).mean()))
        unit = np.full(columns, common if common > 0 else float(unit.mean()))
    matrix = _decorrelate((rows - mean) / unit) if kind == "full" and columns else None
    return Units(
        kind,
        torch.from_numpy(mean),
        torch.from_numpy(unit),
        None if matrix is None else torch.from_numpy(matrix),
    )


def column_units(rows: Floats) -> tuple[Floats, Floats]:
    """Mean and unit of each column: its standard deviation, or a share of its only value."""
    mean = rows.mean(axis=0).astype(np.float64)
    spread = rows.std(axis=0).astype(np.float64)
    constant = spread <= NO_VARIATION * np.abs(mean)
    own = CONSTANT_UNIT * np.where(mean == 0, 1.0, np.abs(mean))
    return mean, np.where(constant, own, spread)


def reduce(units: Units, rows: Floats, seed: int) -> Units | None:
    """Principal components for wide inputs; ``None`` where the units are narrow enough."""
    columns = rows.shape[1]
    if columns <= COMPONENTS or len(rows) <= COMPONENTS:
        return None
    from sklearn.decomposition import PCA  # takes a second to load, and few tables are so wide

    standard = units.standard(torch.from_numpy(rows)).numpy()
    analysis = PCA(COMPONENTS, svd_solver="randomized", random_state=seed)
    vectors = np.ascontiguousarray(analysis.fit(standard[:FITTED_ROWS]).components_.T)
    found = standard @ vectors
    rest = np.sqrt(np.maximum(np.square(standard).sum(axis=1) - np.square(found).sum(axis=1), 0))
    spread = np.append(found.std(axis=0), rest.std())
    spread = np.maximum(spread, 1e-3 * float(spread.max()) or 1.0)
    return Units(
        "principal", units.mean, units.unit, torch.from_numpy(vectors), torch.from_numpy(spread)
    )


def _decorrelate(standard: Floats) -> Floats:
    """Inverse square root of the shrunk correlation of standardised rows (Ledoit and Wolf 2004)."""
    matrix = np.eye(standard.shape[1])
    # Standardised columns vary by one, or by no more than rounding.
    varying = np.flatnonzero(standard.std(axis=0) > 0.5)
    if len(varying) == 0 or len(standard) < 2:
        return matrix
    covariance = ledoit_wolf(standard[:, varying], centred=True)
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, LEAST_VARIANCE * values.mean())
    matrix[np.ix_(varying, varying)] = (vectors / np.sqrt(values)) @ vectors.T
    return matrix
