"""Small charts as numbers: where lines and bars go. Templates draw them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from farfield.estimate import Estimate
from farfield.report.content.words import percent

if TYPE_CHECKING:
    from farfield.audit.fields.quality import Bin

# Size of a small curve, in its own units.
WIDTH, HEIGHT = 120, 28
# Colours that tell classes apart; then they start again.
COLOURS = 8


@dataclass(frozen=True)
class Spark:
    """A small curve: confidence from far down, through the data, to far up.

    Attributes:
        path: The line, as an SVG path.
        band: Left and right of the stretch around the data, if it is known.
        ends: Heights of the two limits, if they are known.
        label: The curve in words.
    """

    path: str
    band: tuple[float, float] | None
    ends: tuple[float | None, float | None]
    label: str


def spark(curve: Sequence[float], steps: Sequence[float], limit: int, classes: int) -> Spark | None:
    """Lay out a curve from the least possible confidence up to certainty.

    ``None`` if there is nothing to draw.
    """
    kept = _thinned(len(curve), limit)
    least = 1 / max(2, classes)
    heights = [_height(curve[index], least) for index in kept]
    if len(heights) < 2 or all(each is None for each in heights):
        return None
    places = [round(2 + (WIDTH - 4) * index / (len(curve) - 1), 1) for index in kept]
    parts, pen = [], "M"
    for x, y in zip(places, heights, strict=True):
        if y is None:
            pen = "M"
            continue
        parts.append(f"{pen}{x:g} {y:g}")
        pen = "L"
    return Spark("".join(parts), _band(steps, len(curve)), (heights[0], heights[-1]), _told(curve))


def _thinned(count: int, limit: int) -> list[int]:
    """At most ``limit`` indices, evenly spread, both ends among them."""
    if count <= limit or limit < 2:
        return list(range(count))
    return [round(index * (count - 1) / (limit - 1)) for index in range(limit)]


def _height(value: float, least: float) -> float | None:
    if not math.isfinite(value):
        return None
    up = (value - least) / (1 - least)
    return round(2.5 + (HEIGHT - 5) * (1 - min(max(up, 0.0), 1.0)), 1)


def _band(steps: Sequence[float], count: int) -> tuple[float, float] | None:
    """Where the curve is within two standard deviations."""
    inside = [index for index, step in enumerate(steps) if abs(step) <= 2]
    if len(steps) != count or len(inside) < 2:
        return None
    scale = (WIDTH - 4) / (count - 1)
    return round(2 + scale * inside[0], 1), round(2 + scale * inside[-1], 1)


def _told(curve: Sequence[float]) -> str:
    finite = [value for value in curve if math.isfinite(value)]
    return (
        f"Confidence {percent(curve[0])} at the low end, at least {percent(min(finite))} between, "
        f"{percent(curve[-1])} at the high end"
    )


@dataclass(frozen=True)
class Bar:
    """A share between 0 and 100, and its interval if it has one."""

    value: float
    low: float | None
    high: float | None


def bar(share: float | Estimate) -> Bar | None:
    """Lay out a share as a bar; ``None`` if it is not known."""
    if isinstance(share, Estimate):
        return Bar(_hundred(share.value), _hundred(share.low), _hundred(share.high))
    return Bar(_hundred(share), None, None) if math.isfinite(share) else None


def _hundred(value: float) -> float:
    return round(100 * min(max(value, 0.0), 1.0), 2)


@dataclass(frozen=True)
class Piece:
    """One part of a bar that is split by class."""

    name: str
    share: float
    left: float
    width: float
    colour: int


def stack(shares: Mapping[str, float], order: Sequence[str], most: int = 6) -> list[Piece]:
    """Split a bar by class, largest first; what is beyond ``most`` stays blank."""
    known = [(name, value) for name, value in shares.items() if 0 < value <= 1 + 1e-9]
    known.sort(key=lambda each: -each[1])
    index = {name: place for place, name in enumerate(order)}
    pieces, left = [], 0.0
    for place, (name, value) in enumerate(known[:most]):
        width = min(_hundred(value), 100 - left)
        colour = index.get(name, place) % COLOURS
        pieces.append(Piece(name, value, round(left, 2), round(width, 2), colour))
        left += width
    return pieces


@dataclass(frozen=True)
class ReliabilityBar:
    """One bar of the reliability diagram, in units of a square of side 200."""

    left: float
    width: float
    top: float
    height: float
    expected: float
    told: str


def columns(bins: Sequence[Bin]) -> list[ReliabilityBar]:
    """Lay out a reliability diagram; bars without points are left out."""
    made = []
    for each in bins:
        if not each.points or not all(map(math.isfinite, (each.lower, each.upper, each.accuracy))):
            continue
        left, right = 2 * _hundred(each.lower), 2 * _hundred(each.upper)
        height = 2 * _hundred(each.accuracy)
        expected = each.confidence if math.isfinite(each.confidence) else each.upper
        told = (
            f"{each.points:,} rows, {percent(each.confidence)} sure on average, "
            f"{percent(each.accuracy)} right"
        )
        made.append(
            ReliabilityBar(
                left,
                round(right - left, 2),
                round(200 - height, 2),
                height,
                round(200 - 2 * _hundred(expected), 2),
                told,
            )
        )
    return made
