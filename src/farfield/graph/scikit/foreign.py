"""Functions of a row that a fitted object computes itself: its own numbers, bit by bit."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.graph.rules import RowFunction
from farfield.graph.scikit.registry import takes_gaps

Floats = NDArray[np.float64]
# How far beside a place its neighbours are asked, and by how much they may differ from one another.
BESIDE, JUMP = 1e-9, 1e-5


def unnamed(model: Any) -> Any:
    """A copy of a fitted object that takes plain arrays without a word about column names."""
    plain = copy.copy(model)
    for name in ("feature_names_in_", "_sklearn_output_config"):
        vars(plain).pop(name, None)
    return plain


def ask(model: Any, method: str, rows: Tensor) -> Tensor:
    """What a fitted object answers to rows; NaN where these are no numbers that it takes."""
    array = as_array(rows)
    usable = np.isfinite(array) | (np.isnan(array) & takes_gaps(model))
    bad = np.logical_not(usable.all(axis=1))
    answers = as_tensor(getattr(model, method)(np.where(bad[:, None], 0.0, array)), rows)
    answers[torch.from_numpy(bad)] = torch.nan
    return answers


def as_array(rows: Tensor) -> Floats:
    """Rows as NumPy has them."""
    array: Floats = rows.detach().cpu().double().numpy()
    return array


def as_tensor(values: Any, like: Tensor) -> Tensor:
    """What a fitted object answers, as a tensor."""
    return torch.from_numpy(np.ascontiguousarray(dense(values))).to(like)


def dense(matrix: Any) -> Floats:
    """A matrix of a model, sparse or not; what a sparse one claims is checked before it is used."""
    if hasattr(matrix, "toarray"):
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
        matrix = matrix.toarray()
    return np.asarray(matrix, dtype=np.float64)


class FlatCurves(RowFunction):
    """Functions of single columns that are constant beyond both ends of an interval.

    Args:
        model: A fitted transformer that applies them.
        low: ``(columns,)`` where they start to vary.
        high: ``(columns,)`` where they cease to.
    """

    arrives = True
    by_order = True

    def __init__(self, model: Any, low: Any, high: Any) -> None:
        self.model = unnamed(model)
        self.low = torch.as_tensor(np.array(low, dtype=np.float64))
        self.high = torch.as_tensor(np.array(high, dtype=np.float64))

    def __call__(self, rows: Tensor) -> Tensor:
        """Ask the transformer."""
        return ask(self.model, "transform", rows)

    def limit(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Put columns that move beyond the end that they move to."""
        beyond = (self.high - self.low).abs() + 1.0
        ends = torch.where(slope > 0, self.high + beyond, self.low - beyond).to(intercept)
        return self(torch.where(slope == 0, intercept, ends))

    def steady(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Where a curve does not rise at once: it may jump between two places."""
        apart = BESIDE * (1 + intercept.abs())
        below, above = (self.limit(slope, intercept + sign * apart) for sign in (-1, 1))
        return (above - below).abs().amax(dim=1) <= JUMP

    def settles(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """The last column to cross its end."""
        end = torch.where(slope > 0, self.high, self.low).to(slope)
        crossing = ((end - intercept) / slope).masked_fill(slope == 0, 0.0)
        return crossing.amax(dim=1).clamp(min=0.0)
