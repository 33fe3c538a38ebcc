"""The rows of an epoch, shuffled for every member."""

from collections.abc import Iterator

import torch
from torch import Tensor

from farfield.estimators.rows import TrainingRows
from farfield.networks.streams import Streams

# Numbers gathered at once; bounds the memory of shuffled copies to 32 MB.
BLOCK = 8_000_000


class TrainingTable:
    """All rows side by side, ``[inputs | 1 | targets | weight]``: one gather shuffles them.

    The column of ones makes the inputs homogeneous coordinates, which carry a layer's bias.

    Args:
        rows: The training data.
        shuffle: The members' streams for the order of the rows.
        batch_size: Rows per step; ``None`` for all.
    """

    def __init__(self, rows: TrainingRows, shuffle: Streams, batch_size: int | None) -> None:
        flat = rows.inputs.flatten(1)
        columns = [flat, torch.ones(len(rows), 1), rows.targets]
        self.weighted = rows.weights is not None
        if rows.weights is not None:
            columns.append(rows.weights.unsqueeze(1))
        self.ones = flat.shape[1]
        self.data = rows.inputs
        self.low, self.high = rows.inputs.amin(0), rows.inputs.amax(0)
        self._targets = rows.targets.shape[1]
        self._features = rows.inputs.shape[1:]
        self._values = torch.cat(columns, dim=1)
        self._shuffle = shuffle
        self._batch = len(rows) if batch_size is None else min(batch_size, len(rows))

    def parts(self) -> Iterator[Tensor]:
        """Yield one pass over the rows, ``(members, rows, columns)`` at a time."""
        count, columns = self._values.shape
        members = len(self._shuffle)
        if self._batch == count:
            # The order of the rows of a full batch does not matter.
            yield self._values.expand(members, count, columns)
            return
        order = self._shuffle.permutations(count)
        block = self._batch * max(1, BLOCK // (members * columns * self._batch))
        for start in range(0, count, block):
            chosen = order[:, start : start + block]
            gathered = self._values.index_select(0, chosen.flatten())
            yield from torch.split(gathered.view(*chosen.shape, columns), self._batch, dim=1)

    def inputs(self, part: Tensor) -> Tensor:
        """Return the inputs, ``(members, rows, *features)``."""
        return part[..., : self.ones].reshape(*part.shape[:2], *self._features)

    def targets(self, part: Tensor) -> Tensor:
        """Return the targets, ``(members, rows, targets)``."""
        return part[..., self.ones + 1 : self.ones + 1 + self._targets]
