"""Random crops and mirror images, on tensors."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional


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
