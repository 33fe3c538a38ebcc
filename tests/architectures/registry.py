"""The list of architectures: what each is called, how it is made, what is expected of it."""

from dataclasses import dataclass

import torch
from torch import nn

ARCHITECTURES = {}


@dataclass(frozen=True)
class Architecture:
    """One model that people write.

    Attributes:
        name: Unique.
        family: The file it is in.
        build: Makes the module.
        shape: Of one row of its input.
        categories: How many values each of the first columns takes; the other columns are numbers.
        rate: The power of ``1 / t`` with which its limit is approached.
    """

    name: str
    family: str
    build: object
    shape: tuple
    categories: tuple = ()
    rate: float = 1.0

    def module(self):
        """Make the model in double precision, in evaluation mode, always with the same weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(sum(map(ord, self.name)))
            module = self.build().double().eval()
            _vary(module)
        return module

    def rays(self, count=3):
        """Origins and directions; categories have one of their values and do not move."""
        generator = torch.Generator().manual_seed(5)
        origins, directions = torch.randn(
            2, count, *self.shape, generator=generator, dtype=torch.float64
        )
        for column, values in enumerate(self.categories):
            origins[:, column] = torch.randint(values, (count,), generator=generator).double()
            directions[:, column] = 0.0
        return origins, directions


def architecture(*shape, name=None, categories=(), rate=1.0):
    """Put what makes a module on the list; its function's or class's name is its own."""

    def put(build):
        label = name or build.__name__
        if label in ARCHITECTURES:
            raise ValueError(f"there are two architectures called {label}")
        family = build.__module__.rpartition(".")[2]
        ARCHITECTURES[label] = Architecture(label, family, build, shape, categories, rate)
        return build

    return put


def _vary(module):
    """Move whatever starts at zero or one, such as the statistics and scales of norms."""
    for parameter in module.parameters():
        if parameter.ndim <= 1:
            parameter.data += 0.2 * torch.randn_like(parameter)
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.running_mean.normal_(0.0, 0.3)
            part.running_var.uniform_(0.5, 2.0)
