"""The networks and images of Hein et al. 2019: theirs read from files, LeNets trained here."""

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
