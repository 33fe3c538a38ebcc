"""Rays through to infinity, and two features at a time: the curves and surfaces of a report."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.audit.families import SURE, affordable, in_common, settled
from farfield.audit.findings import Ray, Surface
from farfield.audit.subject import Floats, Moving, Subject
from farfield.errors import FarfieldError
from farfield.exact import FarField, SureFrom, along, slice_plane
from farfield.exact.planar.plane import Plane
from farfield.scores import all_scores
from farfield.scores.gradient import gradient_magnitude

# Rays are shown out to a million standard deviations; whatever comes after is the limit.
OUTMOST = 1e6
STEPS = 160
GRID = 64
# Tables wider than this get coarser surfaces: every point of a grid is a whole row.
WIDE = 1000
# A ray of a network with more units than this, or a plane, is not walked exactly for a report.
MOST_UNITS_ON_RAYS = 20_000
MOST_UNITS_IN_PLANES = 700
# Regions of a plane, and their affine maps: one for each region and class.
MOST_REGIONS = 50_000
MOST_MAPS = 10_000_000
MOST_SEGMENTS = 6_000
# How many products of weights and values the last 99.9% of one ray may cost: a second.
WALKING = 5e9
POINTS = 300
# Cells of the grid that shows where data is, along each side, and the rows that one needs.
FEWEST_CELLS, MOST_CELLS, LEAST_IN_CELL = 6, 24, 5
LAYERS = ("confidence", "predictive_entropy", "mutual_information", "gradient")


def ray(subject: Subject, name: str, origin: Any, direction: Any, unit: str = "") -> Ray:
    """Follow one ray at many distances and in the limit, with its first 99.9% if it is exact."""
    start, way = np.asarray(origin, dtype=float), np.asarray(direction, dtype=float)
    one = float(subject.in_deviations(torch.from_numpy(way[None]))[0]) or 1.0
    t = np.concatenate([[0.0], np.geomspace(1e-2, OUTMOST, STEPS - 1)]) / one
    rows = start + t.reshape(-1, *[1] * start.ndim) * way
    p = subject.model.probabilities(rows)
    far = subject.far(start[None], torch.from_numpy(way[None]))
    scores = {"confidence": p.mean(dim=0).amax(dim=-1)} | dict(all_scores(p))
    limits = {"confidence": far.confidence} | {n: far.score(n) for n in all_scores(p[:, :1])}
    first, pieces = _first(subject, start, way)
    steps = 1.0 if unit else one
    lasting = settled(far, WALKING)
    final = None
    if isinstance(far, FarField):
        final = in_common(far.final_from(budget=affordable(far, WALKING)), far.winner)
    return Ray(
        name=name,
        unit=unit or "standard deviations",
        t=tuple(float(f"{step:.6g}") for step in (t if unit else t * one)),
        scores={n: tuple(round(float(v), 6) for v in values) for n, values in scores.items()},
        limits={n: float(value[0]) for n, value in limits.items()},
        reach=float(far.reach.amax()) * steps,
        first=None if first is None else first * steps,
        pieces=pieces,
        settled=_known(lasting, steps),
        final=None if final is None else _known(final, steps),
        exact=bool(lasting.exact[0] & (lasting if final is None else final).exact[0]),
    )


def _known(found: SureFrom, steps: float) -> float | None:
    """A distance in steps, unless it is not known at all."""
    t = float(found.t[0])
    return None if np.isnan(t) else t * steps


def _first(subject: Subject, origin: Floats, direction: Floats) -> tuple[float | None, int | None]:
    """The exact first distance with 99.9% confidence, and how many pieces the ray has."""
    if not subject.piecewise or units(subject) > MOST_UNITS_ON_RAYS:
        return None, None
    lines = along(subject.network, origin[None], direction[None])
    return float(lines.first_reaching(SURE)[0]), int(lines.counts.sum())


def units(subject: Subject) -> int:
    """How many numbers the non-affine steps of the network decide on, all instances together."""
    from farfield.graph.rules import RULES

    total = 0
    for group in subject.network.groups:
        for step in group.program.steps:
            rule = RULES.get(step.target)
            if rule is not None and rule.kind != "affine" and step.shape is not None:
                total += int(np.prod(step.shape[1:])) * len(group.members)
    return total


def surface(
    subject: Subject, x: Moving, y: Moving, rng: np.random.Generator, *, show_rows: bool = False
) -> Surface:
    """Evaluate two features on a grid, all others at the median row, with exact regions.

    Args:
        subject: What is audited.
        x: The feature along the columns.
        y: The feature along the rows.
        rng: Chooses rows to show.
        show_rows: Whether to show a sample of the rows, and not only where many of them are.
    """
    across, up = x.places[0], y.places[0]
    extent = (*_window(subject, x), *_window(subject, y))
    grid = GRID if subject.centre.size <= WIDE else GRID // 2
    ticks = np.linspace(*extent[:2], grid), np.linspace(*extent[2:], grid)
    rows = np.tile(subject.centre, (grid * grid, 1))
    rows[:, across], rows[:, up] = (side.reshape(-1) for side in np.meshgrid(*ticks))
    p = subject.model.probabilities(rows)
    scores = all_scores(p)
    layers: dict[str, Tensor] = {"confidence": p.mean(dim=0).amax(dim=-1)}
    layers["predictive_entropy"] = torch.as_tensor(scores["predictive_entropy"])
    if subject.model.instances > 1:
        layers["mutual_information"] = torch.as_tensor(scores["mutual_information"])
    if subject.exact:
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


def _window(subject: Subject, feature: Moving) -> tuple[float, float]:
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
    if units(subject) > MOST_UNITS_IN_PLANES:
        return None
    origin = subject.centre.copy()
    origin[[across, up]] = 0.0
    u, v = np.zeros_like(origin), np.zeros_like(origin)
    u[across], v[up] = 1.0, 1.0
    try:
        most = min(MOST_REGIONS, MOST_MAPS // subject.model.classes)
        return slice_plane(subject.network, origin, u, v, extent, most=most)
    except FarfieldError:
        return None


def _edges(plane: Plane) -> tuple[tuple[float, float, float, float], ...]:
    """Borders between regions, each once; none if there are too many to show."""
    if len(plane.vertices) > 2 * MOST_SEGMENTS:
        return ()
    seen: dict[tuple[float, ...], tuple[float, float, float, float]] = {}
    for index in range(len(plane)):
        corners = np.round(plane.polygon(index).numpy(), 9)
        for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            key = tuple(map(float, (x0, y0, x1, y1) if (x0, y0) <= (x1, y1) else (x1, y1, x0, y0)))
            seen[key] = _segment(x0, y0, x1, y1)
    return tuple(seen.values())


def _boundaries(plane: Plane) -> tuple[tuple[float, float, float, float], ...]:
    segments = plane.boundaries().segments.numpy().reshape(-1, 4)
    return tuple(_segment(*ends) for ends in segments[:MOST_SEGMENTS])


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


def most_telling(subject: Subject, count: int, rng: np.random.Generator) -> list[Moving]:
    """The numeric features that move the model most: mean change of p when they are shuffled."""
    numeric = [feature for feature in subject.moving if not feature.categorical]
    rows = subject.spread(min(200, max(8, 4_000_000 // subject.centre.size)))
    before = subject.model.probabilities(rows).mean(dim=0)
    effect = np.zeros(len(numeric))
    for index, feature in enumerate(numeric[:MOST_SHUFFLED]):
        moved = rows.copy()
        place = feature.places[0]
        moved[:, place] = moved[rng.permutation(len(rows)), place]
        after = subject.model.probabilities(moved).mean(dim=0)
        effect[index] = float((after - before).abs().sum(dim=-1).mean())
    return [numeric[place] for place in np.argsort(-effect, kind="stable")[:count]]


# Shuffling more features than this for a choice of pictures is not worth its time.
MOST_SHUFFLED = 300
