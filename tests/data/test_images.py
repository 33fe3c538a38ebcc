"""Images of every format in one form."""

import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from farfield.data import read_images, to_gray_28
from farfield.data.images import holds_images
from farfield.errors import InputError

RNG = np.random.default_rng(0)
GRAY = RNG.integers(0, 256, (4, 6, 5), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)


@pytest.fixture
def npz(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "images.npz", **arrays)
        return tmp_path / "images.npz"

    return write


def idx(array):
    return (
        bytes([0, 0, 8, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + (array.tobytes())
    )


def test_gray_and_colour_become_channels_first(npz, tmp_path):
    gray = read_images(npz(images=GRAY, labels=np.array([0, 1, 2, 1], np.uint8)))
    assert (gray.images.shape, gray.images.dtype) == ((4, 1, 6, 5), np.float32)
    np.testing.assert_allclose(gray.images[:, 0], GRAY / 255, atol=1e-7)
    assert gray.labels is not None
    assert (gray.labels.dtype, gray.labels.tolist()) == (np.int64, [0, 1, 2, 1])
    last = read_images(npz(images=COLOUR, classes=np.array(["a", "b"])))
    first = read_images(npz(X=np.moveaxis(COLOUR, 3, 1)))
    np.testing.assert_array_equal(last.images, first.images)
    assert (last.labels, last.class_names, len(last)) == (None, ("a", "b"), 4)
    np.save(tmp_path / "x.npy", COLOUR)
    np.testing.assert_array_equal(read_images(tmp_path / "x.npy").images, first.images)


def test_numbers_from_0_to_1_stay(npz):
    values = GRAY / 255
    np.testing.assert_allclose(read_images(npz(images=values)).images[:, 0], values, atol=1e-7)
    np.testing.assert_allclose(
        read_images(npz(images=GRAY.astype(float)), scale=255).images[:, 0], values, atol=1e-7
    )
    np.testing.assert_allclose(
        read_images(npz(images=GRAY.astype(np.int64))).images[:, 0], values, atol=1e-7
    )


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": GRAY.astype(float)}, "numbers from 0 to 2.*Pass scale=255"),
        ({"images": GRAY / 255 - 0.5}, "from -0.5.*shift and rescale"),
        ({"images": GRAY.astype(np.int16) * 2}, "images go from 0 to 255"),
        ({"images": np.where(GRAY.max() == GRAY, np.nan, 0.5)}, "NaN or infinity at image"),
        ({"images": GRAY[0]}, r"shape \(6, 5\)"),
        ({"images": GRAY[:0]}, "no images"),
        ({"images": GRAY.astype(str)}, "images are numbers"),
        ({"images": COLOUR.reshape(4, 3, 10, 3)}, "where are the channels"),
        ({"images": RNG.random((4, 5, 6, 7))}, "where are the channels"),
        ({"pictures": GRAY}, r"no array 'images'.*\['pictures'\]"),
        ({"images": GRAY, "labels": np.zeros(3, int)}, "labels must be 4 whole numbers"),
        ({"images": GRAY, "labels": np.zeros(4)}, "labels must be 4 whole numbers"),
        ({"images": GRAY, "labels": np.full(4, -1)}, "start at 0"),
        ({"images": np.array([[[None]]])}, "never loaded"),
    ],
)
def test_bad_arrays_are_refused(npz, arrays, message):
    with pytest.raises(InputError, match=message) as caught:
        read_images(npz(**arrays))
    assert "images.npz" in str(caught.value)


def test_bad_scale(npz):
    for scale in (0, -1, float("nan"), float("inf")):
        with pytest.raises(InputError, match="positive number"):
            read_images(npz(images=GRAY), scale=scale)


def test_labels_beside_idx_images(tmp_path):
    images, labels = tmp_path / "t10k-images-idx3-ubyte.gz", tmp_path / "t10k-labels-idx1-ubyte.gz"
    images.write_bytes(gzip.compress(idx(GRAY)))
    assert read_images(images).labels is None
    labels.write_bytes(gzip.compress(idx(np.array([3, 1, 4, 1], np.uint8))))
    read = read_images(images)
    assert read.labels is not None
    assert read.labels.tolist() == [3, 1, 4, 1]
    np.save(tmp_path / "other.npy", np.arange(4))
    other = read_images(images, tmp_path / "other.npy")
    assert other.labels is not None
    assert other.labels.tolist() == [0, 1, 2, 3]
    (tmp_path / "labels.txt").write_text("1 2 3 4")
    with pytest.raises(InputError, match=r"an IDX or a \.npy file"):
        read_images(images, tmp_path / "labels.txt")


def test_gray_28_is_the_mean_resized():
    constant = np.stack([np.full((32, 32), value) for value in (0.1, 0.2, 0.6)])[None]
    gray = to_gray_28(constant)
    assert (gray.shape, gray.dtype) == ((1, 1, 28, 28), np.float32)
    np.testing.assert_allclose(gray, 0.3, atol=1e-6)
    ramp = np.broadcast_to(np.linspace(0, 1, 32), (1, 3, 32, 32))
    resized = to_gray_28(ramp)[0, 0]
    # A ramp stays a ramp away from its ends: output k is centred at (k + 0.5) 32 / 28 - 0.5.
    centres = ((np.arange(28) + 0.5) * 32 / 28 - 0.5) / 31
    np.testing.assert_allclose(resized[14, 2:-2], centres[2:-2], atol=0.003)
    assert 0 <= resized.min() <= resized.max() <= 1
    with pytest.raises(InputError, match="shape"):
        to_gray_28(np.zeros((3, 32, 32)))


def test_images_and_tables_are_told_apart(npz, tmp_path):
    assert holds_images(npz(images=GRAY))
    assert holds_images(npz(X=GRAY))
    assert not holds_images(npz(X=GRAY[0]))
    np.save(tmp_path / "x.npy", GRAY)
    np.save(tmp_path / "t.npy", GRAY[0])
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    (tmp_path / "i").write_bytes(idx(GRAY))
    found = {name: holds_images(tmp_path / name) for name in ("x.npy", "t.npy", "t.csv", "i")}
    assert found == {"x.npy": True, "t.npy": False, "t.csv": False, "i": True}


FOLDER = os.environ.get("FARFIELD_DATA")


@pytest.mark.skipif(not FOLDER, reason="FARFIELD_DATA is not set")
@pytest.mark.parametrize(
    ("name", "shape", "labels"),
    [
        ("mnist/t10k-images-idx3-ubyte.gz", (10_000, 1, 28, 28), [7, 2, 1, 0, 4]),
        ("fashion_mnist/t10k-images-idx3-ubyte.gz", (10_000, 1, 28, 28), [9, 2, 1, 1, 6]),
        ("images/cifar10_test_2000.npz", (2000, 3, 32, 32), None),
        ("images/svhn_test_crops_2000.npz", (2000, 3, 32, 32), None),
        ("images/emnist_letters_2000.npz", (2000, 1, 28, 28), None),
    ],
)
def test_real_files(name, shape, labels):
    assert FOLDER is not None
    read = read_images(Path(FOLDER) / name)
    assert read.images.shape == shape
    assert (read.images.min(), read.images.max()) == (0.0, 1.0)
    assert read.labels is not None
    assert len(read.labels) == shape[0]
    if labels is not None:
        assert read.labels[:5].tolist() == labels
    if shape[1] == 3:
        gray = to_gray_28(read.images[:50])
        small = torch.nn.functional.interpolate(
            torch.from_numpy(read.images[:50]).mean(1, keepdim=True), 28, mode="area"
        )
        # Two ways of averaging agree closely on natural images.
        assert np.abs(gray - small.numpy()).mean() < 0.02
