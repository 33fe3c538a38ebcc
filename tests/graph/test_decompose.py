"""Programs taken apart quickly, beside what PyTorch's public function makes of them."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

import farfield as ff
from farfield.graph import decompose
from farfield.graph.export import _kept, export_module, quiet_export, read_exported
from farfield.graph.program import Ref


class Mixed(nn.Module):
    """Operations that stay, that fall apart by themselves, and that PyTorch takes apart its way."""

    def __init__(self):
        super().__init__()
        self.entry = nn.Conv2d(1, 4, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.LayerNorm(4)])
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        y = self.norms[1](self.norms[0](F.relu(self.entry(x))))
        y = F.pixel_unshuffle(y, 2).chunk(2, 1)[0][:, :4]
        tokens = self.norms[2](y.flatten(2).mT)
        tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
        pooled = F.adaptive_avg_pool1d(tokens.mT, 1).squeeze(-1)
        other = F.hardshrink(tokens.reshape(len(x), -1)).narrow(1, 0, 4)
        return self.head(F.dropout(pooled, 0.5, self.training)) + F.rrelu(other[..., :3])


@pytest.fixture(scope="module")
def exported():
    return export_module(Mixed(), torch.zeros(2, 1, 4, 4))


def test_quickly_taken_apart_is_what_pytorch_makes_of_it(exported):
    assert decompose._is_known()
    with quiet_export():
        quick = decompose.take_apart(exported, _kept())
        slow = decompose.taken_apart_slowly(exported, _kept())
    assert str(quick.graph) == str(slow.graph)
    assert quick.graph_signature == slow.graph_signature
    assert str(quick.graph) != str(exported.graph)


def test_few_operations_have_to_be_told():
    told, _ = decompose._told(_kept())
    composite, _ = decompose.torchs._split_decomp_table_to_cia_and_python_decomp(
        dict(decompose._table(_kept()))
    )
    assert 10 < len(told) < len(composite) / 4


def test_another_pytorch_is_asked_in_public(monkeypatch):
    module, x = nn.Sequential(nn.Flatten(), nn.Linear(6, 2)), torch.randn(3, 2, 3)
    quick = ff.capture(module, x)
    monkeypatch.setattr(decompose, "NEEDED", ())
    decompose._is_known.cache_clear()
    try:
        assert not decompose._is_known()
        assert ff.capture(module, x).groups[0].program == quick.groups[0].program
    finally:
        decompose._is_known.cache_clear()


class Whole(nn.Module):
    """Nothing but operations that stay, folds of values in their order, and a dead end."""

    def __init__(self):
        super().__init__()
        self.entry, self.norm, self.head = nn.Linear(4, 12), nn.BatchNorm1d(3), nn.Linear(8, 3)
        self.wide, self.flat = nn.Conv1d(3, 3, 3, padding=1), nn.Conv2d(1, 1, (3, 1), bias=False)

    def forward(self, x):
        y = self.wide(self.norm(self.entry(x).view(-1, 3, 4)))
        y = torch.cat([self.flat(y[:, None]).view(-1, 1, 4), y[:, 1:]], 1).flatten(1)
        first, second, _ = F.gelu(y).split(4, 1)
        y = torch.cat([first.relu().flatten(1), second.clamp(-1.0, 2.0)], 1)
        return self.head(F.dropout(y.reshape(len(x), 2, -1), 0.5, self.training).flatten(1))


class OtherNames(nn.Module):
    """Operations that have a rule by another name, and folds of values in another order."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 8))

    def forward(self, x):
        y = x.unflatten(1, (2, 2)).mT.flatten(1)
        first, second = F.pad(y, (1, 1), value=0.5).chunk(2, 1)
        y = F.pad(first + second[:, :1].expand_as(second), (0, 3)).relu()
        y = y.view(-1, 2, 3).permute(0, 2, 1).contiguous().view(-1, 6)
        return F.pad(y.contiguous(), (1, 1)) @ self.weight.T


# What is told their sizes; one that is free may be told in two ways.
RESIZED = (
    torch.ops.aten.view.default,
    torch.ops.aten._unsafe_view.default,
    torch.ops.aten.expand.default,
)


def steps_of(program):
    """Operations, shapes and places; how a number of rows is said does not matter."""
    return [
        (step.target, step.shape, step.source, numbers_of(step))
        for step in program.steps
        if step.target is not torch.ops.aten.sym_size.int
    ]


def numbers_of(step):
    """All arguments but values and sizes."""
    if step.target in RESIZED:
        return None
    return [each for each in step.args if not isinstance(each, Ref)], dict(step.kwargs)


@pytest.mark.parametrize("model", [Whole, OtherNames])
def test_a_program_of_whole_operations_is_left_together(model, monkeypatch):
    exported = export_module(model(), torch.zeros(2, 4))
    before = str(exported.graph)
    taken, constants, names = read_exported(exported)
    assert str(exported.graph) == before
    monkeypatch.setattr("farfield.graph.export.take_apart", None)
    left, same_constants, same_names = read_exported(exported, own=True)
    assert steps_of(left) == steps_of(taken)
    assert (left.width, left.output_shape) == (taken.width, taken.output_shape)
    assert same_constants.keys() == constants.keys()
    assert same_names == names


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.narrow(1, 0, 2),  # falls apart
        lambda x: x + torch.ones(4).expand_as(x),  # as often as there are rows
        lambda x: F.pad(x[:, None], (1, 1), mode="circular")[:, 0],  # not with a number
        lambda x: x.clone().relu_(),  # writes
        lambda x: F.batch_norm(x, None, None, training=True),  # not as it is in evaluation
    ],
)
def test_other_programs_are_taken_apart(function):
    class Model(nn.Module):
        def forward(self, x):
            return function(x)

    exported = export_module(Model(), torch.zeros(2, 4))
    before = str(exported.graph)
    assert not decompose.left_together(exported, _kept())
    assert str(exported.graph) == before
