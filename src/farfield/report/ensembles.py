"""Ensembles in pictures: members and mixture of a regressor, parts of a classifier's entropy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from farfield.report.figure import CLASSES, new_figure

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
            _draw_band(axis, grid, mixture.means[index], mixture.member_std[index], X, y, truth)
            axis.set_title(f"member {index + 1}", fontsize=9)
            axis.set_ylim(*limits)
    axis = right.subplots()
    _draw_band(axis, grid, mixture.mean, mixture.std, X, y, truth)
    axis.set_title(f"mixture of {members}")
    axis.set_ylim(*limits)
    axis.set_xlabel("x")
    axis.set_ylabel("y")
    axis.legend(frameon=False, loc="upper left")
    return figure


def _draw_band(
    axis: Any, grid: Floats, mean: Floats, std: Floats, X: Floats, y: Floats, truth: Any
) -> None:
    axis.fill_between(grid, mean - std, mean + std, color=BAND, alpha=0.6, lw=0, label="mean ± std")
    axis.plot(grid, truth(grid), color=TRUTH, lw=1, ls="--", label="truth")
    axis.plot(grid, mean, color=CURVE, lw=1.5, label="mean")
    axis.scatter(X, y, s=8, color=POINTS, zorder=3, label="data")
    axis.spines[["top", "right"]].set_visible(False)


def draw_decomposition(
    grid: tuple[Floats, Floats],
    mean: Floats,
    data: Floats,
    knowledge: Floats,
    X: Floats,
    y: NDArray[np.int64],
    unit: str,
) -> Any:
    """Draw four panels: the points, the mean's classes, and the two parts of its entropy.

    Args:
        grid: Coordinates of the columns and of the rows of a rectangular grid.
        mean: ``(rows, columns, classes)`` mean probabilities on it.
        data: ``(rows, columns)`` expected entropy.
        knowledge: ``(rows, columns)`` mutual information.
        X: Training points.
        y: Their classes.
        unit: Of the entropies, for the colour bar.
    """
    from matplotlib.colors import to_rgb

    figure = new_figure(12, 3.3)
    axes = figure.subplots(1, 4, sharex=True, sharey=True)
    extent = (grid[0][0], grid[0][-1], grid[1][0], grid[1][-1])
    frame = {"extent": extent, "origin": "lower", "aspect": "equal", "interpolation": "bilinear"}
    for label in np.unique(y):
        chosen = X[y == label]
        axes[0].scatter(*chosen.T, s=2, color=CLASSES[label], linewidths=0)
    axes[0].set_title("data")
    axes[0].set_aspect("equal")
    palette = np.array([to_rgb(colour) for colour in CLASSES[: mean.shape[-1]]])
    axes[1].imshow(mean @ palette, **frame)
    axes[1].set_title("mean prediction")
    top = np.log2(mean.shape[-1]) if unit == "bits" else np.log(mean.shape[-1])
    for axis, values, title in (
        (axes[2], data, "data uncertainty"),
        (axes[3], knowledge, "knowledge uncertainty"),
    ):
        image = axis.imshow(values, cmap="Purples", vmin=0, vmax=top, **frame)
        axis.set_title(title)
    figure.colorbar(image, ax=list(axes), shrink=0.85, pad=0.01).set_label(unit)
    for axis in axes:
        axis.set_xlim(extent[0], extent[1])
        axis.set_ylim(extent[2], extent[3])
    return figure
