"""Any module as a stack, and modules as data."""

import copy
import json
from typing import Any

import pytest
import torch
from torch import nn

from farfield.errors import InputError
from farfield.networks.description import build, describe
from farfield.networks.folding import AffineMap, fold_inputs, fold_outputs
from farfield.networks.rbf import RBFNetwork
from farfield.networks.stacked_module import StackedModule
from farfield.networks.streams import Purpose, Streams


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 3)
    )


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 30), nn.ReLU(), nn.Dropout(0.5), nn.Linear(30, 2))


def stacked(factory: Any, members: int) -> StackedModule:
    initial = Streams(1, members, Purpose.INITIAL)
    return StackedModule(factory, initial, Streams(1, members, Purpose.NOISE))


def test_members_run_side_by_side_as_they_run_alone() -> None:
    stack = stacked(convolutional, 3)
    inputs = torch.randn(3, 5, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    modules = [stack.module(member).train() for member in range(3)]
    outputs = stack.apply(stack.parameters.views, inputs, training=True)
    for member, module in enumerate(modules):
        torch.testing.assert_close(module(inputs[member]), outputs[member])
        # Running statistics moved for the member as they did for the module.
        torch.testing.assert_close(stack.module(member)[1].running_mean, module[1].running_mean)
        assert int(stack.module(member)[1].num_batches_tracked) == 1
    assert not torch.equal(outputs[0], outputs[1])


def test_dropout_of_a_member_does_not_depend_on_the_others() -> None:
    inputs = torch.randn(4, 50, 2, generator=torch.Generator().manual_seed(0))
    few, many = stacked(dropping, 2), stacked(dropping, 4)
    state = torch.get_rng_state()
    a = few.apply(few.parameters.views, inputs[:2], training=True)
    b = many.apply(many.parameters.views, inputs, training=True)
    assert torch.equal(state, torch.get_rng_state())
    torch.testing.assert_close(a, b[:2])
    again = few.apply(few.parameters.views, inputs[:2], training=True)
    assert not torch.equal(a, again)


class Hidden(nn.Module):
    """Draws without a dropout layer, and looks at values."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.inner(inputs)
        if bool(outputs.sum() > 1e9):
            return outputs
        return nn.functional.dropout(outputs, 0.5, self.training)


def test_modules_that_cannot_be_mapped_run_alone() -> None:
    few, many = stacked(Hidden, 2), stacked(Hidden, 3)
    inputs = torch.randn(3, 40, 2, generator=torch.Generator().manual_seed(0))
    state = torch.get_rng_state()
    a = few.apply(few.parameters.views, inputs[:2], training=True)
    b = many.apply(many.parameters.views, inputs, training=True)
    torch.testing.assert_close(a, b[:2])
    assert torch.equal(state, torch.get_rng_state())
    assert 0.3 < float((a == 0).float().mean()) < 0.7
    still = few.apply(few.parameters.views, inputs[:2], training=False)
    torch.testing.assert_close(still[0], few.module(0)(inputs[0]))


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_several_samples_of_one_member(dropout: float) -> None:
    stack = stacked(lambda: nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(dropout)), 1)
    samples = [view.repeat(3, 1) for view in stack.parameters.views]
    samples[0][1] *= 2
    inputs = torch.randn(1, 30, 2, generator=torch.Generator().manual_seed(0)) + 5
    outputs = stack.apply(samples, inputs.expand(3, -1, -1), training=True)
    assert outputs.shape == (3, 30, 2)
    kept = (outputs[0] != 0) & (outputs[1] != 0)
    torch.testing.assert_close(outputs[1][kept], 2 * outputs[0][kept])
    # One step of the running mean, as the module alone would take it.
    mean = stack.module(0)[0].running_mean
    torch.testing.assert_close(mean, 0.1 * inputs[0].mean(0))


def test_a_factory_must_return_a_module() -> None:
    with pytest.raises(InputError, match="got int"):
        stacked(lambda: 3, 1)


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)),
        nn.Linear(3, 2),
        nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False)),
        nn.Sequential(nn.Tanh(), nn.Linear(3, 2), nn.Tanh()),
    ],
)
def test_folding_equals_scaling_outside(module: nn.Module) -> None:
    inputs = torch.randn(10, 3)
    factor, shift = torch.tensor([0.5, 2.0, 1.0]).double(), torch.tensor([1.0, 0, -3.0]).double()
    outer, offset = torch.tensor([3.0, -1.0]).double(), torch.tensor([0.5, 2.0]).double()
    expected = module(inputs * factor.float() + shift.float()) * outer.float() + offset.float()
    folded = fold_outputs(fold_inputs(copy.deepcopy(module), factor, shift), outer, offset)
    torch.testing.assert_close(folded(inputs), expected)


class Custom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.drop: nn.Module = nn.Dropout(0.5)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.drop(self.first(inputs))
        return outputs


def masked() -> nn.Module:
    module = Custom()
    module.drop = AffineMap(torch.tensor([0.0, 2.0, 2.0]), torch.zeros(()))
    return nn.Sequential(AffineMap(torch.ones(2), torch.zeros(2)), module)


def around() -> nn.Module:
    return nn.Sequential(Custom(), nn.ReLU())


@pytest.mark.parametrize(
    ("module", "factory"),
    [
        (nn.Sequential(nn.Linear(2, 5), nn.BatchNorm1d(5), nn.LeakyReLU(0.2)), None),
        (RBFNetwork(torch.randn(4, 2), torch.ones(2), 0.7, torch.randn(3, 4)), None),
        (masked(), Custom),
        (Custom(), Custom),
        (around(), around),
    ],
)
def test_described_and_built_again(module: nn.Module, factory: Any) -> None:
    description = json.loads(json.dumps(describe(module.eval())))
    again = build(description, factory)
    again.load_state_dict(module.state_dict(), assign=True)
    inputs = torch.randn(6, 2)
    torch.testing.assert_close(again.eval()(inputs), module(inputs))


def test_building_refuses_what_it_does_not_know() -> None:
    with pytest.raises(InputError, match="'system'"):
        build({"kind": "system"}, None)
    with pytest.raises(InputError, match="cannot be built"):
        build({"kind": "Linear", "in_features": "many"}, None)
    with pytest.raises(InputError, match="factory"):
        build(describe(Custom()), None)
