"""The networks, images and tables of Hein, Andriushchenko and Bitterwolf 2019.

Their networks are read from files, LeNets are trained here. The tables are as printed; rows for
data that are not evaluated here (CIFAR-100, LSUN, ImageNet-) are left out.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from farfield.data import read_images, to_gray_28
from farfield.estimators.images import ImageSettings, train_images
from farfield.networks.lenet import lenet
from farfield.networks.resnet import read_hein2019
from farfield.objectives import ACET, CEDA, NLL, PGD, ImageNoise, Objective
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage

METHODS = ("plain", "ceda", "acet")
RESNETS = tuple(f"{data}-{method}" for data in ("cifar10", "svhn") for method in METHODS)
LENETS = tuple(f"mnist-{method}" for method in METHODS)
IMAGES = {
    "cifar10": "images/cifar10_test_2000.npz",
    "svhn": "images/svhn_test_crops_2000.npz",
    "emnist": "images/emnist_letters_2000.npz",
    "fashion": "fashion_mnist/t10k-images-idx3-ubyte.gz",
    "mnist": "mnist/t10k-images-idx3-ubyte.gz",
    "mnist train": "mnist/train-images-idx3-ubyte.gz",
}
NEEDS = (*(f"hein2019/{name}.npz" for name in RESNETS), *IMAGES.values())
# Noise images that share one filter.
DRAW = 20


def lenet_settings(quick: bool, seed: int) -> Settings:
    """The paper's training of LeNet on MNIST, or a minute of it."""
    if quick:
        return {
            "seed": seed, "epochs": {"plain": 10, "ceda": 8, "acet": 4}, "epoch_images": 1000,
            "acet_steps": 5, "acet_step": 0.06, "warm_start": True,
        }  # fmt: skip
    return {
        "seed": seed, "epochs": dict.fromkeys(METHODS, 100), "epoch_images": None,
        "acet_steps": 40, "acet_step": 0.0075, "warm_start": False,
    }  # fmt: skip


def lenet_steps(settings: Settings, request: RunRequest) -> list[Stage]:
    """Train the three LeNets; experiments that ask for the same ones share them."""
    return [
        Stage(
            f"train mnist-{method}",
            {**settings, "method": method},
            partial(_train, method, settings, request),
            needs=("train mnist-ceda",) if method == "acet" and settings["warm_start"] else (),
            shared=True,
        )
        for method in METHODS
    ]


def _train(method: str, settings: Settings, request: RunRequest, start: Any = None) -> Result:
    """Train one LeNet with the paper's constants."""
    objectives: dict[str, Objective] = {
        "plain": NLL(),
        "ceda": CEDA(),
        "acet": ACET(steps=settings["acet_steps"], step_size=settings["acet_step"]),
    }
    chosen = ImageSettings(
        objective=objectives[method],
        epochs=settings["epochs"][method],
        epoch_images=settings["epoch_images"],
        learning_rate=1e-3 if start is None else 5e-4,
        random_state=settings["seed"],
    )
    mode = "full" if settings["epoch_images"] is None else f"of-{settings['epoch_images']}"
    name = f"{method}-{mode}-{settings['epochs'][method]}-{settings['seed']}"
    return train_lenet(chosen, request, request.folder.parent / "shared" / name, start)


def train_lenet(
    chosen: ImageSettings, request: RunRequest, place: Path, start: Result | None = None
) -> Result:
    """Train a LeNet on MNIST, from new weights or those of a kept step.

    Every epoch is kept beside ``place``, so that a kill loses at most one.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    trained = train_images(
        lenet if start is None else network_of(start),
        read_set(request, "mnist train"),
        read_labels(request, "mnist train"),
        chosen,
        checkpoint=place.with_name(f"{place.name}.checkpoint"),
        progress=False,
    )
    weights = {f"weight {k}": v.numpy() for k, v in trained.module.state_dict().items()}
    return {"losses": [record.loss for record in trained.history], **weights}


def network_of(result: Result) -> nn.Module:
    """Build a LeNet from the weights of a kept step."""
    # Without initial weights, which would move the global random state.
    with torch.device("meta"):
        module: nn.Module = lenet()
    state = {
        name.removeprefix("weight "): torch.from_numpy(np.asarray(value))
        for name, value in result.items()
        if name.startswith("weight ")
    }
    module.load_state_dict(state, assign=True)
    return module.eval().requires_grad_(False)


def read_network(request: RunRequest, name: str, trained: Result | None = None) -> nn.Module:
    """Build one of our LeNets from the step that trained it, or read one of the authors'."""
    if trained is not None:
        return network_of(trained)
    assert request.data_dir is not None
    return read_hein2019(request.data_dir / "hein2019" / f"{name}.npz").requires_grad_(False)


def needs_of(name: str) -> tuple[str, ...]:
    """The step that trains a network, where it is one of ours."""
    return (f"train {name}",) if name in LENETS else ()


def read_set(request: RunRequest, name: str, count: int | None = None) -> Tensor:
    """Read images in [0, 1], channels first; ``gray`` is CIFAR-10 in gray, 28 x 28."""
    assert request.data_dir is not None
    if name == "gray":
        return torch.from_numpy(to_gray_28(read_set(request, "cifar10", count).numpy()))
    images = read_images(request.data_dir / IMAGES[name]).images
    return torch.from_numpy(images[:count])


def read_labels(request: RunRequest, name: str, count: int | None = None) -> Tensor:
    """Read the labels that belong to :func:`read_set`."""
    assert request.data_dir is not None
    labels = read_images(request.data_dir / IMAGES[name]).labels
    assert labels is not None
    return torch.from_numpy(labels[:count])


def crossing_attack(radius: float, steps: int, step: float) -> PGD:
    """Return the papers' attack; fewer steps are longer ones, so that they can cross the ball."""
    return PGD(radius, steps, max(step, 2.5 * radius / steps))


def draw_noise(images: Tensor, count: int, seed: int) -> Tensor:
    """Draw the paper's noise: half permuted images, half uniform, filtered and rescaled."""
    generator = torch.Generator().manual_seed(seed)
    draws = [ImageNoise()(images, min(DRAW, count), generator) for _ in range(-(-count // DRAW))]
    return torch.cat(draws)[:count]


COLUMNS = ("MMC", "AUROC", "FPR@95")

# Network -> data -> MMC, AUROC, FPR@95; MMC alone on its own data; its test error in percent.
TABLE_1: dict[str, dict[str, tuple[float, ...]]] = {
    "mnist-plain": {
        "error": (0.51,),
        "data": (0.991,),
        "FashionMNIST": (0.654, 0.972, 0.121),
        "EMNIST": (0.821, 0.883, 0.374),
        "gray CIFAR-10": (0.492, 0.996, 0.003),
        "noise": (0.463, 0.998, 0.000),
        "adversarial noise": (1.000, 0.031, 1.000),
        "adversarial samples": (0.999, 0.358, 0.992),
    },
    "mnist-ceda": {
        "error": (0.74,),
        "data": (0.987,),
        "FashionMNIST": (0.373, 0.994, 0.027),
        "EMNIST": (0.787, 0.895, 0.358),
        "gray CIFAR-10": (0.105, 1.000, 0.000),
        "noise": (0.100, 1.000, 0.000),
        "adversarial noise": (0.102, 0.998, 0.002),
        "adversarial samples": (0.987, 0.549, 0.953),
    },
    "mnist-acet": {
        "error": (0.66,),
        "data": (0.986,),
        "FashionMNIST": (0.239, 0.998, 0.003),
        "EMNIST": (0.752, 0.912, 0.313),
        "gray CIFAR-10": (0.101, 1.000, 0.000),
        "noise": (0.100, 1.000, 0.000),
        "adversarial noise": (0.162, 0.992, 0.042),
        "adversarial samples": (0.854, 0.692, 0.782),
    },
    "svhn-plain": {
        "error": (3.53,),
        "data": (0.980,),
        "CIFAR-10": (0.732, 0.938, 0.348),
        "noise": (0.720, 0.943, 0.325),
        "adversarial noise": (1.000, 0.004, 1.000),
        "adversarial samples": (1.000, 0.004, 1.000),
    },
    "svhn-ceda": {
        "error": (3.50,),
        "data": (0.977,),
        "CIFAR-10": (0.551, 0.960, 0.209),
        "noise": (0.100, 1.000, 0.000),
        "adversarial noise": (0.946, 0.062, 0.940),
        "adversarial samples": (0.995, 0.009, 0.994),
    },
    "svhn-acet": {
        "error": (3.52,),
        "data": (0.978,),
        "CIFAR-10": (0.435, 0.973, 0.140),
        "noise": (0.100, 1.000, 0.000),
        "adversarial noise": (0.101, 1.000, 0.000),
        "adversarial samples": (0.369, 0.778, 0.279),
    },
    "cifar10-plain": {
        "error": (8.87,),
        "data": (0.949,),
        "SVHN": (0.800, 0.850, 0.783),
        "noise": (0.825, 0.827, 0.818),
        "adversarial noise": (1.000, 0.035, 1.000),
        "adversarial samples": (1.000, 0.034, 1.000),
    },
    "cifar10-ceda": {
        "error": (8.87,),
        "data": (0.946,),
        "SVHN": (0.327, 0.978, 0.146),
        "noise": (0.100, 1.000, 0.000),
        "adversarial noise": (0.985, 0.032, 0.983),
        "adversarial samples": (1.000, 0.014, 1.000),
    },
    "cifar10-acet": {
        "error": (8.44,),
        "data": (0.948,),
        "SVHN": (0.263, 0.981, 0.118),
        "noise": (0.100, 1.000, 0.000),
        "adversarial noise": (0.112, 0.999, 0.008),
        "adversarial samples": (0.633, 0.512, 0.590),
    },
}

# Network -> median factor alpha to 99.9%, and percent overconfident after clipping; none for CEDA.
TABLE_2: dict[str, tuple[float, float]] = {
    "mnist-plain": (1.5, 98.7),
    "svhn-plain": (28.1, 99.9),
    "cifar10-plain": (8.1, 99.9),
    "mnist-acet": (1e6, 0.0),
    "svhn-acet": (49.8, 50.2),
    "cifar10-acet": (45.3, 3.4),
}
