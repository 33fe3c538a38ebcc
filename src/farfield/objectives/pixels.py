"""Images as the networks of Hein et al. 2019 see them: numbers in [0, 1], channels first."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from farfield.errors import InputError

# Bytes hold 0 to 255; the papers divide by it and do nothing else.
BRIGHTEST = 255


def to_unit(images: Tensor) -> Tensor:
    """Divide bytes by 255; leave floating-point images as they are.

    >>> to_unit(torch.tensor([0, 51, 255], dtype=torch.uint8)).tolist()
    [0.0, 0.20000000298023224, 1.0]
    """
    return images / BRIGHTEST if images.dtype == torch.uint8 else images


def check_images(images: NDArray[Any] | Tensor, name: str = "images") -> Tensor:
    """Return images as a tensor, bytes or float32, or say what is wrong with them.

    Args:
        images: ``(points, channels, height, width)``, bytes or numbers in [0, 1].
        name: What to call them in an error.

    Raises:
        InputError: For another shape or dtype, no images, NaN, or numbers outside of [0, 1].

    >>> check_images(torch.full((1, 1, 2, 2), 255.0))
    Traceback (most recent call last):
    farfield.errors.InputError: images must lie in [0, 1], got values from 255 to 255; ...
    """
    tensor = torch.from_numpy(np.ascontiguousarray(images)) if _is_numpy(images) else images
    if not isinstance(tensor, Tensor):
        raise InputError(f"{name} must be an array or a tensor, got {type(images).__name__}")
    if tensor.dim() != 4 or not tensor.numel():
        raise InputError(
            f"{name} must have shape (points, channels, height, width) with at least one image, "
            f"got {tuple(tensor.shape)}; gray images need a channel: images[:, None]"
        )
    if tensor.dtype == torch.uint8:
        return tensor
    if not tensor.is_floating_point():
        raise InputError(
            f"{name} must be uint8 or floating point, got {tensor.dtype}; bytes in a wider type "
            f"become images with {name}.astype('uint8')"
        )
    check_unit(tensor.amin(), tensor.amax(), name)
    return tensor.float()


def check_unit(low: Tensor, high: Tensor, name: str = "images") -> None:
    """Refuse a range that leaves [0, 1], and offer the way back into it."""
    least, most = float(low.min()), float(high.max())
    if least >= 0 and most <= 1:
        return
    if not (np.isfinite(least) and np.isfinite(most)):
        raise InputError(f"{name} hold NaN or infinite values; remove or repair such images")
    fix = (
        f"divide them by {BRIGHTEST}, or pass them as uint8"
        if least >= 0 and 1 < most <= BRIGHTEST
        else "undo the normalisation, or rescale them with (x - x.min()) / (x.max() - x.min())"
    )
    raise InputError(f"{name} must lie in [0, 1], got values from {least:.4g} to {most:.4g}; {fix}")


def _is_numpy(images: object) -> bool:
    return isinstance(images, np.ndarray)


def augment(
    images: Tensor, generator: np.random.Generator, *, padding: int = 4, mirror: bool = False
) -> Tensor:
    """Return a random crop of every image padded with black, mirrored half of the time.

    Args:
        images: ``(points, channels, height, width)``, bytes or numbers.
        generator: Where the random numbers come from.
        padding: Pixels added on every side before the crop; 0 for no crop.
        mirror: Whether to mirror left and right.

    >>> images = torch.arange(4.0).view(1, 1, 2, 2)
    >>> augment(images, np.random.default_rng(0), padding=0).equal(images)
    True
    """
    count, channels, height, width = images.shape
    if padding:
        wide = functional.pad(images, (padding,) * 4)
        corner = torch.from_numpy(generator.integers(2 * padding + 1, size=(2, count)))
        rows = corner[0, :, None] + torch.arange(height)
        columns = corner[1, :, None] + torch.arange(width)
        images = wide[
            torch.arange(count)[:, None, None, None],
            torch.arange(channels)[None, :, None, None],
            rows[:, None, :, None],
            columns[:, None, None, :],
        ]
    if mirror:
        turned = torch.from_numpy(generator.random(count) < 0.5)
        images = torch.where(turned[:, None, None, None], images.flip(3), images)
    return images
