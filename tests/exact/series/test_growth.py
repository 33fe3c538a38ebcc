"""Every operation that changes growth against its definition in many digits, far out."""

import pytest
import torch

import farfield as ff
from growth_cases import GROWN
from growth_referee import coefficients, digits, grown, rays

FAR = (10**20, 10**40)


def check_far_field(network, origin, direction):
    """Every coefficient down to order 0 is the model's own."""
    far = ff.at_infinity(network, origin, direction)
    order = max(int(far.order.max()), 1)
    found = dict(zip(far.powers, () if far.growth is None else far.growth[:, 0], strict=True))
    found |= {1.0: far.slope[0], 0.0: far.intercept[0]}
    assert all(power.is_integer() for power in found)
    series = torch.stack([found.get(power, 0 * far.slope[0]) for power in range(order, -1, -1)])
    with digits():
        for t in FAR:
            exact = coefficients(network, origin, direction, t, order)
            scale = float(exact.abs().max())
            torch.testing.assert_close(series[-order - 1 :], exact, rtol=1e-9, atol=1e-11 * scale)
    return far


@pytest.mark.parametrize(
    "target", [pytest.param(target, id=str(target).split(" at ")[0]) for target in GROWN]
)
def test_series_equal_the_definition_far_out(target):
    module, network = grown(target)
    origin, direction = rays()
    far = check_far_field(network, origin, direction)
    assert bool(far.asymptotic.all())
    torch.testing.assert_close(network.logits(origin)[0], module(origin).detach())
