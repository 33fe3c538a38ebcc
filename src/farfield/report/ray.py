"""Probabilities along a ray, on a logarithmic axis through to infinity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import InputError
from farfield.report.figure import CLASSES, new_figure, save_figure

if TYPE_CHECKING:
    from farfield.exact import Line

Floats = NDArray[np.float64]
# Places at which curves are drawn, beside all breakpoints.
SAMPLES = 1200
# How close to its limit a probability is when the axis may end.
NEAR = 1e-3


def save_ray(
    line: Line,
    path: Path,
    *,
    threshold: float | None = None,
    reached: float | None = None,
    names: Sequence[str] | None = None,
    title: str = "",
) -> Path:
    """Draw the mean probability of each class along a ray, with all breakpoints.

    Args:
        line: One ray, ``along(...)[i]``.
        path: Where to write; the ending says in which format.
        threshold: A confidence to mark.
        reached: The ``t`` at which it is first reached, to mark as well.
        names: Names of the classes.
        title: Above the picture.

    Raises:
        InputError: For names that do not fit, or a ray of length zero.
        MissingDependency: If matplotlib is not installed.
    """
    limit = np.asarray(line.limit).mean(axis=0)
    if names is not None and len(names) != len(limit):
        raise InputError(f"names has {len(names)} entries for {len(limit)} classes")
    if float(line.edges[-1]) == 0:
        raise InputError("this ray ends where it starts, at t = 0; there is nothing to draw")
    breakpoints = np.asarray(line.breakpoints)
    low, high = _span(line, limit)
    t = np.unique(
        np.concatenate(
            [
                np.geomspace(low, high, SAMPLES),
                breakpoints[(breakpoints > low) & (breakpoints < high)],
            ]
        )
    )
    endless = math.isinf(float(line.edges[-1]))
    figure = new_figure(8.4, 4.4)
    curve, rug = figure.subplots(2, 1, sharex=True, height_ratios=(9, 1))
    _draw_curves(curve, line, t, limit, names, beyond=_beyond(low, high) if endless else None)
    _draw_marks(curve, threshold, reached, low)
    _draw_breakpoints(rug, breakpoints, endless)
    curve.set(ylim=(-0.02, 1.04), ylabel="probability", title=title)
    _label_axis(rug, low, high, endless)
    return save_figure(figure, path)


def _span(line: Line, limit: Floats) -> tuple[float, float]:
    """From below the first breakpoint to where all is settled."""
    edges = np.asarray(line.edges)
    inner = edges[(edges > 0) & np.isfinite(edges)]
    if not len(inner):
        inner = np.array([1.0])
    high = float(inner[-1])
    if math.isinf(float(edges[-1])):
        high *= 2
        for _ in range(60):
            now = np.asarray(line.probabilities_at(high)).mean(axis=0)[0]
            if float(np.abs(now - limit).max()) < NEAR:
                break
            high *= 2
        return min(float(inner[0]) / 3, high / 100), high
    return min(float(inner[0]) / (3 if len(inner) > 1 else 1000), high / 10), high


def _beyond(low: float, high: float) -> float:
    """Where infinity is drawn: a step beyond the end of the axis."""
    return high * math.pow(high / low, 0.09)


def _draw_curves(
    axis: Any,
    line: Line,
    t: Floats,
    limit: Floats,
    names: Sequence[str] | None,
    beyond: float | None,
) -> None:
    probabilities = np.asarray(line.probabilities_at(t)).mean(axis=0)
    for index, final in enumerate(limit):
        colour = CLASSES[index % len(CLASSES)]
        style = "-" if index < len(CLASSES) else "--"
        label = names[index] if names is not None else f"class {index}"
        axis.plot(t, probabilities[:, index], style, color=colour, linewidth=1.4, label=label)
        if beyond is not None:
            ends = [probabilities[-1, index], final]
            axis.plot([t[-1], beyond], ends, ":", color=colour, linewidth=1.2)
            axis.plot(beyond, final, "o", color=colour, markersize=5, clip_on=False, zorder=4)
    confidence = probabilities.max(axis=1)
    axis.plot(t, confidence, color="black", linewidth=4.5, alpha=0.16, label="confidence", zorder=1)
    if len(limit) <= 2 * len(CLASSES):
        axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
    axis.grid(axis="y", alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_marks(axis: Any, threshold: float | None, reached: float | None, low: float) -> None:
    """A confidence, and where it is first reached."""
    if threshold is not None:
        axis.axhline(threshold, color="0.35", linewidth=0.8, linestyle=(0, (4, 3)))
    if reached is not None and math.isfinite(reached):
        axis.axvline(max(reached, low), color="0.35", linewidth=0.8, linestyle=(0, (4, 3)))
        level = "" if threshold is None else f"{threshold:g} "
        # Beside the plot, where it hides nothing.
        text = f"{level}first at\nt = {reached:.6g} (dashed)"
        axis.text(
            1.015, 0.12, text, transform=axis.transAxes, va="center", fontsize=8, color="0.25"
        )


def _draw_breakpoints(axis: Any, breakpoints: Floats, endless: bool) -> None:
    """One stroke for each; paler where there are many."""
    strength = float(np.clip(30 / max(1, len(breakpoints)), 0.08, 0.8))
    axis.vlines(breakpoints, 0, 1, color="black", linewidth=0.7, alpha=strength)
    count = f"{len(breakpoints)} breakpoint{'' if len(breakpoints) == 1 else 's'}"
    if endless and len(breakpoints):
        count += f",\nlast {breakpoints[-1]:.4g}"
    axis.text(1.015, 0.5, count, transform=axis.transAxes, va="center", fontsize=8, color="0.25")
    axis.set(yticks=[], ylim=(0, 1))
    axis.spines[["top", "right", "left"]].set_visible(False)


def _label_axis(axis: Any, low: float, high: float, endless: bool) -> None:
    """Powers of ten, and infinity at the end."""
    right = _beyond(low, high) if endless else high
    axis.set_xscale("log")
    axis.set_xlim(low, right)
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    step = max(1, (last - first) // 8)
    powers = list(range(first, last + 1, step))
    if endless and powers and 10.0 ** powers[-1] > high / (high / low) ** 0.04:
        powers.pop()
    places = [10.0**power for power in powers] + ([right] if endless else [])
    labels = [f"$10^{{{power}}}$" for power in powers] + ([r"$\infty$"] if endless else [])
    axis.set_xticks(places, labels=labels)
    axis.minorticks_off()
    axis.set_xlabel("t, distance along the ray in lengths of the direction")
