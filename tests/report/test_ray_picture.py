"""Pictures of rays: drawn from results alone, with and without an end."""

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.errors import InputError
from farfield.exact.ray.line import along

pytest.importorskip("matplotlib")
from farfield.report import figure
from farfield.report.ray import save_ray


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    modules = [nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(2)]
    return ff.capture(modules, torch.zeros(1, 2))


def pixels(path):
    from matplotlib.image import imread

    return imread(path)[..., :3]


def colours(image):
    """How many there are."""
    return len(np.unique((255 * image).astype(int) @ [1 << 16, 1 << 8, 1]))


@pytest.mark.parametrize("stop", [float("inf"), 3.0])
def test_rays_with_and_without_an_end_are_drawn(network, tmp_path, stop):
    lines = along(network, [0.0, 1.0], [1.0, 0.5], stop)
    path = save_ray(lines[0], tmp_path / "ray.png", threshold=0.6, reached=2.0, title="a ray")
    image = pixels(path)
    assert image.shape[1] > 6.5 * figure.DOTS_PER_INCH
    assert colours(image) > 20


def test_a_ray_without_breakpoints_is_drawn(tmp_path):
    network = ff.capture(nn.Linear(2, 12), torch.zeros(1, 2))
    lines = along(network, [0.0, 1.0], [1.0, 0.5])
    names = [f"kind {index}" for index in range(12)]
    first = save_ray(lines[0], tmp_path / "one.png", names=names, reached=float("inf"))
    second = save_ray(lines[0], tmp_path / "two.png")
    assert not np.array_equal(pixels(first), pixels(second))


def test_what_cannot_be_drawn_is_refused(network, tmp_path):
    line = along(network, [0.0, 1.0], [1.0, 0.5])[0]
    with pytest.raises(InputError, match="names has 2 entries for 3 classes"):
        save_ray(line, tmp_path / "ray.png", names=["a", "b"])
    with pytest.raises(InputError, match="nothing to draw"):
        save_ray(along(network, [0.0, 1.0], [1.0, 0.5], 0.0)[0], tmp_path / "ray.png")
    assert list(tmp_path.iterdir()) == []
