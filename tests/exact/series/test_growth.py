"""Every operation that changes growth against its definition in many digits, far out."""

import pytest
import torch
from flint import arb, arb_mat, ctx
from torch import nn

import farfield as ff
from campaigns.exact_numbers import Numbers
from campaigns.exact_operations import evaluate
from growth_cases import GROWN

FAR = (10**20, 10**40)


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


def rays(count=4):
    """Origins and directions; one of them moves a single feature."""
    generator = torch.Generator().manual_seed(0)
    origin = torch.randn(count, 3, generator=generator, dtype=torch.float64)
    direction = torch.randn(count, 3, generator=generator, dtype=torch.float64)
    direction[0, 1:] = 0
    return origin, direction


def expected(network, origin, direction, t):
    """The logits at ``t`` in many digits, by definitions alone."""
    numbers = Numbers("balls")
    points = numbers.array(origin) + numbers.array(direction) * arb(t)
    group = network.groups[0]
    return evaluate(group.program, group.instance(0), points, numbers)


def coefficients(network, origin, direction, t, order):
    """Those of all orders from the highest down to 0, by evaluations at as many large ``t``.

    What is left out falls like ``1 / t``.
    """
    points = [t * 2**place for place in range(order + 1)]
    powers = arb_mat([[arb(at) ** each for each in range(order, -1, -1)] for at in points])
    values = [expected(network, origin, direction, at) for at in points]
    shape = values[0].shape
    right = arb_mat([list(value.ravel()) for value in values])
    found = powers.solve(right)
    rows = [
        [float(found[row, column]) for column in range(values[0].size)] for row in range(order + 1)
    ]
    return torch.tensor(rows, dtype=torch.float64).reshape(order + 1, *shape)


def check_far_field(network, origin, direction):
    """Every coefficient down to order 0 is the model's own."""
    far = ff.at_infinity(network, origin, direction)
    order = max(int(far.order.max()), 1)
    found = dict(zip(far.powers, () if far.growth is None else far.growth[:, 0], strict=True))
    found |= {1.0: far.slope[0], 0.0: far.intercept[0]}
    assert all(power.is_integer() for power in found)
    series = torch.stack([found.get(power, 0 * far.slope[0]) for power in range(order, -1, -1)])
    old, ctx.dps = ctx.dps, 400
    try:
        for t in FAR:
            exact = coefficients(network, origin, direction, t, order)
            scale = float(exact.abs().max())
            torch.testing.assert_close(series[-order - 1 :], exact, rtol=1e-9, atol=1e-11 * scale)
    finally:
        ctx.dps = old
    return far


@pytest.mark.parametrize(
    ("shape", "function"),
    [pytest.param(*case, id=str(target).split(" at ")[0]) for target, case in GROWN.items()],
)
def test_series_equal_the_definition_far_out(shape, function):
    module = Fixture(shape, function, 1)
    origin, direction = rays()
    network = ff.capture(module, origin)
    far = check_far_field(network, origin, direction)
    assert bool(far.asymptotic.all())
    torch.testing.assert_close(network.logits(origin)[0], module(origin).detach())
