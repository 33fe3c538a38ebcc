"""What ``farfield demo`` computes: the papers' models on half-moons, audited all the way out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.audit.record import Audit
from farfield.audit.run import audit
from farfield.datasets import half_moons
from farfield.datasets.synthetic import SyntheticData
from farfield.estimators import (
    AnchoredEnsembleClassifier,
    BayesByBackpropClassifier,
    EnsembleClassifier,
    MCDropoutClassifier,
    ReLUClassifier,
    TemperatureScaling,
)
from farfield.exact import at_infinity
from farfield.graph import capture

Floats = NDArray[np.float64]
# A ring around the data, three to four times as far out as the data reaches.
RING = (8.0, 10.0)


@dataclass(frozen=True)
class MoonsDisc:
    """One model's confidence over the whole plane.

    Attributes:
        title: What it is.
        X: Training points, ``(points, 2)``.
        y: Their classes.
        centre: Where the rays start, the mean of the data.
        angles: ``(directions,)`` of the rays.
        distances: ``(radii,)`` of the surface, from 0 outwards.
        confidence: ``(radii, directions)`` at those distances.
        limit: ``(directions,)`` confidence at infinity, exact.
    """

    title: str
    X: Floats
    y: NDArray[np.int64]
    centre: Floats
    angles: Floats
    distances: Floats
    confidence: Floats
    limit: Floats


@dataclass(frozen=True)
class Audited:
    """A fitted model, how good it is on points it has not seen, and its audit."""

    title: str
    accuracy: float
    found: Audit
    disc: MoonsDisc


def papers_models(seed: int) -> dict[str, Any]:
    """The models of Know Your Limits, with its architecture and one logit."""
    settings: dict[str, Any] = {"hidden": (25, 25, 25), "logits": "one", "random_state": seed}
    return {
        "One ReLU network": ReLUClassifier(**settings),
        "Temperature scaling": TemperatureScaling(ReLUClassifier(**settings), random_state=seed),
        "MC dropout": MCDropoutClassifier(samples=50, **settings),
        "Ensemble of ten": EnsembleClassifier(members=10, **settings),
        "Anchored ensemble": AnchoredEnsembleClassifier(members=10, **settings),
        "Bayes by backprop": BayesByBackpropClassifier(
            logits="one", random_state=seed, hidden=(25,)
        ),
    }


def audited_moons(
    seed: int, directions: int, far_away: float, progress: Callable[[str, float], None]
) -> list[Audited]:
    """Train every model, and audit it."""
    moons = half_moons(seed)
    rng = np.random.default_rng(seed)
    angles, radii = rng.uniform(0, 2 * np.pi, 500), rng.uniform(*RING, 500)
    ring = moons.X.mean(axis=0) + radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1)
    models = papers_models(seed)
    done = []
    for index, (title, model) in enumerate(models.items()):
        progress("training", index / len(models))
        model.fit(moons.X, moons.y)
        progress("auditing", index / len(models))
        found = audit(
            model,
            moons.X,
            moons.y,
            features=("x", "y"),
            class_names=("upper moon", "lower moon"),
            ood={"ring": ring},
            samples=len(moons.X),
            random_state=seed,
        )
        accuracy = float(model.score(moons.X_validation, moons.y_validation))
        done.append(
            Audited(title, accuracy, found, _disc(title, model, moons, directions, far_away))
        )
    return done


def _disc(
    title: str, model: Any, moons: SyntheticData, directions: int, far_away: float
) -> MoonsDisc:
    """Evaluate a model on the whole plane, out to infinity."""
    network = capture(model)
    centre = moons.X.mean(axis=0)
    angles = np.linspace(0, 2 * np.pi, directions, endpoint=False)
    rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    distances = np.concatenate([[0.0], np.geomspace(0.05, far_away, 119)])
    points = centre + distances[:, None, None] * rays
    mean = network.probabilities(points.reshape(-1, 2)).mean(dim=0)
    return MoonsDisc(
        title=title,
        X=moons.X,
        y=moons.y,
        centre=centre,
        angles=angles,
        distances=distances,
        confidence=_array(mean.amax(dim=-1).reshape(len(distances), directions)),
        limit=_array(at_infinity(network, centre, rays).confidence),
    )


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.cpu().numpy()
    return array
