"""The part of an audit that the page's scripts draw, as JSON that is safe inside of HTML."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from farfield.report.content.features import detail
from farfield.report.content.sections import (
    Limits,
    is_bound,
    known_scores,
    layers,
    shown_rays,
    shown_surfaces,
)
from farfield.report.content.words import is_telling, score_title, shorten, visible

if TYPE_CHECKING:
    from farfield.audit.fields.drawings import Ray, Surface
    from farfield.audit.record import Audit

# Edges and points of a surface are given on a grid this fine: a quarter of a pixel, or better.
FINE = 4095
ESCAPES = {each: f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}


def payload(audit: Audit, shown: Iterable[int], limits: Limits) -> str:
    """Write what the scripts need."""
    data = {
        "threshold": _number(audit.verdict.threshold),
        "farEnd": ["\N{INFINITY}", "at infinity"]
        if audit.verdict.seen_to is None
        else ["last", "at the last look"],
        "classes": [_name(each) for each in audit.model.classes[: limits.rows]],
        "features": {
            str(index): detail(audit.features[index - 1], audit, limits) for index in shown
        },
        "rays": [_ray(each, audit, limits) for each in shown_rays(audit, limits)],
        "whatIf": what_if(audit, limits),
        "surfaces": [_surface(each, audit, limits) for each in shown_surfaces(audit, limits)],
    }
    return embedded(data)


def what_if(audit: Audit, limits: Limits) -> dict[str, Any] | None:
    """Rows and columns that can be moved; fewer if the page would be too large."""
    found = audit.what_if
    if found is None:
        return None
    columns = max(1, limits.rays // 3)
    return {
        "columns": [
            {
                "name": _name(each.name),
                "unit": _name(each.unit) if each.unit else "",
                "values": [_number(value) for value in each.values],
                "options": [_name(option) for option in each.options],
                "data": [_number(each.low), _number(each.high)],
            }
            for each in found.columns[:columns]
        ],
        "rows": [
            {
                "title": _name(row.title),
                "values": [_number(value) for value in row.values[:columns]],
                "curves": [
                    {
                        "label": list(curve.label),
                        "confidence": [_number(value) for value in curve.confidence],
                        "guarded": [_number(value) for value in curve.guarded],
                    }
                    for curve in row.curves[:columns]
                ],
            }
            for row in found.rows[: max(1, limits.rays // 6)]
        ],
    }


def embedded(data: object) -> str:
    """Write JSON that can stand inside of a script element."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter, escape in ESCAPES.items():
        text = text.replace(letter, escape)
    return text


def _name(name: str) -> str:
    return shorten(visible(name))


def _number(value: float) -> float | str | None:
    """A number as JSON can hold it: not a number is null, infinity a word."""
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(f"{value:.5g}")


def _numbers(values: Sequence[float], kept: Sequence[int]) -> list[float | str | None]:
    return [_number(values[index]) if index < len(values) else None for index in kept]


def _ray(ray: Ray, audit: Audit, limits: Limits) -> dict[str, Any]:
    count = len(ray.t)
    step = max(1, math.ceil(count / limits.samples))
    kept = sorted({*range(0, count, step), count - 1})
    known = known_scores(ray)
    telling = [name for name in known if is_telling(name, audit.model.instances)] or known
    return {
        "name": _name(ray.name),
        "unit": _name(ray.unit) if ray.unit else "",
        "t": _numbers(ray.t, kept),
        "scores": [
            {
                "key": name == "confidence",
                "name": _name(score_title(name)),
                "values": _numbers(values, kept),
                "limit": _number(ray.limits.get(name, math.nan)),
            }
            for name, values in ((name, ray.scores[name]) for name in telling[:12])
        ],
        "reach": _number(ray.reach),
        "first": None if ray.first is None else _number(ray.first),
        "settled": None if ray.settled is None else _number(ray.settled),
        "final": None if ray.final is None else _number(ray.final),
        "bound": is_bound(ray.exact, audit),
    }


def _surface(surface: Surface, audit: Audit, limits: Limits) -> dict[str, Any]:
    units = {each.name: each.unit for each in audit.features}
    return {
        "x": _name(surface.x),
        "y": _name(surface.y),
        "xUnit": _name(units.get(surface.x) or " ").strip(),
        "yUnit": _name(units.get(surface.y) or " ").strip(),
        "extent": list(surface.extent),
        "shape": list(surface.shape),
        "layers": [
            {
                "name": _name(score_title(name)),
                "gradient": name == "gradient",
                "grid": text,
                "range": [_number(each) for each in surface.ranges[name]],
            }
            for name, text in list(layers(surface).items())[:8]
        ],
        "edges": _segments(surface.edges, surface, limits.edges),
        "allEdges": len(surface.edges),
        "boundaries": _segments(surface.boundaries, surface, limits.edges),
        "regions": surface.regions,
        "points": [
            [*_place(x, y, surface), label]
            for x, y, label in surface.points
            if math.isfinite(x) and math.isfinite(y)
        ][: limits.points],
    }


def _segments(
    segments: Sequence[tuple[float, float, float, float]], surface: Surface, most: int
) -> list[int]:
    """Segments on the fine grid, one after the other; the longest if there are too many."""
    placed = [
        (*_place(x0, y0, surface), *_place(x1, y1, surface))
        for x0, y0, x1, y1 in segments
        if all(map(math.isfinite, (x0, y0, x1, y1)))
    ]
    if len(placed) > most:
        placed.sort(key=lambda s: -math.hypot(s[2] - s[0], s[3] - s[1]))
    return [each for segment in placed[:most] for each in segment]


def _place(x: float, y: float, surface: Surface) -> tuple[int, int]:
    """A point of the window on the fine grid; far outside is cut off."""
    left, right, bottom, top = surface.extent
    across, along = (x - left) / (right - left), (y - bottom) / (top - bottom)
    return round(FINE * min(max(across, -1), 2)), round(FINE * min(max(along, -1), 2))
