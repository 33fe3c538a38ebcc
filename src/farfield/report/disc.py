"""The whole plane as a disc: distance is compressed, and the rim is infinity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from farfield.report.figure import CLASSES, new_figure, save_figure

Floats = NDArray[np.float64]
# Distance at half the disc's radius, in units of the data's spread.
HALFWAY = 2.0
RIM = (1.02, 1.10)
COLUMNS = 3


class Disc(Protocol):
    """What a disc shows: a surface in polar coordinates, its limits, and the data."""

    @property
    def title(self) -> str:
        """Shown above the disc."""

    @property
    def X(self) -> Floats:  # noqa: N802 - the papers' name
        """Training points."""

    @property
    def y(self) -> NDArray[np.int64]:
        """Their classes."""

    @property
    def centre(self) -> Floats:
        """Where the rays start."""

    @property
    def angles(self) -> Floats:
        """Of the rays."""

    @property
    def distances(self) -> Floats:
        """Along the rays."""

    @property
    def confidence(self) -> Floats:
        """On the rays, ``(distances, angles)``."""

    @property
    def limit(self) -> Floats:
        """At infinity, ``(angles,)``."""


def save_discs(results: Sequence[Disc], path: Path) -> Path:
    """Draw one disc per model, three in a row, and write the picture atomically."""
    columns = min(COLUMNS, len(results))
    rows = -(-len(results) // columns)
    figure = new_figure(4.6 * columns + 1.1, 5.3 * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    axes = list(grid.reshape(-1))
    images = [_draw(axis, result) for axis, result in zip(axes, results, strict=False)]
    for axis in axes[len(results) :]:
        axis.axis("off")
    bar = figure.colorbar(images[0], ax=axes, shrink=0.8 / rows, pad=0.02)
    bar.set_label("confidence")
    return save_figure(figure, path)


def _draw(axis: Any, result: Disc) -> Any:
    scale = HALFWAY * float(result.X.std(axis=0).max())
    angles = np.append(result.angles, 2 * np.pi + result.angles[0])
    radii = result.distances / (result.distances + scale)
    surface = np.concatenate([result.confidence, result.confidence[:, :1]], axis=1)
    # The outermost distance is finite; the band up to the rim shows the exact limit.
    radii = np.append(radii, 1.0)
    surface = np.concatenate([surface, np.append(result.limit, result.limit[0])[None]])
    style = {
        "cmap": "Purples_r",
        "vmin": 0.5,
        "vmax": 1.0,
        "shading": "gouraud",
        "rasterized": True,
    }
    x, y = radii[:, None] * np.cos(angles), radii[:, None] * np.sin(angles)
    image = axis.pcolormesh(x, y, surface, **style)
    ring = np.array(RIM)[:, None]
    limit = np.tile(np.append(result.limit, result.limit[0]), (2, 1))
    axis.pcolormesh(ring * np.cos(angles), ring * np.sin(angles), limit, **style)
    _draw_rings(axis, scale)
    _draw_points(axis, result, scale)
    axis.set_title(result.title)
    axis.set_aspect("equal")
    axis.set_xlim(-1.18, 1.18)
    axis.set_ylim(-1.18, 1.18)
    axis.axis("off")
    return image


def _draw_rings(axis: Any, scale: float) -> None:
    circle = np.linspace(0, 2 * np.pi, 361)
    for radius in (1.0, *RIM):
        axis.plot(radius * np.cos(circle), radius * np.sin(circle), color="0.25", lw=0.6)
    for distance in (1, 10):
        radius = distance / (distance + scale)
        axis.plot(radius * np.cos(circle), radius * np.sin(circle), color="0.45", lw=0.5, ls=":")
        _label(axis, radius, str(distance))
    _label(axis, float(np.mean(RIM)), "∞")


def _label(axis: Any, radius: float, text: str) -> None:
    box = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.85}
    angle = np.deg2rad(-90)
    axis.text(
        radius * np.cos(angle), radius * np.sin(angle), text,
        ha="center", va="center", fontsize=8, bbox=box,
    )  # fmt: skip


def _draw_points(axis: Any, result: Disc, scale: float) -> None:
    offset = result.X - result.centre
    distance = np.linalg.norm(offset, axis=1, keepdims=True)
    places = offset / (distance + scale)
    for label, colour in zip(np.unique(result.y), CLASSES, strict=False):
        chosen = places[result.y == label]
        axis.scatter(*chosen.T, s=5, color=colour, linewidths=0, label=f"class {label}")
    axis.legend(loc="lower left", fontsize=8, frameon=False, bbox_to_anchor=(-0.03, -0.03))
