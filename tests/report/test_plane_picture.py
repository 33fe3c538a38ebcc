"""Pictures of planes: written whole, for any number of classes and any window."""

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.errors import InputError
from farfield.exact.planar.plane import slice_plane
from farfield.report.plane import save_plane

pytest.importorskip("matplotlib")


def plane(outputs, extent=3.0):
    generator = torch.Generator().manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, outputs)).double()
    for parameter in module.parameters():
        parameter.data.normal_(generator=generator)
    network = ff.capture(module, torch.zeros(1, 2, dtype=torch.float64))
    return slice_plane(network, [0.0, 0.0], [1.0, 0.0], [0.0, 1.0], extent)


@pytest.mark.parametrize(
    ("style", "outputs", "extent"),
    [
        ("regions", 1, 3.0),
        ("regions", 3, 1e12),
        ("confidence", 12, (0.0, 100.0, -1.0, 1.0)),
        ("confidence", 2, 1e-9),
    ],
)
def test_pictures_are_written(tmp_path, style, outputs, extent):
    points = np.random.default_rng(0).normal(size=(20, 2))
    labels = np.arange(20) % outputs
    path = save_plane(
        plane(outputs, extent), tmp_path / "new" / "plane.png", points=points, labels=labels,
        style=style, title="a plane", axes=("x", "y"),
    )  # fmt: skip
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [each.name for each in path.parent.iterdir()] == ["plane.png"]


def test_bad_input_is_named(tmp_path):
    shown = plane(2)
    with pytest.raises(InputError, match="style"):
        save_plane(shown, tmp_path / "a.png", style="plain")
    with pytest.raises(InputError, match="points has shape"):
        save_plane(shown, tmp_path / "a.png", points=np.zeros((3, 3)))
    with pytest.raises(InputError, match="labels has shape"):
        save_plane(shown, tmp_path / "a.png", points=np.zeros((3, 2)), labels=[0, 1])
    assert not list(tmp_path.iterdir())
