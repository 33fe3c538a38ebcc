"""Networks that are trained differently: temperature, ensembles, CEDA, ACET, RBF networks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import farfield as ff
from benchmarks.guard_data import Task
from benchmarks.parts import data_folder
from benchmarks.rivals.base import Base
from benchmarks.rivals.rival import Rival, of_probabilities, proven_uniform
from farfield.networks.resnet import read_hein2019

MEMBERS = 5


def train(name: str, method: str, task: Task, seed: int) -> Any:
    """Train a network, or read a published one."""
    if name == "cifar-10":
        return read_hein2019(data_folder("hein2019") / "hein2019" / f"cifar10-{method}.npz")
    settings = {"random_state": seed, **task.settings}
    if method == "rbf":
        count = min(200, len(task.train[0]) // 2)
        kept = {key: settings[key] for key in ("standardize",) if key in settings}
        made: Any = ff.RBFClassifier(centres=count, epochs=30, random_state=seed, **kept)
    elif method == "temperature":
        made = ff.TemperatureScaling(ff.ReLUClassifier(**settings), random_state=seed)
    elif method in ("ensemble", "anchored"):
        kind = ff.EnsembleClassifier if method == "ensemble" else ff.AnchoredEnsembleClassifier
        if method == "anchored":
            settings.pop("weight_decay", None)
        made = kind(members=MEMBERS, **settings)
    else:
        objective = "nll" if method == "plain" else method
        made = ff.ReLUClassifier(objective=objective, **settings)
    return made.fit(*task.train)


def captured(model: Any, task: Task) -> Rival:
    """A classifier that can be followed exactly: the mean of its instances."""
    network = ff.capture(model, torch.zeros(1, *task.train[0].shape[1:]))

    def probabilities(rows: Tensor) -> Tensor:
        return network.probabilities(rows).mean(dim=0)

    def far(origin: Tensor, rays: Tensor) -> Tensor:
        return ff.at_infinity(network, origin, rays).confidence

    return of_probabilities(probabilities, far)


def single(model: Any, task: Task) -> Rival:
    """One deep network: its features in its own precision, its far field in double precision."""
    base = Base.of(model, task)
    return of_probabilities(base.probabilities, base.confidence)


def rbf(model: Any, task: Task) -> Rival:
    """A radial basis function network, which is uniform far away by proof."""

    def probabilities(rows: Tensor) -> Tensor:
        return torch.softmax(model.module_.double()(rows.double()), dim=1)

    extra = {"certified_radius": model.certificate_radius(0.01)}
    return of_probabilities(probabilities, proven_uniform(task.classes), extra=extra)
