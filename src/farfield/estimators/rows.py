"""Rows of data as the trainer reads them, how features are scaled, and how rows are shuffled."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import InputError
from farfield.networks.streams import Streams
from farfield.objectives import Batch
from farfield.objectives.likelihood import Likelihood

# Numbers gathered at once; bounds the memory of shuffled copies to 32 MB.
BLOCK = 8_000_000
# Tables of at most so many columns are stored column by column: matrix products with few columns
# are slow otherwise. More columns are gathered faster row by row.
NARROW = 16


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


class TrainingTable:
    """All rows side by side, ``[inputs | 1 | targets | weight]``: one gather shuffles them.

    The column of ones makes the inputs homogeneous coordinates, which carry a layer's bias.

    Args:
        rows: The training data.
        likelihood: What the network's outputs mean.
        shuffle: The members' streams for the order of the rows.
        batch_size: Rows per step; ``None`` for all.
        balance: Weight classes by the inverse of their count in each batch.
    """

    def __init__(
        self,
        rows: TrainingRows,
        likelihood: Likelihood,
        shuffle: Streams,
        batch_size: int | None,
        *,
        balance: bool,
    ) -> None:
        flat = rows.inputs.flatten(1)
        columns = [flat, torch.ones(len(rows), 1), rows.targets]
        self._weighted = rows.weights is not None
        if rows.weights is not None:
            columns.append(rows.weights.unsqueeze(1))
        self._ones = flat.shape[1]
        self._data = rows.inputs
        self._range = rows.inputs.amin(0), rows.inputs.amax(0)
        self.likelihood = likelihood
        self._targets = rows.targets.shape[1]
        values = torch.cat(columns, dim=1)
        self._narrow = values.shape[1] <= NARROW
        self._values = values.mT.contiguous().mT if self._narrow else values
        self._shuffle = shuffle
        self.batch_size = len(rows) if batch_size is None else min(batch_size, len(rows))
        self._balance = balance

    def parts(self) -> Iterator[Tensor]:
        """Yield one pass over the rows, ``(members, rows, columns)`` at a time."""
        count, columns = self._values.shape
        members = len(self._shuffle)
        if self.batch_size == count:
            # The order of the rows of a full batch does not matter.
            yield self._values.expand(members, count, columns)
            return
        order = self._shuffle.permutations(count)
        block = self.batch_size * max(1, BLOCK // (members * columns * self.batch_size))
        for start in range(0, count, block):
            chosen = order[:, start : start + block]
            yield from torch.split(self._gather(chosen), self.batch_size, dim=1)

    def _gather(self, chosen: Tensor) -> Tensor:
        """Return the chosen rows of every member, stored the way the table is."""
        if self._narrow:
            gathered = self._values.mT.index_select(1, chosen.flatten())
            return gathered.view(-1, *chosen.shape).permute(1, 2, 0)
        return self._values.index_select(0, chosen.flatten()).view(*chosen.shape, -1)

    def homogeneous(self, part: Tensor) -> Tensor:
        """Return the inputs with a column of ones, ``(members, rows, inputs + 1)``."""
        return part[..., : self._ones + 1]

    def targets(self, part: Tensor) -> Tensor:
        """Return the targets, ``(members, rows, targets)``."""
        return part[..., self._ones + 1 : self._ones + 1 + self._targets]

    def weights(self, part: Tensor) -> Tensor | float:
        """Return the rows' weights in the loss, ``(members, rows)``, or one for all."""
        rows = part.shape[1]
        weights = part[..., -1] / rows if self._weighted else 1 / rows
        if self._balance:
            targets = self.targets(part)
            if targets.shape[2] == 1:
                targets = torch.cat([1 - targets, targets], dim=2)
            counts = targets.sum(1, keepdim=True)
            present = (counts > 0).sum(2, keepdim=True)
            weights = weights * (targets * rows / (counts.clamp_min(1) * present)).sum(2)
        return weights

    def batch(self, part: Tensor) -> Batch:
        """Return what objectives are called with."""
        weights = self.weights(part)
        if not isinstance(weights, Tensor):
            weights = part.new_full(part.shape[:2], weights)
        return Batch(
            inputs=part[..., : self._ones].reshape(*part.shape[:2], *self._data.shape[1:]),
            targets=self.targets(part),
            weights=weights,
            low=self._range[0],
            high=self._range[1],
            likelihood=self.likelihood,
            data=self._data,
        )
