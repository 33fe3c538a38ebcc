"""Regression ensembles: every member with its band, and the mixture with its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from farfield.report.figure import new_figure

Floats = NDArray[np.float64]
CURVE, BAND, POINTS, TRUTH = "#54278f", "#9e9ac8", "#d95f02", "0.35"


class Bands(Protocol):
    """A mixture of distributions at every point of a grid."""

    @property
    def means(self) -> Floats:
        """``(members, points)``."""

    @property
    def member_std(self) -> Floats:
        """``(members, points)``."""

    @property
    def mean(self) -> Floats:
        """``(points,)`` of the mixture."""

    @property
    def std(self) -> Floats:
        """``(points,)`` of the mixture."""


def draw_mixture(
    grid: Floats,
    mixture: Bands,
    X: Floats,
    y: Floats,
    truth: Callable[[Floats], Floats],
    limits: tuple[float, float],
) -> Any:
    """Draw members on the left and their mixture on the right, bands of one standard deviation.

    Args:
        grid: ``(points,)`` where the mixture was evaluated.
        mixture: The predictions there.
        X: Training inputs, ``(rows,)``.
        y: Training targets, ``(rows,)``.
        truth: The function that the data came from.
        limits: Range of the vertical axis.
    """
    figure = new_figure(11, 5)
    left, right = figure.subfigures(1, 2)
    members = len(mixture.means)
    axes = left.subplots(-(-members // 2), 2, sharex=True, sharey=True, squeeze=False)
    for index, axis in enumerate(axes.ravel()):
        axis.set_visible(index < members)
        if index < members:
            _draw(axis, grid, mixture.means[index], mixture.member_std[index], X, y, truth)
            axis.set_title(f"member {index + 1}", fontsize=9)
            axis.set_ylim(*limits)
    axis = right.subplots()
    _draw(axis, grid, mixture.mean, mixture.std, X, y, truth)
    axis.set_title(f"mixture of {members}")
    axis.set_ylim(*limits)
    axis.set_xlabel("x")
    axis.set_ylabel("y")
    axis.legend(frameon=False, loc="upper left")
    return figure


def _draw(
    axis: Any, grid: Floats, mean: Floats, std: Floats, X: Floats, y: Floats, truth: Any
) -> None:
    axis.fill_between(grid, mean - std, mean + std, color=BAND, alpha=0.6, lw=0, label="mean ± std")
    axis.plot(grid, truth(grid), color=TRUTH, lw=1, ls="--", label="truth")
    axis.plot(grid, mean, color=CURVE, lw=1.5, label="mean")
    axis.scatter(X, y, s=8, color=POINTS, zorder=3, label="data")
    axis.spines[["top", "right"]].set_visible(False)
