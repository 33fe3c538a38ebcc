"""Modules and programs at work: what is watched stays as it is, and says where it is."""

import pytest
import torch
from torch import nn
from torch.export import Dim

import farfield as ff
from farfield.graph import recorded as reading
from farfield.graph.export import export_module, quiet_export
from farfield.graph.program import forward
from farfield.graph.recorded import recorded, replayed
from farfield.graph.recorder import RecordingError


class Stored(nn.Module):
    """Writes into itself."""

    def __init__(self):
        super().__init__()
        self.layer, self.kept, self.count = nn.Linear(4, 3), [], 0

    def forward(self, x):
        self.count += 1
        self.last = self.layer(x)
        self.kept.append(self.last)
        return self.last


def test_a_module_stays_as_it_is():
    model = Stored().train()
    state = torch.random.get_rng_state()
    recorded(model, torch.zeros(2, 4))
    assert (model.count, model.kept, model.training) == (0, [], True)
    assert not hasattr(model, "last")
    assert torch.equal(torch.random.get_rng_state(), state)


def test_weights_without_a_shape_are_not_touched():
    model = nn.LazyLinear(2)
    with pytest.raises(RecordingError, match="no shape"):
        recorded(model, torch.zeros(2, 4))
    assert nn.parameter.is_lazy(model.weight)


class Line(nn.Module):
    def forward(self, x):
        return x.relu()


def test_places_name_the_module_and_the_line():
    *_, last = recorded(nn.Sequential(nn.Linear(4, 4), Line()), torch.zeros(2, 4)).program.steps
    assert last.source.module == "1 (Line)"
    assert last.source.line.startswith("test_watched.py:")


class Grid(nn.Module):
    """What has to be taken apart."""

    def __init__(self):
        super().__init__()
        self.entry, self.head = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(4, 3)
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 0.5, 3.0]), persistent=False)

    def forward(self, x):
        y = self.entry(x.unflatten(1, (1, 4, 4))).relu().mean((2, 3))
        return self.head(nn.functional.hardshrink(y * self.scale))


@pytest.fixture
def alone(monkeypatch):
    """Nothing is taken apart by PyTorch."""
    monkeypatch.setattr(reading, "read_exported", None)


@pytest.mark.usefixtures("alone")
def test_programs_are_watched_too():
    model = Grid().eval()
    read = replayed(export_module(model, torch.zeros(2, 16)))
    assert (read.rows, read.folds) == (0, False)
    assert set(read.names.values()) == {"scale", *dict(model.named_parameters())}
    for rows in (torch.randn(count, 16) for count in (1, 2, 7)):
        assert torch.equal(forward(read.program, rows, read.constants), model(rows))
    places = {step.source.module for step in read.program.steps}
    assert {"entry (Conv2d)", "head (Linear)", "the model (Grid)"} <= places


@pytest.mark.usefixtures("alone")
def test_programs_of_so_many_rows_are_watched_on_these():
    model, rows = Grid().eval(), torch.randn(5, 16)
    with quiet_export():
        read = replayed(torch.export.export(model, (rows,)))
    assert read.rows == 5
    assert read.program.width == 4 * 16
    assert torch.equal(forward(read.program, rows, read.constants), model(rows))


def test_rows_that_a_program_forbids_are_left_to_pytorch():
    few = {0: Dim("rows", min=2, max=64)}
    with quiet_export():
        exported = torch.export.export(Grid().eval(), (torch.zeros(4, 16),), dynamic_shapes=(few,))
    network, rows = ff.capture(exported), torch.randn(3, 16)
    assert torch.allclose(network.logits(rows)[0].float(), exported.module()(rows), atol=1e-5)


@pytest.mark.usefixtures("alone")
def test_programs_that_write_are_watched_too():
    class Writes(Grid):
        def forward(self, x):
            y = x.clone()
            y[:, 0] = 0.0
            return super().forward(y)

    model, rows = Writes().eval(), torch.randn(3, 16)
    exported = export_module(model, rows)
    network = ff.capture(exported)
    assert torch.allclose(network.logits(rows)[0].float(), model(rows), atol=1e-5)
