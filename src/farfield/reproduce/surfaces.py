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
from torch import Tensor

from farfield.exact import at_infinity
from farfield.graph.network import Network
from farfield.scores import gradient_magnitude, score_by_name

Floats = NDArray[np.float64]
Window = tuple[float, float, float, float]
ENTROPIES = frozenset({"predictive_entropy", "expected_entropy", "mutual_information"})
# Scores of disagreement are estimated from this many samples in the authors' code.
FEW = 10
DISAGREEMENT = frozenset({"class_variance", "mutual_information"})


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
    points = torch.from_numpy(grid.points)
    return {
        name: _shaped(
            gradient_magnitude(
                differentiable(network),
                points,
                partial(_score_of, name, few),
            ),
            grid.shape,
        )
        for name in names
    }


def differentiable(network: Network) -> Callable[[Tensor], Tensor]:
    """Return probabilities of all instances as a function that gradients flow through."""

    def probabilities(x: Tensor) -> Tensor:
        outputs = [network.as_classes(group.forward(x)) for group in network.groups]
        return torch.softmax(torch.cat(outputs), dim=-1)

    return probabilities


@dataclass(frozen=True)
class Polar:
    """Scores along all directions from a centre.

    Attributes:
        angles: ``(directions,)``.
        distances: ``(distances,)`` from 0 outwards.
        near: Score to ``(distances, directions)``.
        limit: Score to ``(directions,)``, at infinity, exact.
    """

    angles: Floats
    distances: Floats
    near: dict[str, NDArray[np.float32]]
    limit: dict[str, NDArray[np.float32]]


def polar_surfaces(
    network: Network,
    names: Sequence[str],
    centre: Floats,
    *,
    directions: int,
    rings: int = 80,
    far: float = 100.0,
    few: bool = False,
) -> Polar:
    """Evaluate scores on rays in all directions, and at their ends."""
    angles = np.linspace(0, 2 * np.pi, directions, endpoint=False)
    rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    distances = np.concatenate([[0.0], np.geomspace(0.05, far, rings - 1)])
    p = network.probabilities((centre + distances[:, None, None] * rays).reshape(-1, 2))
    ends = at_infinity(network, centre, rays).probabilities
    shape = (rings, directions)
    return Polar(
        angles,
        distances,
        {name: _shaped(score_in_bits(name, _chosen(p, name, few)), shape) for name in names},
        {
            name: _shaped(score_in_bits(name, _chosen(ends, name, few)), (directions,))
            for name in names
        },
    )


def _score_of(name: str, few: bool, p: Tensor) -> Tensor:
    scores: Tensor = score_in_bits(name, _chosen(p, name, few))
    return scores


def _chosen(p: Tensor, name: str, few: bool) -> Tensor:
    return p[:FEW] if few and name in DISAGREEMENT else p


def _shaped(values: Tensor, shape: tuple[int, ...]) -> NDArray[np.float32]:
    # Half the file, and more digits than a picture shows.
    return values.numpy().reshape(shape).astype(np.float32)
