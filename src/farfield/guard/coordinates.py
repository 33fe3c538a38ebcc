"""Coordinates of rows for a quick look, and how far rounding may put them off."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.guard.shapes import ORTHOGONAL, ROOM, Floats, Kind, Singles, share_of, squares_of
from farfield.guard.views.units import Units


@dataclass(frozen=True)
class Linear:
    """Units of rows: ``u = A (x - c) + m``.

    Attributes:
        centres: For rows of 4 and of 8 bytes a number c, ``(columns,)``: the same numbers. Of their
            type, so that rows need not be made another before; in double precision, the mean.
        matrix: ``(columns, units)``, A; or ``(columns,)`` where it is diagonal.
        moved: ``(units,)``, m; ``None`` where it is zero.
        error: How far units may be off.
        bound: How far from zero they are.
        kind: Their precision.
    """

    centres: Mapping[int, Singles]
    matrix: Singles
    moved: Singles | None
    error: float
    bound: float
    kind: Kind

    @classmethod
    def of(cls, units: Units, low: Floats, high: Floats, kind: Kind) -> Linear:
        """Of rows between two ends."""
        mean, unit = units.mean.numpy(), units.unit.numpy()
        single = kind is np.float32
        centre = mean.astype(np.float32).astype(np.float64) if single else mean
        bounds = np.maximum(high - centre, centre - low) * (1.0 + ROOM)
        if units.matrix is None:
            matrix, absolute, moved = 1.0 / unit, bounds / unit, (centre - mean) / unit
        else:
            matrix = units.matrix.numpy() / unit[:, None]
            absolute, moved = bounds @ np.abs(matrix), (centre - mean) @ matrix
        bound = float(np.linalg.norm(absolute + np.abs(moved)))
        return cls(
            {4: centre.astype(np.float32) if single else centre, 8: centre},
            np.ascontiguousarray(matrix, kind),
            moved.astype(kind) if single else None,
            share_of(0 if units.matrix is None else len(mean), kind) * bound,
            bound,
            kind,
        )

    def __call__(self, rows: NDArray[Any]) -> Singles:
        """Units of rows, ``(rows, units)``."""
        centred = rows - self.centres[rows.itemsize]
        centred = centred.astype(self.matrix.dtype, copy=False)
        if self.matrix.ndim == 1:
            centred *= self.matrix
            found = centred
        else:
            found = centred.dot(self.matrix)
        if self.moved is not None:
            found += self.moved
        return found


@dataclass(frozen=True)
class Principal:
    """Principal components of standardised rows, and the length of the rest: ``(P z, N(z))``.

    The squares of the rest are off by a share of those of the whole, and their root may be off by
    as much as all of that; twice, since the exact look loses as much.

    Attributes:
        centre: ``(columns,)``.
        factor: ``(columns,)`` what columns are multiplied by; ``None`` where all have one unit, of
            which the others know.
        matrix: ``(columns, components)``, P.
        scale: What squared lengths are multiplied by.
        spread: ``(components + 1,)`` what views divide coordinates by.
        error: How far coordinates may be off.
        bound: How far from zero they are.
    """

    centre: Floats
    factor: Floats | None
    matrix: Floats
    scale: float
    spread: Floats
    error: float
    bound: float
    kind: Kind = np.float64

    @classmethod
    def of(cls, units: Units, low: Floats, high: Floats) -> Principal:
        """Of rows between two ends."""
        if units.matrix is None or units.spread is None:
            raise AssertionError("principal components have a matrix and deviations")
        matrix, unit = units.matrix.numpy(), units.unit.numpy()
        plain = Units("diagonal", units.mean, units.unit)
        standard = Linear.of(plain, low, high, np.float64)
        columns, count = matrix.shape
        stretch = float(np.linalg.norm(matrix)) + 1.0
        share = share_of(columns, np.float64)
        lost = 4.0 * share * stretch**2 + count * ORTHOGONAL
        error = (share * stretch + 2.0 * math.sqrt(lost)) * standard.bound
        error += standard.error * stretch
        common = bool((unit == unit[0]).all())
        return cls(
            units.mean.numpy(),
            None if common else 1.0 / unit,
            np.ascontiguousarray(matrix / unit[0] if common else matrix),
            float(unit[0]) ** -2 if common else 1.0,
            units.spread.numpy(),
            error,
            standard.bound * stretch,
        )

    def __call__(self, rows: NDArray[Any]) -> Floats:
        """Coordinates of one row, ``(components + 1,)``, or many, ``(rows, components + 1)``."""
        centred = rows.astype(np.float64)
        centred -= self.centre
        if self.factor is not None:
            centred *= self.factor
        own = _product(centred, self.matrix)
        found = np.empty((*own.shape[:-1], own.shape[-1] + 1))
        found[..., :-1] = own
        rest = squares_of(centred) * self.scale - squares_of(own)
        found[..., -1] = np.sqrt(np.maximum(rest, 0.0))
        return found


def _product(rows: Floats, matrix: Floats) -> Floats:
    """PyTorch's product is the quicker one of many rows; doubles have no coarser modes."""
    if rows.ndim == 1:
        return np.asarray(rows.dot(matrix))
    return np.asarray(torch.from_numpy(rows).mm(torch.from_numpy(matrix)))
