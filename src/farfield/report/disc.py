"""The whole plane as a disc whose rim is infinity: what models of two inputs say everywhere.

A point at distance ``d`` from the centre is drawn at ``d / (d + halfway)`` of the way to the rim; a
ring outside of the disc has the limits, one colour for each direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.report.figure import CLASSES, new_figure, save_figure

AnyFloats = NDArray[Any]
# Where the ring of the limits is drawn, and circles around the centre.
RIM = (1.02, 1.10)
CIRCLES = (1.0, 10.0)
# Where a line below a title is written, and the title.
TITLES = (1.21, 1.4)
# Width and height of one disc with its title, and of the colour bar, in inches.
PANEL, BAR = (2.8, 3.25), 0.8
# Sure of a class, and as unsure as can be, of two classes.
UNSURE = (0.0, 0.5)


@dataclass(frozen=True, eq=False)
class Disc:
    """An uncertainty on rays in all directions, and at their ends.

    Attributes:
        angles: ``(directions,)`` of the rays, in radians, ascending.
        distances: ``(rings,)`` from the centre, from 0 on.
        near: ``(rings, directions)`` the uncertainty there.
        limit: ``(directions,)`` infinitely far out.
        halfway: The distance that is drawn halfway to the rim.
    """

    angles: AnyFloats
    distances: AnyFloats
    near: AnyFloats
    limit: AnyFloats
    halfway: float

    def places(self, offsets: AnyFloats) -> AnyFloats:
        """Where points lie on the disc, given relative to its centre, ``(points, 2)``.

        >>> zero = np.zeros(1)
        >>> Disc(zero, zero, zero, zero, halfway=2.0).places(np.array([[2.0, 0.0]])).tolist()
        [[0.5, 0.0]]
        """
        distance = np.linalg.norm(offsets, axis=1, keepdims=True)
        found: AnyFloats = offsets / (distance + self.halfway)
        return found


def draw_disc(axis: Any, disc: Disc, limits: tuple[float, float]) -> Any:
    """Draw a disc; the darker, the less sure.

    Args:
        axis: Where to draw.
        disc: What.
        limits: Range of the colours.
    """
    turn = np.append(disc.angles, 2 * np.pi + disc.angles[0])
    end = np.append(disc.limit, disc.limit[0])
    radii = np.append(disc.distances / (disc.distances + disc.halfway), 1.0)
    surface = np.concatenate([np.concatenate([disc.near, disc.near[:, :1]], axis=1), end[None]])
    style = {"cmap": "Purples", "vmin": limits[0], "vmax": limits[1], "rasterized": True}
    cos, sin = np.cos(turn), np.sin(turn)
    image = axis.pcolormesh(
        radii[:, None] * cos, radii[:, None] * sin, surface, shading="gouraud", **style
    )
    ring = np.array(RIM)[:, None]
    # One colour for each direction: at infinity a score jumps from arc to arc.
    axis.pcolormesh(ring * cos, ring * sin, disc.limit[None], shading="flat", **style)
    for radius in (1.0, *RIM):
        axis.plot(radius * cos, radius * sin, color="0.25", lw=0.5)
    for distance in CIRCLES:
        radius = distance / (distance + disc.halfway)
        axis.plot(radius * cos, radius * sin, color="0.45", lw=0.4, ls=":")
        _label(axis, radius, f"{distance:g}")
    _label(axis, float(np.mean(RIM)), "∞")
    axis.set_aspect("equal")
    axis.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15))
    axis.axis("off")
    return image


def draw_discs(
    discs: Mapping[str, Disc],
    offsets: AnyFloats,
    labels: AnyFloats,
    *,
    notes: Mapping[str, str] | None = None,
    columns: int = 4,
) -> Any:
    """Draw how sure models of two inputs and two classes are, side by side.

    Args:
        discs: Title of a model to one minus its confidence.
        offsets: ``(points, 2)`` the data, relative to the centre of the discs.
        labels: ``(points,)`` its classes.
        notes: Title of a model to a line below it.
        columns: Discs in a row.
    """
    columns = min(columns, len(discs))
    rows = -(-len(discs) // columns)
    figure = new_figure(PANEL[0] * columns + BAR, PANEL[1] * rows)
    axes = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for axis in axes[len(discs) :]:
        axis.axis("off")
    for axis, (title, disc) in zip(axes, discs.items(), strict=False):
        image = draw_disc(axis, disc, UNSURE)
        _title(axis, title, (notes or {}).get(title, ""))
        for label, colour in zip(np.unique(labels), CLASSES, strict=False):
            chosen = disc.places(offsets[labels == label]).T
            axis.scatter(*chosen, s=2.5, color=colour, linewidths=0, rasterized=True)
    bar = figure.colorbar(image, ax=axes, shrink=0.8 / rows, pad=0.015, aspect=16)
    bar.ax.invert_yaxis()
    ticks = np.linspace(*UNSURE, 6)
    bar.set_ticks(ticks, labels=[f"{1 - tick:.0%}" for tick in ticks])
    bar.ax.tick_params(labelsize=8)
    bar.set_label("how sure it is of its answer", fontsize=9)
    return figure


def save_discs(
    discs: Mapping[str, Disc],
    path: Path,
    offsets: AnyFloats,
    labels: AnyFloats,
    *,
    notes: Mapping[str, str] | None = None,
    columns: int = 4,
) -> Path:
    """Draw how sure models of two inputs and two classes are, and write the picture.

    Args:
        discs: Title of a model to one minus its confidence.
        path: Where to write; the ending says in which format.
        offsets: ``(points, 2)`` the data, relative to the centre of the discs.
        labels: ``(points,)`` its classes.
        notes: Title of a model to a line below it.
        columns: Discs in a row.

    Raises:
        MissingDependency: If matplotlib is not installed.
    """
    return save_figure(draw_discs(discs, offsets, labels, notes=notes, columns=columns), path)


def _title(axis: Any, title: str, note: str) -> None:
    axis.set_ylim(-1.15, TITLES[1] + 0.12)
    axis.text(0, TITLES[1 if note else 0], title, ha="center", va="center", fontsize=11)
    axis.text(0, TITLES[0], note, ha="center", va="center", fontsize=8.5, color="0.3")


def _label(axis: Any, radius: float, text: str) -> None:
    box = {"boxstyle": "round,pad=0.12", "fc": "white", "ec": "none", "alpha": 0.85}
    axis.text(0, -radius, text, ha="center", va="center", fontsize=6, bbox=box)
