"""The LeNet of Hein et al. 2019 for 28 x 28 images."""

from __future__ import annotations

from torch import nn


def lenet(classes: int = 10, channels: int = 1) -> nn.Sequential:
    """Build the network: two 5 x 5 convolutions with max pooling, 1024 hidden units.

    No batch norm and no dropout; input ``(rows, channels, 28, 28)``, logits out.

    >>> sum(p.numel() for p in lenet().parameters())
    3274634
    """
    return nn.Sequential(
        nn.Conv2d(channels, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 7 * 7, 1024),
        nn.ReLU(),
        nn.Linear(1024, classes),
    )
