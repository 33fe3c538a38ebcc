"""What remedies are compared on: tables and images, natural shifts from them, far inputs, noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor

from farfield.data.image_files import read_idx
from farfield.objectives.noise import noise_for
from farfield.reproduce.shifted_tables import (
    FILES,
    ROWS,
    TABLES,
    Floats,
    Labelled,
    ShiftedTable,
    split,
)

Library = Literal["xgboost", "lightgbm"]


@dataclass(frozen=True, eq=False)
class GuardTask(ShiftedTable):
    """A classification task with inputs that are not its own, and how models are fitted to it.

    Attributes:
        settings: Of the networks.
        metric: Of the guard; ``None`` lets it choose.
        boosted: The library whose trees are guarded, instead of a network.
        networks: The folder with the networks of Hein et al. 2019, in place of training.
        ball: Radius of an adversary's ball: in deviations of each column, or of a pixel's range.
        box: Least and largest value of a pixel; ``None`` for tables.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    metric: Any = None
    boosted: Library | None = None
    networks: Path | None = None
    ball: float = 0.25
    box: tuple[float, float] | None = None

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return int(self.train[1].max()) + 1

    @property
    def units(self) -> Floats:
        """What an adversary's ball is measured in, ``(*input)``."""
        X = self.train[0]
        if self.box is not None:
            return np.full(X.shape[1:], self.box[1] - self.box[0])
        deviations: Floats = X.std(axis=0)
        return deviations

    @cached_property
    def standard(self) -> tuple[Tensor, Tensor]:
        """Mean and deviation of every input; one where it never varies."""
        X = torch.from_numpy(self.train[0])
        scale = X.std(dim=0)
        return X.mean(dim=0), torch.where(scale > 0, scale, torch.ones_like(scale))

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Noise like CEDA's, ``(count, *input)``, to train against: never a foreign set."""
        X = torch.from_numpy(self.train[0])
        return noise_for(X.ndim - 1)(X, count, generator)

    def far(self) -> dict[str, Floats]:
        """Inputs far away: one feature of each test row times a factor, and noise."""
        rng = np.random.default_rng(0)
        scaled = self.scaled(rng)
        low, high = self.train[0].min(axis=0), self.train[0].max(axis=0)
        middle, half = (low + high) / 2, 1.5 * (high - low)
        noise = middle + half * rng.uniform(-1, 1, size=scaled.shape)
        return {"one feature times 10 to 1e6": scaled, "noise, three times the range": noise}


@dataclass(frozen=True)
class TaskEntry:
    """A task before it is read.

    Attributes:
        read: From the folder of data.
        needs: Files below that folder.
        boosted: The library whose trees are guarded, instead of a network.
        published: Whether its networks are those of Hein et al. 2019.
    """

    read: Callable[[Path | None], GuardTask]
    needs: tuple[str, ...] = ()
    boosted: Library | None = None
    published: bool = False


SMALL = {"hidden": (20, 20), "weight_decay": 1e-2, "epochs": 40, "batch_size": 32}
CREDIT = {"hidden": (50, 50), "dropout": 0.1, "weight_decay": 1e-3, "epochs": 8} | {
    "batch_size": 256,
    "learning_rate": 2e-3,
}
# Tables of the studies, and the settings of their networks.
NETWORKS: dict[str, dict[str, Any]] = {
    "half-moons": {
        "hidden": (25, 25, 25), "epochs": 60, "batch_size": 64, "learning_rate": 3e-3,
    },
    "heart disease": SMALL,
    "breast cancer": SMALL,
    "ICU": {"hidden": (50, 50), "dropout": 0.3, "weight_decay": 1e-2, "epochs": 15},
    "credit default": CREDIT,
    "german credit": SMALL | {"epochs": 30},
    "wine": SMALL,
}  # fmt: skip


def table(name: str, folder: Path | None, boosted: Library | None = None) -> GuardTask:
    """A table of the studies."""
    found = TABLES[name](folder)
    own = NETWORKS[name]
    return GuardTask(found.train, found.test, found.near, found.blocks, own, boosted=boosted)


def mnist(folder: Path | None) -> GuardTask:
    """MNIST as rows of pixels in [0, 1]; Fashion-MNIST and letters as shifts."""
    data = folder or Path()
    train, test = _idx(data / "mnist", "train", 12_000), _idx(data / "mnist", "t10k", 5_000)
    near = {"fashion": _idx(data / "fashion_mnist", "t10k", ROWS)[0], "letters": _letters(data)}
    settings = {"hidden": (128, 128), "epochs": 8, "standardize": False, "batch_size": 128}
    return _pixels(train, test, near, settings)


def digits(folder: Path | None) -> GuardTask:
    """The 8 x 8 digits of scikit-learn; MNIST and letters shrunk to their size as shifts."""
    data = folder or Path()
    X, y = load_digits(return_X_y=True)
    X, y = X / 16.0, y.astype(np.int64)
    train, test = split(np.arange(len(X)))
    near = {
        "mnist": _shrunk(_idx(data / "mnist", "t10k", ROWS)[0]),
        "letters": _shrunk(_letters(data)),
    }
    settings = {"hidden": (64, 64), "epochs": 40, "batch_size": 32}
    return _pixels((X[train], y[train]), (X[test], y[test]), near, settings)


def cifar(folder: Path | None) -> GuardTask:
    """The CIFAR-10 test images that are here: 1,400 to cover, 600 to test; SVHN as the shift."""
    data = folder or Path()
    images, labels = _archive(data, "cifar10_test_2000")
    X, y = _channels_first(images), labels.astype(np.int64)
    svhn = _channels_first(_archive(data, "svhn_test_crops_2000")[0][:1000])
    order = np.random.default_rng(0).permutation(len(X))
    first, second = order[:1400], order[1400:]
    return GuardTask(
        (X[first], y[first]),
        (X[second], y[second]),
        {"svhn": svhn},
        networks=data / "hein2019",
        ball=8 / 255,
        box=(0.0, 1.0),
    )


def _pixels(
    train: Labelled, test: Labelled, near: dict[str, Floats], settings: dict[str, Any]
) -> GuardTask:
    """Rows of pixels, which all have one unit."""
    more: dict[str, Any] = {"metric": "isotropic", "ball": 0.1, "box": (0.0, 1.0)}
    return GuardTask(train, test, near, settings=settings, **more)


def _idx(folder: Path, part: str, count: int) -> Labelled:
    """Images and labels in the MNIST format; in double precision, so that 255 is 1."""
    images = read_idx(folder / f"{part}-images-idx3-ubyte.gz")[:count]
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz")[:count]
    return images.reshape(len(images), -1) / 255.0, labels.astype(np.int64)


def _archive(data: Path, name: str) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    with np.load(data / "images" / f"{name}.npz", allow_pickle=False) as file:
        return file["images"], file["labels"]


def _letters(data: Path) -> Floats:
    images, _ = _archive(data, "emnist_letters_2000")
    letters: Floats = images.reshape(len(images), -1) / 255.0
    return letters


def _channels_first(images: NDArray[np.uint8]) -> Floats:
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2) / 255.0)


def _shrunk(images: Floats) -> Floats:
    """28 x 28 with a margin of two pixels, each 4 x 4 block averaged: as the digits were made."""
    framed = np.pad(images.reshape(-1, 28, 28), ((0, 0), (2, 2), (2, 2)))
    small: Floats = framed.reshape(-1, 8, 4, 8, 4).mean(axis=(2, 4)).reshape(-1, 64)
    return small


def _entry(name: str, boosted: Library | None = None) -> TaskEntry:
    needs = (FILES[name],) if name in FILES else ()
    return TaskEntry(partial(table, name, boosted=boosted), needs, boosted)


_MNIST = ("mnist/t10k-images-idx3-ubyte.gz", "images/emnist_letters_2000.npz")
_MORE = ("mnist/train-images-idx3-ubyte.gz", "fashion_mnist/t10k-images-idx3-ubyte.gz")
_COLOUR = ("images/cifar10_test_2000.npz", "images/svhn_test_crops_2000.npz")
_NETWORKS = tuple(f"hein2019/cifar10-{method}.npz" for method in ("plain", "ceda", "acet"))
TASKS: dict[str, TaskEntry] = {
    "half-moons": _entry("half-moons"),
    "heart disease": _entry("heart disease"),
    "breast cancer": _entry("breast cancer"),
    "icu": _entry("ICU"),
    "credit default": _entry("credit default"),
    "digits": TaskEntry(digits, _MNIST),
    "mnist": TaskEntry(mnist, _MNIST + _MORE),
    "cifar-10": TaskEntry(cifar, _COLOUR + _NETWORKS, published=True),
    "icu, xgboost": _entry("ICU", "xgboost"),
    "icu, lightgbm": _entry("ICU", "lightgbm"),
    "credit default, xgboost": _entry("credit default", "xgboost"),
    "credit default, lightgbm": _entry("credit default", "lightgbm"),
    "german credit": _entry("german credit"),
    "wine": _entry("wine"),
}
