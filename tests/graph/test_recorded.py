"""Modules read by watching them, beside what torch.export makes of them, and what falls to it."""

import random
from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

import farfield as ff
from farfield.graph import recorded as watching
from farfield.graph import tracing
from farfield.graph.export import export_module, read_exported
from farfield.graph.program import Ref, forward
from farfield.graph.recorded import read_steps, recorded
from farfield.graph.recorder import RecordingError
from farfield.guard import program_module

aten = torch.ops.aten
# What is told its sizes; one that is free may be told in two ways.
RESIZED = (aten.view.default, aten._unsafe_view.default, aten.expand.default)


class Whole(nn.Module):
    """Nothing but operations that stay, folds of values in their order, and a dead end."""

    def __init__(self):
        super().__init__()
        self.entry, self.norm, self.head = nn.Linear(4, 12), nn.BatchNorm1d(3), nn.Linear(8, 3)
        self.wide, self.flat = nn.Conv1d(3, 3, 3, padding=1), nn.Conv2d(1, 1, (3, 1), bias=False)

    def forward(self, x):
        y = self.wide(self.norm(self.entry(x).view(-1, 3, 4)))
        y = torch.cat([self.flat(y.unsqueeze(1)).view(-1, 1, 4), y.narrow(1, 1, 2)], 1).flatten(1)
        first, second, _ = F.gelu(y).split(4, 1)
        y = torch.cat([first.relu().flatten(1), second.clamp(-1.0, 2.0)], 1)
        return self.head(F.dropout(y.reshape(x.shape[0], 2, -1), 0.5, self.training).flatten(1))


class TakenApart(nn.Module):
    """Operations that have a rule by another name, or whose parts have, and literals."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 8))
        self.shift = torch.randn(4)  # not registered
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x):
        x = x + self.attention(x[:, None], x[:, None], x[:, None], need_weights=False)[0][:, 0]
        y = (x + self.shift).unflatten(1, (2, 2)).mT.flatten(1)
        first, second = F.pad(y, (1, 1), value=0.5).chunk(2, 1)
        y = F.pad(first + second[:, :1].expand_as(second), (0, 3)).relu()
        y = y.view(-1, 2, 3).permute(0, 2, 1).contiguous().view(x.shape[0] * 2, 3)
        y = F.hardshrink(y * torch.tensor([1.0, 2.0, 0.5])).view(x.shape[0], 6)
        return F.pad(y, (1, 1)) @ self.weight.T + torch.zeros(x.shape[0], 1)


class Written(nn.Module):
    """Values that are changed where they are, and seen by no one else."""

    def forward(self, x):
        y = F.relu(x * 2.0, inplace=True)
        total = torch.zeros(x.shape[0], 4, dtype=x.dtype)
        total += y
        return total.mul_(3.0)


MODELS = {"whole": Whole, "apart": TakenApart, "written": Written}


@cache
def read(name):
    """A model, and what is read of it by watching and by torch.export."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = MODELS[name]().eval()
    x = torch.zeros(4, 4)
    return model, recorded(model, x), read_exported(export_module(model, x))


def told(program):
    """Operations, shapes and places; how a number of rows is said does not matter."""
    sizes = (aten.sym_size.int, aten.clone.default)
    return [
        (step.target, step.shape, step.source, numbers_of(step))
        for step in program.steps
        if step.target not in sizes and isinstance(step.target, torch._ops.OpOverload)
    ]


def numbers_of(step):
    """All arguments but values and sizes."""
    if step.target in RESIZED:
        return None
    return [each for each in step.args if not isinstance(each, (Ref, list))]


@pytest.mark.parametrize("name", MODELS)
def test_they_do_what_torch_export_says(name):
    model, seen, exported = read(name)
    assert seen.rows == exported.rows == 0
    assert seen.folds == exported.folds
    assert seen.program.width == exported.program.width
    assert seen.program.output_shape == exported.program.output_shape
    assert {*seen.names.values()} - {""} == {*dict(model.named_parameters())} | {
        name for name, _ in model.named_buffers() if not name.endswith("tracked")
    }
    for rows in (torch.randn(count, 4) for count in (1, 2, 7)):
        assert torch.equal(forward(seen.program, rows, seen.constants), model(rows))
        assert torch.equal(forward(exported.program, rows, exported.constants), model(rows))


def test_whole_operations_are_those_of_torch_export():
    _, seen, exported = read("whole")
    assert told(seen.program) == told(exported.program)


def one_column(y):
    y[:, 0].relu_()
    return y


def parts_of_parts(y):
    y = y.view(-1, 2, 2).clone()
    y[:, 1][:, :1] = 5.0
    y.diagonal(0, 1, 2).mul_(-2.0)
    return y


def seen_by_others(y):
    left, right = y[:, :3], y[:, 2:]
    left += 1.0
    right *= left[:, :1]
    y.tanh_()
    return torch.cat([left, right.detach(), y], 1)


def pieces(y):
    first, second = y.unsafe_chunk(2, 1)
    third, _ = (y * 3.0).unsafe_split_with_sizes([1, 3], 1)
    return torch.cat([first.sigmoid_(), second.neg_(), third.exp_()], 1)


def around(y):
    return F.pad(y[:, None], (1, 2), mode="circular")


@pytest.mark.parametrize("change", [one_column, parts_of_parts, seen_by_others, pieces, around])
def test_parts_of_values_are_changed(change):
    torch.manual_seed(0)
    model = Does(lambda y, _: change(y), 4).eval()
    read = recorded(model, torch.zeros(2, 4))
    for rows in (torch.randn(count, 4) for count in (1, 2, 7)):
        assert torch.equal(forward(read.program, rows, read.constants), model(rows))


class Scribbled(nn.Module):
    """Looks into a value and writes there at random."""

    def __init__(self, seed):
        super().__init__()
        self.seed, self.entry = seed, nn.Linear(4, 6, dtype=torch.float64)

    def forward(self, x):
        draw = random.Random(self.seed)
        y = self.entry(x) * 1.0
        seen = [y]
        for _ in range(draw.randint(3, 7)):
            part = draw.choice(seen)
            width = part.shape[1]
            first = draw.randrange(width)
            match draw.randrange(8):
                case 0:
                    seen.append(part[:, first:])
                case 1:
                    seen.append(part.select(1, first)[:, None])
                case 2:
                    seen.append(part[:, ::2].transpose(0, 1).transpose(0, 1))
                case 3:
                    seen.append(
                        draw.choice(part.split([first, width - first], dim=1)[first == 0 :])
                    )
                case 4:
                    part.mul_(-2.0).add_(1.5)
                case 5:
                    part.copy_(torch.tanh(part))
                case 6:
                    part[:, 0] = part[:, -1] * 3.0
                case 7:
                    seen.append(part.clone())
        return torch.cat([y, *seen], dim=1)


def test_writes_into_parts_are_followed_rightly_or_left_to_torch_export():
    rows = torch.randn(5, 4, dtype=torch.float64)
    followed = 0
    for seed in range(60):
        module = Scribbled(seed)
        try:
            read = recorded(module, rows)
        except RecordingError:
            continue
        followed += 1
        found = forward(read.program, rows, read.constants)
        torch.testing.assert_close(found, module(rows), rtol=1e-12, atol=1e-12)
    assert followed > 30


def test_one_row_is_read_as_it_is():
    read = recorded(TakenApart(), torch.zeros(1, 4), one_row=True)
    assert read.rows == 1
    assert all(-1 not in step.shape for step in read.program.steps if step.shape)


class Does(nn.Module):
    def __init__(self, function, width=3):
        super().__init__()
        self.layer, self.function = nn.Linear(4, width), function
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x):
        return self.function(self.layer(x), self)


def halves(y, _):
    return y[: len(y) // 2].repeat(2, 1)


def counts(y, self):
    self.calls.add_(1.0)
    return y + self.calls


def parts_in_another_order(y, _):
    y.permute(1, 0)[0].relu_()
    return y


def parts_of_a_split(y, _):
    y.split(2, 1)[0].relu_()
    return y


def parts_of_the_weights(y, self):
    self.layer.weight[0].zero_()
    return y


def an_old_part(y, _):
    part = y[:, :2]
    y.mul_(2.0)
    return part


def in_halves(y, _):
    with torch.autocast("cpu", torch.bfloat16):
        return y @ torch.ones(3, 3)


# What hangs on values, or is not the same in every batch: said by torch.export, or refused there.
NOT_RECORDED = {
    "a value": lambda y, _: y * float(y[0, 0]),
    "values as a list": lambda y, _: y * max(max(row) for row in y.tolist()),
    "values as an array": lambda y, _: torch.from_numpy(y.numpy() * 2),
    "a branch": lambda y, _: y if bool((y > 0).all()) else -y,
    "a branch of sizes": lambda y, _: y if len(y) > 100 else -y,
    "half of the rows": halves,
    "row by row": lambda y, _: torch.stack([row.relu() for row in y]),
    "a mask": lambda y, _: y[y > 0].reshape(-1, 1),
    "numbers by chance": lambda y, _: y * np.random.default_rng().normal(),
    "arrays by chance": lambda y, _: y * torch.from_numpy(np.random.default_rng().normal(size=3)),
    "its own buffer": counts,
    "a part in another order": parts_in_another_order,
    "a part of a split": parts_of_a_split,
    "a part of the weights": parts_of_the_weights,
    "an old part as the result": an_old_part,
    "half precision": in_halves,
    "the input": lambda y, self: self.layer.weight,
    "several": lambda y, _: (y, y),
}


@pytest.mark.parametrize("name", NOT_RECORDED)
def test_what_is_not_followed_is_left_to_torch_export(name, monkeypatch):
    model, x = Does(NOT_RECORDED[name]).eval(), torch.randn(4, 4)
    with pytest.raises(RecordingError):
        recorded(model, x)
    assert torch.equal(model.calls, torch.zeros(3))
    asked = []
    monkeypatch.setattr(watching, "export_module", lambda *a, **k: asked.append(a))
    monkeypatch.setattr(watching, "read_exported", lambda exported: "read")
    assert read_steps(model, x) == "read"
    assert len(asked) == 1


def at_home(y, self):
    """Do nothing unless everything is where it seems to be."""
    there = y.device == self.layer.weight.device and y.is_cpu and not y.is_meta
    return y + torch.ones(3, device=y.device) if there else -y


def test_tensors_seem_to_be_where_the_model_is():
    model, x = Does(at_home).eval(), torch.randn(3, 4)
    read = recorded(model, x)
    assert torch.equal(forward(read.program, x, read.constants), model(x))
    assert all("meta" not in str(step.kwargs.get("device")) for step in read.program.steps)


def test_torch_export_has_the_last_word(monkeypatch):
    torch.manual_seed(0)
    model, other, x = nn.Linear(4, 3), nn.Linear(4, 3), torch.randn(3, 4)
    for where in (tracing, program_module):
        monkeypatch.setattr(where, "read_steps", lambda _, *a, **k: recorded(other, *a, **k))
    assert torch.allclose(ff.capture(model, x).logits(x)[0].float(), model(x), atol=1e-6)
    assert torch.equal(program_module.traced(model, x)(x), model(x))


def test_errors_of_a_module_are_said_by_torch_export():
    with pytest.raises(ff.errors.CaptureError, match="the shape that forward"):
        read_steps(nn.Linear(3, 2), torch.zeros(2, 4))
