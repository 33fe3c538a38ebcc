"""Noise images of Hein et al. 2019: permuted or uniform pixels, smoothed, stretched to [0, 1]."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, final

import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.objectives.pixels import to_unit

ImageNoiseKind = Literal["mixed", "permuted", "uniform"]

# Standard deviations after which a Gaussian filter is cut off.
CUT = 4.0


@final
@dataclass(frozen=True, slots=True)
class ImageNoise:
    """Low-frequency noise of the same shape as the images.

    Pixels are permuted (one permutation per image, the same for all channels) or uniform; a
    Gaussian filter takes the high frequencies, one ``sigma ~ U[smallest, largest]`` per draw;
    then the range of every image is stretched to [0, 1] (Hein et al. 2019, Section 5).

    Attributes:
        kind: ``"permuted"``, ``"uniform"``, or ``"mixed"``: half of each.
        smallest_sigma: Least standard deviation of the filter, in pixels.
        largest_sigma: Largest; 0 for no filter and no stretching.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> noise = ImageNoise()(torch.rand(5, 3, 8, 8), 4, generator)
        >>> noise.shape, noise.amin((1, 2, 3)).tolist(), noise.amax((1, 2, 3)).tolist()
        (torch.Size([4, 3, 8, 8]), [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0])
    """

    kind: ImageNoiseKind = "mixed"
    smallest_sigma: float = 1.0
    largest_sigma: float = 2.5

    def __post_init__(self) -> None:
        if not 0 <= self.smallest_sigma <= self.largest_sigma < math.inf:
            raise InputError(
                "the filter's sigma needs 0 <= smallest <= largest, got "
                f"{self.smallest_sigma!r} and {self.largest_sigma!r}"
            )

    def __call__(
        self,
        data: Tensor,
        count: int,
        generator: torch.Generator,
        bounds: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Draw ``(count, channels, height, width)`` noise images.

        Args:
            data: ``(rows, channels, height, width)`` images to permute, in [0, 1] or bytes.
            count: How many to draw.
            generator: Where the random numbers come from.
            bounds: Not used: every image is stretched to [0, 1].
        """
        if data.dim() != 4 or not len(data) or count < 1:
            raise InputError(
                f"noise images need data of shape (rows, channels, height, width) and a positive "
                f"count, got shape {tuple(data.shape)} and count {count}"
            )
        permuted = {"permuted": count, "uniform": 0, "mixed": (count + 1) // 2}[self.kind]
        shape = (count - permuted, *data.shape[1:])
        parts = [torch.rand(shape, generator=generator)]
        if permuted:
            chosen = torch.randint(len(data), (permuted,), generator=generator)
            parts.insert(0, permute_pixels(to_unit(data[chosen]), generator))
        pixels = torch.cat(parts)
        gap = self.largest_sigma - self.smallest_sigma
        sigma = self.smallest_sigma + gap * float(torch.rand((), generator=generator))
        return pixels if sigma == 0 else stretch(smooth(pixels, sigma))


def permute_pixels(images: Tensor, generator: torch.Generator) -> Tensor:
    """Give every image its own order of pixels, the same in all channels."""
    flat = images.flatten(2)
    order = torch.rand(len(flat), 1, flat.shape[2], generator=generator).argsort(2)
    return flat.gather(2, order.expand_as(flat)).view_as(images)


def smooth(images: Tensor, sigma: float) -> Tensor:
    """Filter height and width with a Gaussian; beyond the border the image is mirrored.

    >>> flat = torch.full((1, 1, 4, 6), 0.25)
    >>> torch.allclose(smooth(flat, 1.5), flat)
    True
    """
    height, width = images.shape[-2:]
    across, down = _filter(width, sigma).to(images), _filter(height, sigma).to(images)
    result: Tensor = down @ images @ across.T
    return result


def stretch(images: Tensor) -> Tensor:
    """Map the range of every image onto [0, 1]; a constant image stays as it is."""
    low = images.amin((1, 2, 3), keepdim=True)
    span = images.amax((1, 2, 3), keepdim=True) - low
    return torch.where(span > 0, (images - low) / span, images)


@lru_cache(maxsize=8)
def _filter(size: int, sigma: float) -> Tensor:
    """Return the filter as a matrix ``(size, size)`` whose rows sum to one."""
    radius = int(CUT * sigma + 0.5)
    offsets = torch.arange(-radius, radius + 1)
    weights = torch.exp(-0.5 * (offsets / sigma).double().square())
    places = torch.arange(size)[:, None] + offsets
    # The image and its mirror image repeat with period 2 * size.
    places = places.remainder(2 * size)
    places = torch.minimum(places, 2 * size - 1 - places)
    matrix = torch.zeros(size, size, dtype=torch.float64)
    matrix.scatter_add_(1, places, (weights / weights.sum()).expand(size, -1))
    return matrix
