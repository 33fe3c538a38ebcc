"""Noise for tables: what permuted and uniform pixels are for images, for columns."""

import math
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor

from farfield.errors import InputError

TableNoiseKind = Literal["mixed", "permuted", "uniform", "gaussian"]

# Rows from which a covariance is taken; a fresh choice for every draw.
COVARIANCE_ROWS = 512


@final
@dataclass(frozen=True, slots=True)
class TableNoise:
    """Rows that are no data.

    * ``"permuted"``: every column has its own distribution, and none of the others' company:
      each entry comes from a random row. In a table of few columns much of this is data.
    * ``"uniform"``: over the box ``[low - widen * range, high + widen * range]`` of each column.
    * ``"gaussian"``: the data's mean, and ``inflation`` times its covariance.
    * ``"mixed"``: half uniform, half Gaussian.

    Attributes:
        kind: One of these names.
        widen: How far the box goes beyond the data, in ranges of the column.
        inflation: Factor on the covariance; 36 is six times the standard deviations. Much smaller
            factors leave noise among the data, which costs accuracy.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> data = torch.tensor([[0.0, 10.0], [1.0, 30.0]])
        >>> noise = TableNoise("uniform", widen=0.5)(data, 1000, generator)
        >>> bool((noise.amin(0) >= torch.tensor([-0.5, 0.0])).all())
        True
    """

    kind: TableNoiseKind = "mixed"
    widen: float = 0.5
    inflation: float = 36.0

    def __post_init__(self) -> None:
        if not 0 <= self.widen < math.inf:
            raise InputError(f"widen must be a number >= 0, got {self.widen!r}")
        if not 0 < self.inflation < math.inf:
            raise InputError(f"inflation must be a positive number, got {self.inflation!r}")

    def __call__(
        self,
        data: Tensor,
        count: int,
        generator: torch.Generator,
        bounds: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Draw ``(count, features)`` rows.

        Args:
            data: ``(rows, features)`` the training data.
            count: How many to draw.
            generator: Where the random numbers come from.
            bounds: Least and largest value of every column, where they are known already.
        """
        if data.dim() != 2 or not data.numel() or count < 1:
            raise InputError(
                "noise rows need data of shape (rows, features) and a positive count, got shape "
                f"{tuple(data.shape)} and count {count}"
            )
        if self.kind == "permuted":
            return permute_columns(data, count, generator)
        uniform = {"uniform": count, "gaussian": 0, "mixed": (count + 1) // 2}[self.kind]
        parts = []
        if uniform:
            low, high = bounds or (data.amin(0), data.amax(0))
            parts.append(self._uniform(low, high, uniform, generator))
        if uniform < count:
            parts.append(self._gaussian(data, count - uniform, generator))
        return torch.cat(parts)

    def _uniform(self, low: Tensor, high: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Draw from the widened box."""
        margin = self.widen * (high - low)
        shares = torch.rand(count, len(low), generator=generator).to(low)
        return low - margin + shares * (high - low + 2 * margin)

    def _gaussian(self, data: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Weight centred rows with normal numbers: their covariance, without its matrix."""
        if len(data) < 2:
            raise InputError(
                "gaussian noise needs at least two rows for a covariance, got 1; use "
                "noise='uniform'"
            )
        rows = data
        if len(data) > COVARIANCE_ROWS:
            rows = data[torch.randint(len(data), (COVARIANCE_ROWS,), generator=generator)]
        mean = rows.mean(0)
        weights = torch.randn(count, len(rows), generator=generator).to(data)
        scale = math.sqrt(self.inflation / (len(rows) - 1))
        return mean + scale * (weights @ (rows - mean))


def permute_columns(data: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Take each entry from a random row of its column, ``(count, features)``.

    Raises:
        InputError: For a table of one column or one row, where this gives the data back.
    """
    rows, features = data.shape
    if features < 2 or rows < 2:
        raise InputError(
            "permuting columns needs at least two columns and two rows, otherwise it gives the "
            f"data back; got n_features={features}, n_samples={rows}; use noise='uniform' or "
            "noise='gaussian'"
        )
    chosen = torch.randint(rows, (count, features), generator=generator)
    return data.gather(0, chosen)
