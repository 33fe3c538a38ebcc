"""Networks of operations that change growth, and what they are far out in many digits."""

import contextlib
import functools

import torch
from flint import arb, arb_mat, ctx
from torch import nn

import farfield as ff
from campaigns.exact_numbers import Numbers
from campaigns.exact_operations import evaluate
from growth_cases import GROWN


class Fixture(nn.Module):
    """A random affine map into the operation's input shape, then the operation, then another."""

    def __init__(self, shape, function, seed):
        super().__init__()
        self.shape, self.function = shape, function
        generator = torch.Generator().manual_seed(seed)
        self.entry = nn.Linear(3, torch.Size(shape).numel(), dtype=torch.float64)
        size = function(torch.ones(1, *shape, dtype=torch.float64)).numel()
        self.exit = nn.Linear(size, 3, dtype=torch.float64)
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)

    def forward(self, x):
        out = self.function(self.entry(x).view(-1, *self.shape))
        return self.exit(out.flatten(1))


@functools.cache
def grown(target):
    """The fixture of an operation that changes growth, and what is captured of it; once."""
    module = Fixture(*GROWN[target], 1)
    return module, ff.capture(module, torch.zeros(1, 3, dtype=torch.float64))


def rays(count=4, width=3):
    """Origins and directions; one of them moves a single feature."""
    generator = torch.Generator().manual_seed(0)
    origin = torch.randn(count, width, generator=generator, dtype=torch.float64)
    direction = torch.randn(count, width, generator=generator, dtype=torch.float64)
    direction[0, 1:] = 0
    return origin, direction


@contextlib.contextmanager
def digits(count=400):
    """Compute with so many."""
    old, ctx.dps = ctx.dps, count
    try:
        yield
    finally:
        ctx.dps = old


def expected(network, origin, direction, t, index=0):
    """The logits at ``t``, a number or one per ray, in many digits, by definitions alone."""
    numbers = Numbers("balls")
    at = numbers.array(t)[:, None] if isinstance(t, torch.Tensor) else arb(t)
    points = numbers.array(origin) + numbers.array(direction) * at
    group = network.groups[0]
    return evaluate(group.program, group.instance(index), points, numbers)


def exact_coefficients(network, origin, direction, t, order, index=0):
    """Those of all orders from the highest down to 0, by evaluations at as many large ``t``.

    What is left out falls like ``1 / t``. As ``(orders, rays * outputs)`` balls.
    """
    points = [t * 2**place for place in range(order + 1)]
    powers = arb_mat([[arb(at) ** each for each in range(order, -1, -1)] for at in points])
    values = [expected(network, origin, direction, at, index) for at in points]
    return powers.solve(arb_mat([list(value.ravel()) for value in values]))


def coefficients(network, origin, direction, t, order):
    """The same as a tensor, ``(orders, rays, outputs)``."""
    found = exact_coefficients(network, origin, direction, t, order)
    rows = [
        [float(found[row, column]) for column in range(found.ncols())] for row in range(order + 1)
    ]
    return torch.tensor(rows, dtype=torch.float64).reshape(order + 1, len(origin), -1)


def farthest_off(network, origin, direction, order, places, index=0):
    """How far any logit is off its asymptote at each of ``(places, rays)`` distances at most."""
    with digits():
        found = exact_coefficients(network, origin, direction, 10**60, order, index)
        return max(
            _off(found, t, expected(network, origin, direction, t, index), order) for t in places
        )


def _off(found, t, values, order):
    """The largest distance between logits and their asymptotes."""
    width, most = values.shape[1], 0.0
    for ray, row in enumerate(values):
        powers = [arb(float(t[ray])) ** each for each in range(order, -1, -1)]
        for column, value in enumerate(row):
            line = sum(p * found[k, ray * width + column] for k, p in enumerate(powers))
            most = max(most, float(abs(value - line).upper()))
    return most
