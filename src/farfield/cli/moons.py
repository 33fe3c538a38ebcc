"""What ``farfield demo`` computes: two models on half-moons and their far field, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.datasets import half_moons
from farfield.estimators import EnsembleClassifier, ReLUClassifier
from farfield.exact import at_infinity, blind_arcs
from farfield.graph import capture

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MoonsResult:
    """One model on half-moons.

    Attributes:
        title: What it is.
        accuracy: On the validation points.
        instances: How many networks.
        X: Training points, ``(points, 2)``.
        y: Their classes.
        centre: Where the rays start, the mean of the data.
        angles: ``(directions,)`` of the rays.
        distances: ``(radii,)`` of the surface, from 0 outwards.
        confidence: ``(radii, directions)`` at those distances.
        limit: ``(directions,)`` confidence at infinity, exact.
        label: ``(directions,)`` class at infinity.
        votes: ``(directions, classes)`` share of instances that end up with each class.
        reach: ``(directions,)`` where the last unit of any instance settles.
        settled: ``(directions,)`` from where on no instance's winner falls below 99.9%.
        blind: The share of all directions with 99% confidence or more at infinity, exact.
    """

    title: str
    accuracy: float
    instances: int
    X: Floats
    y: NDArray[np.int64]
    centre: Floats
    angles: Floats
    distances: Floats
    confidence: Floats
    limit: Floats
    label: NDArray[np.int64]
    votes: Floats
    reach: Floats
    settled: Floats
    blind: float

    @property
    def verdict(self) -> str:
        """One sentence on what happens at infinity."""
        sentence = f"At infinity it is 99% sure or more in {self.blind:.2%} of all directions"
        if self.instances == 1 or self.blind == 1:
            return f"{sentence} (exact)."
        return (
            f"{sentence} (exact); in the others its members disagree, and the confidence stays "
            "at their vote."
        )


def far_field_of_moons(seed: int, directions: int, far_away: float) -> list[MoonsResult]:
    """Train one network and an ensemble on half-moons; evaluate both out to infinity."""
    moons = half_moons(seed)
    settings: dict[str, Any] = {"hidden": (25, 25, 25), "logits": "one", "random_state": seed}
    models = {
        "One ReLU network": ReLUClassifier(**settings),
        "Ensemble of ten": EnsembleClassifier(members=10, **settings),
    }
    centre = moons.X.mean(axis=0)
    angles = np.linspace(0, 2 * np.pi, directions, endpoint=False)
    rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    distances = np.concatenate([[0.0], np.geomspace(0.05, far_away, 119)])
    results = []
    for title, model in models.items():
        model.fit(moons.X, moons.y)
        network = capture(model)
        far = at_infinity(network, centre, rays)
        points = centre + distances[:, None, None] * rays
        mean = network.probabilities(points.reshape(-1, 2)).mean(dim=0)
        surface = mean.amax(dim=-1).reshape(len(distances), directions)
        settled = far.distance(0.999).amax(dim=0)
        results.append(
            MoonsResult(
                title=title,
                accuracy=float(model.score(moons.X_validation, moons.y_validation)),
                instances=network.instances,
                X=moons.X,
                y=moons.y,
                centre=centre,
                angles=angles,
                distances=distances,
                confidence=_array(surface),
                limit=_array(far.confidence),
                label=_array(far.label),
                votes=_array(far.votes),
                reach=_array(far.reach.amax(dim=0)),
                settled=_array(settled),
                blind=blind_arcs(network).share,
            )
        )
    return results


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.cpu().numpy()
    return array
