"""Panels that several experiments share: surfaces, gradients, discs to infinity, regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from farfield.report.disc import Disc
from farfield.report.figure import CLASSES, new_figure
from farfield.report.plane import CLASSES as MANY
from farfield.reproduce.experiment import Result
from farfield.reproduce.surfaces import Floats, Window

LEVELS = 40
# On a disc: the distance halfway to the rim, in spreads of the data.
HALFWAY = 2.0
# The papers' colour ranges; mutual information as it is, from 0 to 1 bit.
RANGES = {
    "one_minus_max_probability": (0.0, 0.5),
    "class_variance": (0.0, 0.25),
    "predictive_entropy": (0.0, 1.0),
    "expected_entropy": (0.0, 1.0),
    "mutual_information": (0.0, 1.0),
}
TITLES = {
    "one_minus_max_probability": "1 - max. probability",
    "class_variance": "class variance",
    "predictive_entropy": "predictive entropy",
    "expected_entropy": "expected entropy",
    "mutual_information": "mutual information",
}


def draw_surface(
    axis: Any, window: Window, values: Floats, limits: tuple[float, float], cmap: str = "Purples"
) -> Any:
    """Fill contours of a score over a window, in the papers' 40 levels."""
    left, right, low, high = window
    rows, columns = values.shape
    filled = axis.contourf(
        np.linspace(left, right, columns),
        np.linspace(low, high, rows),
        np.clip(values, *limits),
        levels=np.linspace(*limits, LEVELS + 1),
        cmap=cmap,
    )
    # Thousands of small polygons are no use in a vector file.
    filled.set_rasterized(True)
    axis.set_aspect("equal")
    axis.tick_params(labelsize=7)
    return filled


def draw_gradient(axis: Any, window: Window, values: Floats) -> Any:
    """Fill contours of a gradient magnitude, yellow to green, up to its largest value."""
    top = float(values.max())
    axis.text(0.97, 0.04, f"max {top:.2g}", transform=axis.transAxes, ha="right", fontsize=7)
    return draw_surface(axis, window, values, (0.0, max(top, 1e-12)), cmap="YlGn")


def draw_points(axis: Any, X: Floats, y: Floats, size: float = 3.0) -> None:
    """Scatter data in the colours of their classes."""
    labels = np.unique(y).astype(int)
    palette = CLASSES if len(labels) <= len(CLASSES) else MANY
    for label in labels:
        colour = palette[label % len(palette)]
        axis.scatter(*X[y == label].T, s=size, color=colour, linewidths=0)


def disc_of(result: Result, scale: float, score: str = "") -> Disc:
    """A disc of what :func:`~farfield.reproduce.surfaces.polar_surfaces` found.

    Args:
        result: What it found.
        scale: The spread of the data; twice as far out is halfway to the rim.
        score: Its name, where the result tells several apart.
    """
    near, limit = (result[f"{kind} {score}".strip()] for kind in ("near", "limit"))
    return Disc(result["angles"], result["distances"], near, limit, HALFWAY * scale)


class KeptPolygons:
    """Polygons read back from a kept result."""

    def __init__(self, vertices: Any, offsets: Any, extent: Window) -> None:
        self.vertices, self.offsets, self.extent = vertices, offsets, extent

    def only(self, chosen: Any) -> list[Any]:
        """The corners of the chosen polygons."""
        polygons = np.split(self.vertices, self.offsets[1:-1])
        return [polygon for polygon, wanted in zip(polygons, chosen, strict=True) if wanted]


def draw_regions(axis: Any, plane: KeptPolygons, colours: Floats, edge: str = "0.2") -> None:
    """Fill the exact regions of a plane with given colours, and draw their edges."""
    from matplotlib.collections import PolyCollection

    polygons = np.split(np.asarray(plane.vertices), np.asarray(plane.offsets)[1:-1])
    width = float(np.clip(12 / np.sqrt(len(polygons)), 0.1, 0.6))
    axis.add_collection(
        PolyCollection(polygons, facecolors=colours, edgecolors=edge, linewidths=width)
    )
    left, right, low, high = plane.extent
    axis.set(xlim=(left, right), ylim=(low, high))
    axis.set_aspect("equal")
    axis.tick_params(labelsize=7)


def shuffled_colours(count: int) -> Floats:
    """Pale colours that tell neighbouring regions apart, ``(count, 3)``."""
    from matplotlib import colormaps

    hues = np.random.default_rng(0).permutation(count) / max(1, count)
    colours: Floats = colormaps["twilight"](hues)[:, :3]
    return 0.45 + 0.55 * colours


def panels(
    titles: Sequence[str],
    size: tuple[float, float],
    columns: int = 0,
    *,
    more: tuple[float, float] = (0.0, 0.0),
    fontsize: float = 10,
    **shared: Any,
) -> tuple[Any, list[Any]]:
    """Make a figure with one panel for each title.

    Args:
        titles: Of the panels.
        size: Of one panel, in inches.
        columns: Panels in a row; 0 for all.
        more: What the figure is larger than its panels.
        fontsize: Of the titles.
        **shared: As ``sharey``.

    Returns:
        The figure, and an axis for each title.
    """
    columns = columns or len(titles)
    rows = -(-len(titles) // columns)
    figure = new_figure(size[0] * columns + more[0], size[1] * rows + more[1])
    axes = list(figure.subplots(rows, columns, squeeze=False, **shared).ravel())
    for axis, title in zip(axes, titles, strict=False):
        axis.set_title(title, fontsize=fontsize)
    for axis in axes[len(titles) :]:
        axis.axis("off")
    return figure, axes[: len(titles)]


def tidy(*axes: Any) -> None:
    """Take away the frames' upper and right sides, and add faint grids."""
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25, linewidth=0.6)
        axis.tick_params(labelsize=8)


def legend_outside(figure: Any, axis: Any, place: str = "lower center", columns: int = 1) -> None:
    """Put the legend of one panel beside all of them."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc=f"outside {place}", ncols=columns, frameon=False, fontsize=8)
