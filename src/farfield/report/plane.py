"""Linear regions and decision boundaries in a plane, with the data on top."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from farfield.errors import InputError
from farfield.report.figure import new_figure, save_figure

if TYPE_CHECKING:
    from farfield.exact import Plane

Floats = NDArray[np.float64]
Style = Literal["regions", "confidence"]
# One colour for each class, told apart by people who see colours differently; then again.
CLASSES = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9",
    "#d55e00", "#8c6bb1", "#b3b000", "#7f7f7f", "#66c2a5",
)  # fmt: skip
# How much colour is left where the network is least confident.
PALEST = 0.12


def save_plane(
    plane: Plane,
    path: Path,
    *,
    points: Any = None,
    labels: Any = None,
    style: Style = "regions",
    title: str = "",
    axes: tuple[str, str] = ("a", "b"),
) -> Path:
    """Draw the regions of a plane, coloured by class and confidence, and write the picture.

    Args:
        plane: From :func:`farfield.slice_plane`.
        path: Where to write; the ending says in which format.
        points: ``(n, 2)`` data in the coordinates of the plane, drawn on top.
        labels: ``(n,)`` their classes.
        style: "regions" fills each part of a region with the colour at its centre and draws edges;
            "confidence" shades every pixel.
        title: Above the picture.
        axes: Names of the two coordinates.

    Raises:
        InputError: For a style that does not exist, or points and labels that do not fit.
        MissingDependency: If matplotlib is not installed.
    """
    if style not in ("regions", "confidence"):
        raise InputError(f"style must be 'regions' or 'confidence', got {style!r}")
    data = _data(points, labels)
    left, right, low, high = plane.extent
    figure = new_figure(7.0, 5.6)
    axis = figure.add_subplot()
    classes = int(plane.probabilities.shape[1])
    _fill(axis, plane, classes, style)
    _draw_edges(axis, plane, style)
    _draw_points(axis, data)
    axis.set(xlim=(left, right), ylim=(low, high), xlabel=axes[0], ylabel=axes[1], title=title)
    square = 0.2 < (right - left) / (high - low) < 5
    axis.set_aspect("equal" if square else "auto")
    _draw_key(axis.inset_axes((1.03, 0.0, min(0.04 * classes, 0.2), 1.0)), classes)
    return save_figure(figure, path, bbox_inches="tight", pad_inches=0.08)


def _data(points: Any, labels: Any) -> tuple[Floats, NDArray[np.int64]]:
    """Check the data that goes on top."""
    if points is None:
        return np.empty((0, 2)), np.empty(0, dtype=np.int64)
    places = np.asarray(points, dtype=float)
    if places.ndim != 2 or places.shape[1] != 2:
        raise InputError(f"points has shape {places.shape}; a plane takes (points, 2)")
    names = np.zeros(len(places), dtype=np.int64) if labels is None else np.asarray(labels)
    if names.shape != (len(places),):
        raise InputError(f"labels has shape {names.shape} for {len(places)} points")
    return places, names.astype(np.int64)


def _tint(label: Any, confidence: Any, classes: int) -> Floats:
    """Colours ``(..., 3)``: the class's own where confidence is 1, pale where it is lowest."""
    from matplotlib.colors import to_rgb

    palette = np.array([to_rgb(CLASSES[index % len(CLASSES)]) for index in range(classes)])
    least = 1 / classes
    certain = np.clip((np.asarray(confidence) - least) / (1 - least), 0, 1)[..., None]
    strength = PALEST + (0.85 - PALEST) * certain
    colours: Floats = 1 - strength * (1 - palette[np.asarray(label)])
    return colours


def _fill(axis: Any, plane: Plane, classes: int, style: Style) -> None:
    if style == "confidence":
        pixels = plane.raster(600)
        colours = _tint(pixels.label, pixels.confidence, classes)
        axis.imshow(colours, extent=plane.extent, origin="lower", interpolation="nearest")
        return
    cells = plane.by_class()
    probabilities = np.asarray(cells.probabilities)
    colours = _tint(probabilities.argmax(axis=1), probabilities.max(axis=1), classes)
    from matplotlib.collections import PolyCollection

    axis.add_collection(
        PolyCollection(_polygons(cells), facecolors=colours, edgecolors=colours, linewidths=0.2)
    )


def _polygons(plane: Plane) -> list[Floats]:
    return np.split(np.asarray(plane.vertices), np.asarray(plane.offsets)[1:-1])


def _draw_edges(axis: Any, plane: Plane, style: Style) -> None:
    """Edges of regions, finer where there are many, and decision boundaries above them."""
    from matplotlib.collections import LineCollection, PolyCollection

    polygons = _polygons(plane)
    width = float(np.clip(12 / np.sqrt(len(polygons)), 0.15, 0.7))
    strength = 0.55 if style == "regions" else 0.2
    axis.add_collection(
        PolyCollection(
            polygons, facecolors="none", edgecolors="0.15", linewidths=width, alpha=strength
        )
    )
    segments = np.asarray(plane.boundaries().segments)
    for colour, thickness in (("white", 3.2), ("black", 1.6)):
        axis.add_collection(
            LineCollection(list(segments), colors=colour, linewidths=thickness, capstyle="round")
        )


def _draw_points(axis: Any, data: tuple[Floats, NDArray[np.int64]]) -> None:
    from matplotlib.colors import to_rgb

    points, labels = data
    for label in np.unique(labels):
        axis.scatter(
            *points[labels == label].T,
            s=14,
            color=0.5 * np.array(to_rgb(CLASSES[int(label) % len(CLASSES)])),
            edgecolors="white",
            linewidths=0.5,
            zorder=3,
        )


def _draw_key(axis: Any, classes: int) -> None:
    """One column of shades for each class."""
    levels = np.linspace(1 / classes, 1, 101)
    label, confidence = np.meshgrid(np.arange(classes), levels)
    axis.imshow(
        _tint(label, confidence, classes),
        extent=(-0.5, classes - 0.5, 1 / classes, 1),
        origin="lower",
        aspect="auto",
    )
    every = -(-classes // 10)
    ticks = range(0, classes, every)
    axis.set_xticks(ticks, [str(index) for index in ticks], fontsize=8)
    axis.set_xlabel("class")
    axis.set_ylabel("confidence")
    axis.yaxis.set_label_position("right")
    axis.yaxis.tick_right()
