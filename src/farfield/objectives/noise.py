"""Noise far from the data, by name: what CEDA and ACET hold the confidence down on.

For images the distributions are those of Hein et al. 2019, Section 5; for tables their
counterparts. Every draw comes from a generator that is passed in.
"""

from typing import Literal, Protocol

import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.objectives.noise_images import ImageNoise
from farfield.objectives.noise_tables import TableNoise

NoiseName = Literal["mixed", "permuted", "uniform", "gaussian"]
IMAGE_KINDS = ("mixed", "permuted", "uniform")
TABLE_KINDS = ("mixed", "permuted", "uniform", "gaussian")


class Noise(Protocol):
    """A distribution of points that are no data."""

    def __call__(
        self,
        data: Tensor,
        count: int,
        generator: torch.Generator,
        bounds: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Draw ``(count, *features)`` with the help of data ``(rows, *features)``.

        ``bounds`` are the least and largest value of every feature, where they are known already.
        """


def noise_for(
    features: int,
    name: NoiseName = "mixed",
    *,
    smallest_sigma: float = 1.0,
    largest_sigma: float = 2.5,
    widen: float = 0.5,
    inflation: float = 36.0,
) -> Noise:
    """Return the distribution of that name for images or for rows of a table.

    Args:
        features: Dimensions of one point: 3 for an image, 1 for a row of a table.
        name: ``"mixed"``, ``"permuted"``, ``"uniform"``, or ``"gaussian"`` (tables only).
        smallest_sigma: As for :class:`ImageNoise`.
        largest_sigma: As for :class:`ImageNoise`.
        widen: As for :class:`TableNoise`.
        inflation: As for :class:`TableNoise`.

    Raises:
        InputError: For a name that does not exist for such points.

    >>> noise_for(1, "gaussian")
    TableNoise(kind='gaussian', widen=0.5, inflation=36.0)
    """
    kinds = IMAGE_KINDS if features == 3 else TABLE_KINDS
    if name not in kinds:
        what = "images" if features == 3 else "tables"
        raise InputError(f"noise for {what} must be one of {', '.join(kinds)}, got {name!r}")
    if features == 3:
        assert name != "gaussian"
        return ImageNoise(name, smallest_sigma, largest_sigma)
    if features == 1:
        return TableNoise(name, widen, inflation)
    raise InputError(
        f"noise is defined for rows of a table (1 dimension) and for images (3 dimensions), got "
        f"points of {features} dimensions; flatten them, or add a channel"
    )
