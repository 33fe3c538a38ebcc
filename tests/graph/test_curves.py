"""What rules say of smooth functions, held against the functions in many digits."""

import pytest
import torch
from flint import arb, ctx

from campaigns.exact_curves import elu
from campaigns.exact_numbers import Numbers
from campaigns.exact_operations import OPERATIONS
from farfield.graph.rules import RULES, Smooth

aten = torch.ops.aten
PARAMETERS = {
    aten.softplus.default: [(), (0.5, 20.0), (-3.0, 20.0)],
    aten.elu.default: [(), (2.0, 0.5, 1.5), (-1.0, 1.0, 0.25)],
    aten.celu.default: [(), (0.25,), (3.0,)],
}
CURVES = [
    (target, each)
    for target, rule in RULES.items()
    if rule.kind == "smooth"
    for each in PARAMETERS.get(target, [()])
]
PLACES = [k / 8 for k in range(1, 80)] + [12.0, 20.0, 33.0, 60.0, 100.0]


class Seen:
    """A domain that keeps the curve that a rule hands it."""

    def smooth(self, value: object, curve: Smooth) -> Smooth:
        return curve


@pytest.fixture(autouse=True)
def many_digits():
    old, ctx.dps = ctx.dps, 120
    yield
    ctx.dps = old


def at(target, parameters, x):
    values = Numbers("balls").array(torch.zeros(1))
    values[0] = x
    return OPERATIONS[target](Numbers("balls"), values, *parameters)[0]


@pytest.mark.parametrize(("target", "parameters"), CURVES)
def test_distance_to_asymptotes_and_curvature_are_bounded(target, parameters):
    curve = RULES[target].lower(Seen(), None, *parameters)
    step = arb(2) ** -60
    for place in PLACES:
        for x in (arb(place), arb(-place)):
            end = curve.above if x > 0 else curve.below
            value = at(target, parameters, x)
            line = arb(float(end.slope)) * x + arb(float(end.intercept))
            if curve.settles is None:
                y, decay = abs(x), curve.decay
                bound = arb(decay.size) * y**decay.power * (-arb(decay.rate) * y).exp()
                # Asymptotes are read as floats.
                assert abs(value - line) <= bound + arb(1e-15) * abs(line)
            second = at(target, parameters, x + step) + at(target, parameters, x - step) - 2 * value
            breaks = [*curve.kinks, *([] if curve.jump is None else [float(curve.jump)])]
            if all(abs(x - each) > 1e-3 for each in breaks):
                assert abs(second) / step**2 <= curve.curvature * (1 + arb(2) ** -30)


def test_the_definition_of_elu_is_the_one_that_is_meant():
    x = torch.tensor(-0.7, dtype=torch.float64)
    exact = float(elu(arb(-0.7), 2.0, 0.5, 1.5))
    assert float(aten.elu(x, 2.0, 0.5, 1.5)) == pytest.approx(exact, rel=1e-14)
