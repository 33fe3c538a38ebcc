"""The images that guards are compared on, and the shifts from them."""

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from benchmarks.guard_data import ROWS, Array, Task
from benchmarks.parts import data_folder


def mnist() -> Task:
    """MNIST as rows of pixels in [0, 1]; Fashion-MNIST and letters as shifts."""
    data = data_folder("mnist", "fashion_mnist", "images")
    X, y = _idx(data / "mnist", "train", 12_000)
    X_test, y_test = _idx(data / "mnist", "t10k", 5_000)
    fashion, _ = _idx(data / "fashion_mnist", "t10k", ROWS)
    settings = {"hidden": (128, 128), "epochs": 8, "standardize": False, "batch_size": 128}
    near = {"fashion": fashion, "letters": _letters(data)}
    return Task((X, y), (X_test, y_test), near, settings, "isotropic", ball=0.1, box=(0.0, 1.0))


def digits() -> Task:
    """The 8 x 8 digits of scikit-learn; MNIST and letters shrunk to their size as shifts."""
    data = data_folder("mnist", "images")
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    held = len(X) * 3 // 10
    train, test = order[held:], order[:held]
    near = {
        "mnist": _shrunk(_idx(data / "mnist", "t10k", ROWS)[0]),
        "letters": _shrunk(_letters(data)),
    }
    settings = {"hidden": (64, 64), "epochs": 40, "batch_size": 32}
    X, y = X / 16.0, y.astype(np.int64)
    own, new = (X[train], y[train]), (X[test], y[test])
    # All pixels have one unit, as on MNIST.
    return Task(own, new, near, settings, "isotropic", ball=0.1, box=(0.0, 1.0))


def cifar() -> Task:
    """The CIFAR-10 test images that are here: 1,400 to cover, 600 to test; SVHN as the shift."""
    data = data_folder("images")
    with np.load(data / "images" / "cifar10_test_2000.npz", allow_pickle=False) as file:
        X, y = _channels_first(file["images"]), file["labels"].astype(np.int64)
    with np.load(data / "images" / "svhn_test_crops_2000.npz", allow_pickle=False) as file:
        svhn = _channels_first(file["images"][:1000])
    order = np.random.default_rng(0).permutation(len(X))
    first, second = order[:1400], order[1400:]
    train, test = (X[first], y[first]), (X[second], y[second])
    return Task(train, test, {"svhn": svhn}, {}, ball=8 / 255, box=(0.0, 1.0))


def _channels_first(images: NDArray[np.uint8]) -> Array:
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2) / 255.0)


def _letters(data: Path) -> Array:
    with np.load(data / "images" / "emnist_letters_2000.npz", allow_pickle=False) as file:
        letters: Array = file["images"].reshape(len(file["images"]), -1) / 255.0
    return letters


def _shrunk(images: Array) -> Array:
    """28 x 28 with a margin of two pixels, each 4 x 4 block averaged: as the digits were made."""
    framed = np.pad(images.reshape(-1, 28, 28), ((0, 0), (2, 2), (2, 2)))
    small: Array = framed.reshape(-1, 8, 4, 8, 4).mean(axis=(2, 4)).reshape(-1, 64)
    return small


def _idx(folder: Path, part: str, count: int) -> tuple[Array, NDArray[np.int64]]:
    """Read images and labels in the MNIST format."""
    with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as stream:
        images = np.frombuffer(stream.read(), np.uint8, offset=16).reshape(-1, 784)[:count]
    with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as stream:
        labels = np.frombuffer(stream.read(), np.uint8, offset=8)[:count]
    return images / 255.0, labels.astype(np.int64)
