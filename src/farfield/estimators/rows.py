"""Rows of data as the trainer reads them, and how features are scaled."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import InputError


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """Inputs, targets and weights of the same rows.

    Attributes:
        inputs: ``(rows, *features)`` float32, already scaled.
        targets: ``(rows, targets)`` float32.
        weights: ``(rows,)`` float32 with mean one, or ``None`` for equal weights.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor | None = None

    def __len__(self) -> int:
        return self.inputs.shape[0]

    def __getitem__(self, index: Tensor) -> "TrainingRows":
        weights = None if self.weights is None else self.weights[index]
        return TrainingRows(self.inputs[index], self.targets[index], weights)


@dataclass(frozen=True, slots=True)
class Scaling:
    """``(x - shift) / scale`` for every feature.

    Example:
        >>> scaling = Scaling.of(np.array([[1.0, 5.0], [3.0, 5.0]]))
        >>> scaling.shift.tolist(), scaling.scale.tolist()
        ([2.0, 5.0], [1.0, 1.0])
    """

    shift: NDArray[Any]
    scale: NDArray[Any]

    @classmethod
    def of(cls, values: NDArray[Any]) -> "Scaling":
        """Measure mean and standard deviation; a constant column keeps its scale."""
        shift = values.mean(axis=0, dtype=np.float64)
        scale = values.std(axis=0, dtype=np.float64)
        # Rounding makes the deviation of a constant column tiny rather than zero.
        constant = scale <= 1e-12 * np.abs(shift)
        return cls(shift, np.where(constant, 1.0, scale))

    @classmethod
    def none(cls, features: tuple[int, ...]) -> "Scaling":
        """Leave the features as they are."""
        return cls(np.zeros(features), np.ones(features))

    def apply(self, values: NDArray[Any]) -> Tensor:
        """Scale in float64 and round once to float32."""
        if not self.shift.any() and (self.scale == 1).all():
            scaled = values
        else:
            scaled = (values - self.shift) / self.scale
        with np.errstate(over="ignore"):
            scaled = scaled.astype(np.float32)
        if not np.isfinite(scaled).all():
            raise InputError(
                f"values up to {np.abs(values).max():.3g} leave the range of float32; "
                "rescale the features or set standardize=True"
            )
        return torch.from_numpy(scaled)


def normalize_weights(weights: NDArray[Any]) -> Tensor:
    """Scale weights to mean one."""
    return torch.from_numpy((weights / weights.mean()).astype(np.float32))
