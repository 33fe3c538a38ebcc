"""Two features at a time: the surfaces of a report, with exact regions where they are few."""

from __future__ import annotations

import base64
import math
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.audit.case import Case
from farfield.audit.fields.drawings import Surface
from farfield.audit.sections.rays import units
from farfield.audit.subject import Floats, Subject
from farfield.data import TableColumn
from farfield.errors import FarfieldError
from farfield.exact import along, slice_plane
from farfield.exact.planar.plane import Plane
from farfield.graph.network import Network
from farfield.scores import all_scores
from farfield.scores.gradient import gradient_magnitude

GRID = 64
# Tables wider than this get coarser surfaces: every point of a grid is a whole row.
WIDE = 1000
# A plane of a network with more units than this is not cut exactly for a report.
MOST_UNITS = 700
# Regions of a plane, and their affine maps: one for each region and class.
MOST_REGIONS = 20_000
MOST_MAPS = 10_000_000
MOST_SEGMENTS = 6_000
POINTS = 300
# Cells of the grid that shows where data is, along each side, and the rows that one needs.
FEWEST_CELLS, MOST_CELLS, LEAST_IN_CELL = 6, 24, 5
# Without pairs that were asked for, the pairs of this many features are drawn.
FEATURES = 3


def compute(case: Case) -> dict[str, Any]:
    """The pairs that were asked for, or those of the most telling features."""
    advance = case.stage("surfaces")
    pairs = case.pairs or tuple(combinations(case.telling[:FEATURES], 2))
    drawn = []
    for index, (x, y) in enumerate(pairs):
        one = surface(case.subject, x, y, case.rng, show_rows=case.settings.show_rows)
        if one is None:
            case.warnings.append(
                f"The model answers with NaN near the data, so {x.name} and {y.name} are not drawn."
            )
        else:
            drawn.append(one)
        advance((index + 1) / len(pairs))
    return {"surfaces": tuple(drawn)}


def surface(
    subject: Subject,
    x: TableColumn,
    y: TableColumn,
    rng: np.random.Generator,
    *,
    show_rows: bool = False,
) -> Surface | None:
    """Evaluate two features on a grid, all others at the median row, with exact regions.

    ``None`` if the model has no answer somewhere on the grid.
    """
    across, up = x.places[0], y.places[0]
    extent = (*_window(subject, x), *_window(subject, y))
    grid = GRID if subject.centre.size <= WIDE else GRID // 2
    ticks = np.linspace(*extent[:2], grid), np.linspace(*extent[2:], grid)
    rows = np.tile(subject.centre, (grid * grid, 1))
    rows[:, across], rows[:, up] = (side.reshape(-1) for side in np.meshgrid(*ticks))
    p = subject.model.probabilities(rows)
    if p.isnan().any():
        return None
    scores = all_scores(p)
    layers: dict[str, Tensor] = {"confidence": p.mean(dim=0).amax(dim=-1)}
    layers["predictive_entropy"] = torch.as_tensor(scores["predictive_entropy"])
    if subject.model.instances > 1:
        layers["mutual_information"] = torch.as_tensor(scores["mutual_information"])
    if subject.exact and subject.network.differentiable:
        inputs = torch.from_numpy(rows).to(subject.network.dtype)
        layers["gradient"] = gradient_magnitude(
            subject.network, inputs, "predictive_entropy", batch_size=1024
        )
    coded = {name: _as_bytes(values.numpy()) for name, values in layers.items()}
    plane = _plane(subject, across, up, extent)
    return Surface(
        x=x.name,
        y=y.name,
        extent=extent,
        shape=(grid, grid),
        grids={name: text for name, (text, _) in coded.items()},
        ranges={name: limits for name, (_, limits) in coded.items()},
        edges=() if plane is None else _edges(plane),
        boundaries=() if plane is None else _boundaries(plane),
        regions=None if plane is None else len(plane),
        points=_points(subject, across, up, extent, rng)
        if show_rows
        else _cells(subject, across, up, extent),
    )


def _window(subject: Subject, feature: TableColumn) -> tuple[float, float]:
    """The training range widened by half of itself, within the feature's bounds."""
    place = feature.places[0]
    low, high = float(subject.low[place]), float(subject.high[place])
    margin = 0.5 * (high - low) or float(subject.scale[place])
    return max(low - margin, feature.low), min(high + margin, feature.high)


def _plane(
    subject: Subject, across: int, up: int, extent: tuple[float, float, float, float]
) -> Plane | None:
    """The exact regions, for one network that is small enough."""
    if subject.model.instances > 1 or not subject.piecewise:
        return None
    if units(subject) > MOST_UNITS:
        return None
    origin = subject.centre.copy()
    origin[[across, up]] = 0.0
    u, v = np.zeros_like(origin), np.zeros_like(origin)
    u[across], v[up] = 1.0, 1.0
    most = min(MOST_REGIONS, MOST_MAPS // subject.model.classes)
    try:
        low, high = (origin + a * u + b * v for a, b in (extent[::2], extent[1::2]))
        if _about(subject.network, low, high, up) > 2 * most:
            return None
        return slice_plane(subject.network, origin, u, v, extent, most=most)
    except FarfieldError:
        return None


def _about(network: Network, low: Floats, high: Floats, up: int) -> float:
    """About how many regions a window has between two opposite corners, without cutting it.

    Random lines of which a walk as long as its side meets ``n`` make ``n**2 * pi / 4`` of them. Two
    diagonals are walked.
    """
    starts, ends = np.stack([low, low]), np.stack([high, high])
    starts[1, up], ends[1, up] = high[up], low[up]
    met = along(network, starts, ends - starts, stop=1.0).counts - 1
    return float(math.pi / 8 * met.double().mean() ** 2)


def _edges(plane: Plane) -> tuple[tuple[float, float, float, float], ...]:
    """Borders between regions, each once; none if there are too many to show."""
    if len(plane.vertices) > 2 * MOST_SEGMENTS:
        return ()
    seen: dict[tuple[float, ...], tuple[float, float, float, float]] = {}
    corners, starts = np.round(plane.vertices.numpy(), 9).tolist(), plane.offsets.tolist()
    for start, end in pairwise(starts):
        own = corners[start:end]
        for (x0, y0), (x1, y1) in zip(own, own[1:] + own[:1], strict=True):
            key = (x0, y0, x1, y1) if (x0, y0) <= (x1, y1) else (x1, y1, x0, y0)
            seen[key] = _segment(x0, y0, x1, y1)
    return tuple(seen.values())


def _boundaries(plane: Plane) -> tuple[tuple[float, float, float, float], ...]:
    segments = plane.boundaries().segments.reshape(-1, 4)
    return tuple(_segment(*ends) for ends in segments[:MOST_SEGMENTS].tolist())


def _segment(*ends: float) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = (float(f"{end:.6g}") for end in ends)
    return x0, y0, x1, y1


def _as_bytes(values: Floats) -> tuple[str, tuple[float, float]]:
    """A grid as one byte per value, and what the bytes 0 and 255 stand for."""
    low, high = float(values.min()), float(values.max())
    scaled = (values - low) / (high - low) if high > low else np.zeros_like(values)
    text = base64.b64encode(np.round(255 * scaled).astype(np.uint8).tobytes()).decode()
    return text, (low, high)


def _cells(
    subject: Subject, across: int, up: int, extent: tuple[float, float, float, float]
) -> tuple[tuple[float, float, int], ...]:
    """Where the data is: centres of the cells of a grid that hold enough rows of a class.

    A report is passed on, and a row may be a patient: what it shows are cells, not rows.
    """
    count = int(np.clip(np.sqrt(len(subject.rows) / 4), FEWEST_CELLS, MOST_CELLS))
    x, y = subject.rows[:, across], subject.rows[:, up]
    labels = np.full(len(x), -1) if subject.labels is None else subject.labels
    found = []
    for label in np.unique(labels):
        own = labels == label
        counts, left, bottom = np.histogram2d(
            x[own], y[own], bins=count, range=(extent[:2], extent[2:])
        )
        for i, j in np.argwhere(counts >= LEAST_IN_CELL):
            middle = (left[i] + left[i + 1]) / 2, (bottom[j] + bottom[j + 1]) / 2
            found.append((float(f"{middle[0]:.5g}"), float(f"{middle[1]:.5g}"), int(label)))
    return tuple(found)


def _points(
    subject: Subject,
    across: int,
    up: int,
    extent: tuple[float, float, float, float],
    rng: np.random.Generator,
) -> tuple[tuple[float, float, int], ...]:
    """A sample of the data, as far as it lies in the window."""
    chosen = rng.permutation(len(subject.rows))[:POINTS]
    found = []
    for index in chosen:
        x, y = float(subject.rows[index, across]), float(subject.rows[index, up])
        if extent[0] <= x <= extent[1] and extent[2] <= y <= extent[3]:
            label = -1 if subject.labels is None else int(subject.labels[index])
            found.append((float(f"{x:.5g}"), float(f"{y:.5g}"), label))
    return tuple(found)
