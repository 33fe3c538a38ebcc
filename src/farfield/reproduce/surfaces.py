"""Scores and their gradients on grids, and along all directions through to infinity.

Every surface is one batched evaluation of all instances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from farfield.exact import at_infinity
from farfield.graph.network import Network
from farfield.guard.model import GuardedModel
from farfield.scores import gradient_magnitude, score_by_name

Floats = NDArray[np.float64]
Window = tuple[float, float, float, float]
ENTROPIES = frozenset({"predictive_entropy", "expected_entropy", "mutual_information"})
# Scores of disagreement are estimated from this many samples in the authors' code.
FEW = 10
DISAGREEMENT = frozenset({"class_variance", "mutual_information"})
# The last distance before infinity.
FARTHEST = 100.0


@dataclass(frozen=True)
class SurfaceGrid:
    """A rectangular grid of points in the plane.

    >>> grid = SurfaceGrid.of((0.0, 1.0, 0.0, 2.0), 0.5)
    >>> grid.shape, grid.points[-1].tolist()
    ((5, 3), [1.0, 2.0])
    """

    x: Floats
    y: Floats

    @classmethod
    def of(cls, window: Window, step: float) -> SurfaceGrid:
        """Cover a window ``(left, right, low, high)``, its edges included."""
        left, right, low, high = window
        return cls(
            np.linspace(left, right, round((right - left) / step) + 1),
            np.linspace(low, high, round((high - low) / step) + 1),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.y), len(self.x)

    @property
    def points(self) -> Floats:
        """``(rows * columns, 2)``, row by row."""
        return np.stack(np.meshgrid(self.x, self.y), axis=-1).reshape(-1, 2)


def score_in_bits(name: str, p: Any) -> Any:
    """Evaluate a score, entropies in bits.

    >>> float(score_in_bits("predictive_entropy", torch.tensor([[0.5, 0.5]])))
    1.0
    """
    options = {"unit": "bits"} if name in ENTROPIES else {}
    return score_by_name(name)(p, **options)


def score_surfaces(
    network: Network, names: Sequence[str], grid: SurfaceGrid, few: bool = False
) -> dict[str, NDArray[np.float32]]:
    """Evaluate scores on a grid, ``(rows, columns)`` each, in one pass over the network.

    Args:
        network: From :func:`farfield.capture`.
        names: Scores.
        grid: Where.
        few: Use ten instances for scores of disagreement, as the authors do for samples.
    """
    p = network.probabilities(grid.points)
    return {name: _shaped(score_in_bits(name, _chosen(p, name, few)), grid.shape) for name in names}


def gradient_surfaces(
    network: Network, names: Sequence[str], grid: SurfaceGrid, few: bool = False
) -> dict[str, NDArray[np.float32]]:
    """Evaluate the gradient magnitudes of scores on a grid, ``(rows, columns)`` each."""
    points, function = torch.from_numpy(grid.points), differentiable(network)
    slopes = {
        name: gradient_magnitude(function, points, partial(_score_of, name, few)) for name in names
    }
    return {name: _shaped(values, grid.shape) for name, values in slopes.items()}


def differentiable(network: Network) -> Callable[[Tensor], Tensor]:
    """Return probabilities of all instances as a function that gradients flow through."""

    def probabilities(x: Tensor) -> Tensor:
        outputs = torch.cat([network.as_classes(group.forward(x)) for group in network.groups])
        return torch.softmax(outputs, dim=-1) if network.link == "softmax" else outputs

    return probabilities


def circle(directions: int) -> tuple[Floats, Floats]:
    """Return angles of evenly spaced directions of the plane, and the directions."""
    angles = np.linspace(0, 2 * np.pi, directions, endpoint=False)
    return angles, np.stack([np.cos(angles), np.sin(angles)], axis=1)


def nearest(centres: Floats, points: Floats) -> Floats:
    """Return the distance of each point to its nearest centre."""
    found: Floats = NearestNeighbors(n_neighbors=1).fit(centres).kneighbors(points)[0][:, 0]
    return found


def polar_surfaces(
    network: Network | GuardedModel,
    names: Sequence[str],
    centre: Floats,
    *,
    directions: int,
    rings: int = 80,
    few: bool = False,
) -> dict[str, NDArray[Any]]:
    """Evaluate scores on rays in all directions, and at their ends.

    Args:
        network: From :func:`farfield.capture`, or guarded.
        names: Scores.
        centre: Where the rays start.
        directions: How many rays.
        rings: How many distances on each.
        few: Use ten instances for scores of disagreement, as the authors do for samples.

    Returns:
        ``angles``, ``distances`` from 0 outwards, and for each score ``near NAME``,
        ``(distances, directions)``, and ``limit NAME``, ``(directions,)``, at infinity, exact.
    """
    angles, rays = circle(directions)
    distances = np.concatenate([[0.0], np.geomspace(0.05, FARTHEST, rings - 1)])
    points = (centre + distances[:, None, None] * rays).reshape(-1, 2)
    if isinstance(network, GuardedModel):
        p, far = network.probabilities(points)[None], network.at_infinity(centre, rays)
    else:
        p, far = network.probabilities(points), at_infinity(network, centre, rays)
    ends = far.probabilities
    found: dict[str, NDArray[Any]] = {"angles": angles, "distances": distances}
    for name in names:
        near, limit = (score_in_bits(name, _chosen(each, name, few)) for each in (p, ends))
        found[f"near {name}"] = _shaped(near, (rings, directions))
        found[f"limit {name}"] = _shaped(limit, (directions,))
    return found


def _score_of(name: str, few: bool, p: Tensor) -> Tensor:
    scores: Tensor = score_in_bits(name, _chosen(p, name, few))
    return scores


def _chosen(p: Tensor, name: str, few: bool) -> Tensor:
    return p[:FEW] if few and name in DISAGREEMENT else p


def _shaped(values: Tensor, shape: tuple[int, ...]) -> NDArray[np.float32]:
    # Half the file, and more digits than a picture shows.
    return values.numpy().reshape(shape).astype(np.float32)
