"""Small parts that many architectures share."""

import torch
from torch import nn


class Apply(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Residual(nn.Module):
    """``x + inner(x)``, or with a shortcut of its own."""

    def __init__(self, *inner, shortcut=None):
        super().__init__()
        self.inner = nn.Sequential(*inner)
        self.shortcut = shortcut or nn.Identity()

    def forward(self, x):
        return self.shortcut(x) + self.inner(x)


class Scaled(nn.Module):
    """Layer scale: every channel times a learnt number."""

    def __init__(self, width, start=0.5):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((width,), start))

    def forward(self, x):
        return self.gamma * x


class Transposed(nn.Module):
    """A module on the last two dimensions the other way around."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x.transpose(1, 2)).transpose(1, 2)


def conv(inputs, outputs, kernel=3, stride=1, groups=1, act=nn.ReLU, norm=nn.BatchNorm2d):
    """Convolution, norm, activation; without one of the last two if it is ``None``."""
    parts = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=norm is None)
    ]
    if norm is not None:
        parts.append(norm(outputs))
    if act is not None:
        parts.append(act())
    return nn.Sequential(*parts)


def pooled(*body, width, classes=4):
    """A convolutional body, global average pooling, a linear head."""
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


def feed_forward(width, hidden, act=nn.GELU):
    """The two layers of a transformer's block."""
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, width))


def patches(width, size=4, channels=3):
    """Cut an image into patches and embed each: ``(rows, tokens, width)``."""
    return nn.Sequential(
        nn.Conv2d(channels, width, size, size),
        Apply(lambda x: x.flatten(2).transpose(1, 2)),
    )
