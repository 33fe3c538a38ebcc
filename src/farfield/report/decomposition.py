"""Classification in the plane: data, mean prediction, data and knowledge uncertainty."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.report.figure import CLASSES, new_figure

Floats = NDArray[np.float64]


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
