"""The authors' ResNet-20: architecture, published logits, and files that do not fit."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

import farfield as ff
from farfield.errors import InputError
from farfield.networks.lenet import lenet
from farfield.networks.resnet import PreActResNet20, _sources, read_hein2019

FOLDER = Path(os.environ.get("FARFIELD_DATA", "")) / "hein2019"
PUBLISHED = {
    "cifar10-plain": [-0.6168, 0.0435, 1.4188],
    "cifar10-ceda": [-2.8163, -1.0485, 4.0109],
    "svhn-plain": [-3.9011, 4.6272, 2.3633],
    "svhn-ceda": [0.0020, 0.4138, -0.1317],
}


def saved(path, change=lambda arrays: arrays, classes=10):
    """Write random weights under TensorFlow's names."""
    rng = np.random.default_rng(0)
    state = PreActResNet20(classes).state_dict()
    arrays = {}
    for own, name in _sources().items():
        array = rng.uniform(0.5, 1.5, tuple(state[own].shape)).astype(np.float32)
        if array.ndim == 4:
            array = (array - 1) / 5
            array = array.transpose(2, 3, 1, 0)
        arrays[name] = array.T if array.ndim == 2 else array
    np.savez(path, **change(arrays))
    return path


def test_same_padding_is_tensorflows(tmp_path):
    """At stride 2 the extra padding is at the bottom and right, as TensorFlow does it."""
    network = read_hein2019(saved(tmp_path / "w.npz"))
    unit = network.units[3]
    x = torch.randn(1, 16, 32, 32, generator=torch.Generator().manual_seed(0))
    activated = torch.relu(unit.first_norm(x))
    kernel = unit.first.weight
    row, column = 15, 15
    window = activated[0, :, 30:32, 30:32]
    corner = (kernel[:, :, :2, :2] * window).sum((1, 2, 3))
    padded = torch.nn.functional.pad(activated, (0, 1, 0, 1))
    torch.testing.assert_close(unit.first(padded)[0, :, row, column], corner)


def test_weights_go_where_their_names_say(tmp_path):
    path = saved(tmp_path / "w.npz")
    network = read_hein2019(path)
    arrays = np.load(path)
    kernel = arrays["block_2_0/sub1/conv1/weights"]
    assert network.units[3].first.weight[5, 7, 1, 2].item() == kernel[1, 2, 7, 5]
    assert network.exit.weight[3, 9].item() == arrays["logit/fc/weights"][9, 3]
    assert network(torch.rand(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.parametrize("classes", [2, 100])
def test_any_number_of_classes(tmp_path, classes):
    network = read_hein2019(saved(tmp_path / "w.npz", classes=classes))
    assert network(torch.rand(2, 3, 32, 32)).shape == (2, classes)


def test_files_that_do_not_fit(tmp_path):
    with pytest.raises(InputError, match="could not be read"):
        read_hein2019(tmp_path / "missing.npz")
    text = tmp_path / "text.npz"
    text.write_text("not an archive")
    with pytest.raises(InputError, match="could not be read"):
        read_hein2019(text)
    without = saved(tmp_path / "a.npz", lambda a: {k: v for k, v in a.items() if "fc/b" not in k})
    with pytest.raises(InputError, match="holds no array 'logit/fc/biases'"):
        read_hein2019(without)
    other = saved(tmp_path / "b.npz", lambda a: a | {"logit/fc/biases": np.zeros(7, np.float32)})
    with pytest.raises(InputError, match="does not fit"):
        read_hein2019(other)


@pytest.mark.skipif(not FOLDER.is_dir(), reason="FARFIELD_DATA has no hein2019 folder")
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_logits(name):
    network = read_hein2019(FOLDER / f"{name}.npz")
    x = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits = network(x)[0, :3]
    torch.testing.assert_close(logits, torch.tensor(PUBLISHED[name]), atol=1e-4, rtol=0)


def test_both_image_networks_can_be_captured(tmp_path):
    generator = torch.Generator().manual_seed(0)
    for network, shape in (
        (read_hein2019(saved(tmp_path / "w.npz")), (3, 32, 32)),
        (lenet().eval(), (1, 28, 28)),
    ):
        x = torch.rand(2, *shape, generator=generator)
        captured = ff.capture(network, x)
        with torch.no_grad():
            expected = network(x).double()
        torch.testing.assert_close(captured.logits(x)[0], expected, rtol=1e-4, atol=1e-4)
        direction = torch.randn(1, *shape, generator=generator)
        far = ff.at_infinity(captured, x[0], direction)
        t = far.reach[0, :, None].max() * 2
        rows = x[0].double() + t.reshape(-1, 1, 1, 1) * direction.double()
        germ = far.slope[0] * t + far.intercept[0]
        torch.testing.assert_close(germ, captured.logits(rows)[0], rtol=1e-6, atol=1e-6)
