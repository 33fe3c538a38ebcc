"""Plain layers without their modules: the same bits, and no answer once anything else is there."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune

from farfield.guard import guard
from farfield.guard.plain_layers import PlainLayers

pytestmark = pytest.mark.usefixtures("few_folds")


def _stack():
    torch.manual_seed(0)
    relu = nn.ReLU()
    inner = nn.Sequential(nn.Linear(6, 5, bias=False), nn.Tanh(), nn.Identity(), nn.Dropout())
    return nn.Sequential(nn.Linear(4, 6), relu, inner, nn.Linear(5, 5), relu, nn.Linear(5, 3))


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [1, 7])
def test_the_same_bits(kind, rows):
    stack = _stack().eval().to(kind)
    x = torch.randn(rows, 4, dtype=kind)
    found = PlainLayers.of(nn.ModuleList([stack]))(x)
    assert torch.equal(found, stack(x))


def _reordered(layer):
    prune.l1_unstructured(layer, "weight", 0.5)
    prune.remove(layer, "weight")


def _buffered(layer):
    weight = layer.weight.detach()
    del layer.weight
    layer.register_buffer("weight", weight)


FORMS = {
    "bias first": _reordered,
    "weights in buffers": _buffered,
    "one more weight": lambda layer: layer.register_parameter("more", layer.bias),
    "its own function": lambda layer: setattr(layer, "forward", lambda x: x @ layer.weight.T),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_bits_however_a_layer_holds_its_weights(form):
    stack, x = _stack().eval(), torch.randn(1, 4)
    FORMS[form](stack[0])
    plain = PlainLayers.of(nn.ModuleList([stack]))
    found = None if plain is None else plain(x)
    assert found is None or torch.equal(found, stack(x))
    safe = guard(stack, np.random.default_rng(0).normal(size=(300, 4)))
    with torch.no_grad():
        for row in (torch.zeros(7, 4), torch.zeros(1, 4)):
            assert torch.equal(safe(row), safe.unguarded(row))


class _Twice(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


@pytest.mark.parametrize(
    "module",
    [nn.Sequential(nn.Conv1d(1, 1, 1)), nn.Sequential(_Twice(2, 2)), nn.ReLU(), nn.Sequential()],
)
def test_whatever_else_is_not_plain(module):
    assert PlainLayers.of(module) is None


class _Halved(nn.Module):
    def forward(self, weight):
        return weight / 2


CHANGES = {
    "hook": lambda stack: stack[1].register_forward_hook(lambda *_: None),
    "early hook": lambda stack: stack[2][0].register_forward_pre_hook(lambda *_: None),
    "another weight": lambda stack: setattr(stack[0], "weight", nn.Parameter(torch.ones(6, 4))),
    "another layer": lambda stack: stack.__setitem__(1, nn.Tanh()),
    "one more": lambda stack: stack.append(nn.ReLU()),
    "one less": lambda stack: stack.pop(5),
    "one more inside": lambda stack: stack[2].append(nn.ReLU()),
    "training": lambda stack: stack.train(),
    "pruned": lambda stack: prune.l1_unstructured(stack[0], "weight", 0.5),
    "halved": lambda stack: parametrize.register_parametrization(stack[3], "weight", _Halved()),
    "no bias": lambda stack: setattr(stack[3], "bias", None),
    "other type": lambda stack: stack.double(),
    "its own function": lambda stack: setattr(stack[1], "forward", torch.tanh),
}


@pytest.mark.parametrize("change", CHANGES)
def test_no_answer_once_it_is_another(change):
    stack, x = _stack().eval(), torch.randn(1, 4)
    plain = PlainLayers.of(nn.ModuleList([stack]))
    assert plain(x) is not None
    CHANGES[change](stack)
    assert plain(x) is None


def test_a_guard_runs_the_members_that_it_has():
    safe = guard(_stack(), np.random.default_rng(0).normal(size=(300, 4)))
    x = torch.zeros(1, 4)
    safe(x)
    assert safe._plain is not None
    assert safe.covered.one.sure(x)
    safe.members = nn.ModuleList([nn.Linear(4, 3).eval()])
    assert torch.equal(safe(x), safe.members[0](x))


def test_weights_that_were_taken_out_and_put_back():
    stack, x = _stack().eval(), torch.randn(1, 4)
    plain = PlainLayers.of(nn.ModuleList([stack]))
    weight = stack[0].weight
    del stack[0].weight
    assert plain(x) is None
    stack[0].weight = weight
    assert torch.equal(plain(x), stack(x))


def test_no_answer_for_all_modules_hooks():
    plain, x = PlainLayers.of(nn.ModuleList([_stack().eval()])), torch.randn(1, 4)
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        assert plain(x) is None
    finally:
        handle.remove()
    assert plain(x) is not None


def test_weights_that_were_written_to_are_the_weights():
    stack, x = _stack().eval(), torch.randn(1, 4)
    plain = PlainLayers.of(nn.ModuleList([stack]))
    with torch.no_grad():
        stack[0].weight.mul_(3.0)
    stack.load_state_dict({name: 2 * value for name, value in stack.state_dict().items()})
    assert torch.equal(plain(x), stack(x))


def test_copies_have_none():
    plain = PlainLayers.of(nn.ModuleList([_stack()]))
    assert copy.deepcopy(plain) is None
    assert pickle.loads(pickle.dumps(plain)) is None


def test_no_answer_once_a_whole_kind_does_something_else(monkeypatch):
    plain, x = PlainLayers.of(nn.ModuleList([_stack().eval()])), torch.randn(1, 4)
    assert plain(x) is not None
    monkeypatch.setattr(
        nn.Linear, "forward", lambda self, x: 2 * nn.functional.linear(x, self.weight)
    )
    assert plain(x) is None
    assert PlainLayers.of(nn.ModuleList([_stack().eval()]))(x) is None
