"""Projected gradient ascent, against problems whose maximum is known."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from farfield.errors import InputError
from farfield.objectives import PGD, fgsm
from farfield.objectives.attacks_values import check_labels, cross_entropy, log_confidence


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def linear(weights: Tensor) -> Any:
    return lambda x: (x * weights).flatten(1).sum(1)


@pytest.mark.parametrize("rule", ["constant", "decaying", "halving"])
@pytest.mark.parametrize("start", ["shrunk", "uniform", "centre"])
def test_a_linear_value_is_largest_at_a_corner_or_along_its_slope(rule: Any, start: Any) -> None:
    weights, inputs = torch.tensor([3.0, -4.0, 0.0]), torch.zeros(5, 3)
    corner = PGD(0.5, 60, 0.05, rule=rule, start=start).maximize(
        linear(weights), inputs, generator()
    )
    torch.testing.assert_close(corner.values, torch.full((5,), 0.5 * 7))
    ball = PGD(0.5, 60, 0.05, "l2", rule, start).maximize(linear(weights), inputs, generator())
    torch.testing.assert_close(ball.values, torch.full((5,), 0.5 * 5), atol=0.02, rtol=0)
    torch.testing.assert_close(ball.values, linear(weights)(ball.inputs))


@given(
    st.sampled_from(["linf", "l2"]),
    st.sampled_from(["constant", "decaying", "halving"]),
    st.floats(0, 2),
    st.integers(1, 6),
    st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_never_leaves_ball_and_box_and_never_gets_worse(
    norm: Any, rule: Any, epsilon: float, steps: int, seed: int
) -> None:
    inputs = torch.rand(4, 2, 3, generator=generator(seed))
    frequency = 5 * torch.randn(2, 3, generator=generator(seed))

    def value(x: Tensor) -> Tensor:
        return (x * frequency).sin().flatten(1).sum(1)

    attack = PGD(epsilon, steps, 0.2, norm, rule, "centre")
    found = attack.maximize(value, inputs, generator(seed), low=0.0, high=1.0)
    gap = (found.inputs - inputs).flatten(1)
    size = gap.abs().amax(1) if norm == "linf" else gap.norm(dim=1)
    assert bool((size <= epsilon + 1e-5).all())
    assert bool(((found.inputs >= 0) & (found.inputs <= 1)).all())
    assert bool((found.values >= value(inputs)).all())
    torch.testing.assert_close(found.values, value(found.inputs))


def test_starts_are_random_in_the_ball_and_come_from_the_generator() -> None:
    inputs = torch.full((400, 2), 0.5)

    def flat(x: Tensor) -> Tensor:
        return 0 * x.sum(-1)

    for norm in ("linf", "l2"):
        starts = {}
        for start in ("shrunk", "uniform"):
            attack = PGD(0.5, 1, 0.1, norm, start=start)
            first = attack.maximize(flat, inputs, generator(1)).inputs - inputs
            again = attack.maximize(flat, inputs, generator(1)).inputs - inputs
            assert torch.equal(first, again)
            length = first.abs().amax(1) if norm == "linf" else first.norm(dim=1)
            assert 0.4 < float(length.max()) <= 0.5 + 1e-6
            starts[start] = float(length.mean())
        # A uniform share shrinks the average start by half.
        assert starts["shrunk"] == pytest.approx(starts["uniform"] / 2, rel=0.15)


def test_restarts_keep_the_best_of_all() -> None:
    def bumps(x: Tensor) -> Tensor:
        return (20 * x).cos().sum(-1) + x.sum(-1)

    inputs = torch.zeros(30, 2)
    one = PGD(1.0, 5, 0.02, start="uniform").maximize(bumps, inputs, generator())
    many = PGD(1.0, 5, 0.02, start="uniform", restarts=8).maximize(bumps, inputs, generator())
    # The first of eight is the one alone.
    assert bool((many.values >= one.values).all())
    assert float(many.values.mean()) > float(one.values.mean()) + 0.1
    torch.testing.assert_close(many.values, bumps(many.inputs))


def test_the_last_point_may_be_worse_than_the_best() -> None:
    def peak(x: Tensor) -> Tensor:
        return -(x - 0.1).abs().sum(-1)

    inputs = torch.zeros(1, 1)
    best = PGD(1.0, 2, 0.1, start="centre").maximize(peak, inputs, generator())
    last = PGD(1.0, 2, 0.15, start="centre", keep="last").maximize(peak, inputs, generator())
    assert best.inputs.item() == pytest.approx(0.1)
    assert last.inputs.item() == pytest.approx(0.0)
    assert last.values.item() == pytest.approx(-0.1)


def test_one_step_is_the_fast_gradient_sign_method() -> None:
    inputs = torch.rand(6, 4, requires_grad=True)
    layer = nn.Linear(4, 3)
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    loss = nn.functional.cross_entropy(layer(inputs), labels, reduction="sum")
    (slope,) = torch.autograd.grad(loss, inputs)
    found = fgsm(0.1).maximize(cross_entropy([layer], labels), inputs, generator())
    torch.testing.assert_close(found.inputs, inputs.detach() + 0.1 * slope.sign())


def test_scale_measures_the_ball_in_units_of_features() -> None:
    weights = torch.tensor([1.0, 1.0, 1.0])
    scale = torch.tensor([10.0, 0.1, 0.0])
    attack = PGD(0.5, 50, 0.05, start="uniform")
    found = attack.maximize(linear(weights), torch.zeros(2, 3), generator(), scale=scale)
    torch.testing.assert_close(found.inputs, torch.tensor([[5.0, 0.05, 0.0]] * 2))


@pytest.mark.parametrize("rule", ["constant", "decaying", "halving"])
def test_a_ceiling_changes_nothing_but_the_work(rule: Any) -> None:
    layer = nn.Linear(4, 3)
    with torch.no_grad():
        layer.weight.mul_(60)
    inputs = 0.5 * torch.randn(40, 4)
    counted = {True: 0, False: 0}

    def value(x: Tensor, limited: bool) -> Tensor:
        counted[limited] += len(x)
        return log_confidence([layer])(x)

    attack = PGD(0.5, 40, 0.03, rule=rule, restarts=2)
    plain = attack.maximize(lambda x: value(x, False), inputs, generator())
    limited = attack.maximize(lambda x: value(x, True), inputs, generator(), ceiling=0.0)
    assert bool((plain.values == 0).any())
    assert bool((plain.values < 0).any())
    assert torch.equal(plain.values, limited.values)
    assert torch.equal(plain.inputs, limited.inputs)
    assert counted[True] < 0.8 * counted[False]


def test_members_are_attacked_apart_each_with_its_generator() -> None:
    weights = torch.tensor([[1.0, 0.0], [0.0, -1.0]])

    def value(x: Tensor) -> Tensor:
        return (x * weights[:, None]).sum(-1) - x.square().sum(-1)

    inputs = torch.zeros(2, 3, 2)
    both = PGD(0.3, 5, 0.05).maximize(value, inputs, [generator(4), generator(5)])
    for member in range(2):
        alone = PGD(0.3, 5, 0.05).maximize(
            lambda x, m=member: (x * weights[m]).sum(-1) - x.square().sum(-1),
            inputs[member],
            generator(4 + member),
        )
        torch.testing.assert_close(both.inputs[member], alone.inputs)


def test_instances_are_attacked_through_their_mean() -> None:
    first, second = nn.Linear(2, 3), nn.Linear(2, 3)
    x = torch.randn(5, 2)
    mean = (first(x).softmax(-1) + second(x).softmax(-1)) / 2
    torch.testing.assert_close(log_confidence([first, second])(x), mean.amax(-1).log())
    labels = torch.tensor([0, 1, 2, 1, 0])
    expected = -mean[torch.arange(5), labels].log()
    torch.testing.assert_close(cross_entropy([first, second], labels)(x), expected)


def test_one_logit_is_two_classes() -> None:
    x = torch.tensor([[2.0], [-3.0]])
    expected = x.abs().sigmoid()[:, 0].log()
    torch.testing.assert_close(log_confidence([nn.Identity()])(x), expected)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"epsilon": -0.1}, "epsilon must be a number >= 0, got -0.1"),
        ({"steps": 0}, "steps must be a positive integer, got 0"),
        ({"step_size": 0}, "step_size must be"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"norm": "l1"}, "norm must be 'linf' or 'l2', got 'l1'"),
        ({"restarts": 0, "rule": "fast"}, "rule must be .*; restarts must be"),
        ({"start": "far"}, "start must be"),
        ({"keep": "last", "rule": "halving"}, "keep must be 'best'"),
        ({"keep": "all"}, "keep must be"),
    ],
)
def test_bad_constants_are_named(options: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        PGD(**options)


def test_inputs_outside_of_the_box_are_refused() -> None:
    with pytest.raises(InputError, match="from 2 to 2 leave the box"):
        PGD().maximize(linear(torch.ones(2)), torch.full((1, 2), 2.0), generator(), high=1.0)


def test_labels_out_of_range_are_named() -> None:
    with pytest.raises(InputError, match=r"0 to 2 .*got 3 at point 1; number the classes from 0"):
        check_labels(torch.tensor([0, 3]), 2, 3)
    with pytest.raises(InputError, match="got -1 at point 0"):
        check_labels(torch.tensor([-1, 0]), 2, 3)
    with pytest.raises(InputError, match="integers"):
        check_labels(torch.tensor([0.0, 1.0]), 2, 3)
    with pytest.raises(InputError, match=r"shape \(2,\), got \(3,\)"):
        check_labels(torch.tensor([0, 1, 2]), 2, 3)
