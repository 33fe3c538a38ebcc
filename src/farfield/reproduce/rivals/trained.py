"""Networks that are trained differently: temperature, ensembles, CEDA, ACET, RBF networks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from farfield.estimators import (
    AnchoredEnsembleClassifier,
    EnsembleClassifier,
    RBFClassifier,
    ReLUClassifier,
    TemperatureScaling,
)
from farfield.exact import at_infinity
from farfield.graph import capture
from farfield.networks.resnet import read_hein2019
from farfield.reproduce.guard_tasks import GuardTask
from farfield.reproduce.rivals.base import Base
from farfield.reproduce.rivals.rival import Rival, of_probabilities, proven_uniform

MEMBERS = 5


def train(method: str, task: GuardTask, seed: int) -> Any:
    """Train a network, or read a published one."""
    if task.networks is not None:
        return read_hein2019(task.networks / f"cifar10-{method}.npz")
    settings = {"random_state": seed, **task.settings}
    if method == "rbf":
        count = min(200, len(task.train[0]) // 2)
        kept = {key: settings[key] for key in ("standardize",) if key in settings}
        made: Any = RBFClassifier(centres=count, epochs=30, random_state=seed, **kept)
    elif method == "temperature":
        made = TemperatureScaling(ReLUClassifier(**settings), random_state=seed)
    elif method in ("ensemble", "anchored"):
        kind = EnsembleClassifier if method == "ensemble" else AnchoredEnsembleClassifier
        if method == "anchored":
            settings.pop("weight_decay", None)
        made = kind(members=MEMBERS, **settings)
    else:
        objective: Any = "nll" if method == "plain" else method
        made = ReLUClassifier(objective=objective, **settings)
    return made.fit(*task.train)


def captured(model: Any, task: GuardTask) -> Rival:
    """A classifier that can be followed exactly: the mean of its instances."""
    network = capture(model, torch.zeros(1, *task.train[0].shape[1:]))

    def probabilities(rows: Tensor) -> Tensor:
        return network.probabilities(rows).mean(dim=0)

    def far(origin: Tensor, rays: Tensor) -> Tensor:
        return at_infinity(network, origin, rays).confidence

    return of_probabilities(probabilities, far)


def single(model: Any, task: GuardTask) -> Rival:
    """One deep network: its features in its own precision, its far field in double precision."""
    base = Base.of(model, task)
    return of_probabilities(base.probabilities, base.confidence)


def rbf(model: Any, task: GuardTask) -> Rival:
    """A radial basis function network, which is uniform far away by proof."""

    def probabilities(rows: Tensor) -> Tensor:
        return torch.softmax(model.module_.double()(rows.double()), dim=1)

    extra = {"certified_radius": model.certificate_radius(0.01)}
    return of_probabilities(probabilities, proven_uniform(task.classes), extra=extra)
