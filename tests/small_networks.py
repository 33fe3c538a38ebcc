"""Random networks in double precision that several tests share."""

import itertools

import torch
from torch import nn

import farfield as ff
from farfield.networks.resnet import PreActResNet20, Unit


def dense(seed, *widths, act=nn.ReLU, bias=1.0):
    """He-normal weights, normal biases."""
    generator = torch.Generator().manual_seed(seed)
    layers = []
    for inputs, width in itertools.pairwise(widths):
        layer = nn.Linear(inputs, width, dtype=torch.float64)
        layer.weight.data.normal_(0, (2 / inputs) ** 0.5, generator=generator)
        layer.bias.data.normal_(0, bias, generator=generator)
        layers += [layer, act()]
    return nn.Sequential(*layers[:-1])


def mlp(*sizes, seed=0, gain=1.5):
    """Weights of a given gain, standard normal biases."""
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for a, b in itertools.pairwise(sizes):
        layer = nn.Linear(a, b, dtype=torch.float64)
        layer.weight.data = torch.randn(b, a, generator=generator, dtype=torch.float64)
        layer.weight.data *= gain / a**0.5
        layer.bias.data = torch.randn(b, generator=generator, dtype=torch.float64)
        parts += [layer, nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def short_resnet():
    """The pre-activation ResNet with one unit of each kind: as wide, and with a stride."""
    module = PreActResNet20(classes=3)
    module.units = nn.Sequential(Unit(16, 16, 1, shared=True), Unit(16, 64, 2, shared=False))
    return module


def captured(module, *shape):
    """Capture a module that takes rows of a shape."""
    return ff.capture(module, torch.zeros(1, *shape, dtype=torch.float64))
