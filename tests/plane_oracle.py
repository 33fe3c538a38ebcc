"""A slow, obvious referee for planes and points, in rational arithmetic, sharing no code with them.

A cell is a convex polygon with rational corners and, for every unit, an affine function of the two
coordinates with rational coefficients. Cells are split one at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from torch import nn

from oracles import Absolute, Pool, Residual

Point = tuple[Fraction, Fraction]
Function = tuple[Fraction, Fraction, Fraction]
ZERO: Function = (Fraction(0),) * 3


@dataclass(frozen=True)
class Cell:
    corners: tuple[Point, ...]
    values: tuple[Function, ...]
    saved: tuple[tuple[Function, ...], ...] = ()

    @property
    def area(self) -> Fraction:
        total = Fraction(0)
        for (x, y), (u, v) in zip(self.corners, (*self.corners[1:], self.corners[0]), strict=True):
            total += x * v - y * u
        return total / 2


def at(function: Function, point: Point) -> Fraction:
    return function[0] * point[0] + function[1] * point[1] + function[2]


def combine(terms: list[tuple[Fraction, Function]]) -> Function:
    return tuple(sum((w * f[i] for w, f in terms), Fraction(0)) for i in range(3))


def above(cell: Cell, function: Function) -> Cell | None:
    """The part of a cell where a function is not negative, if that has any area."""
    kept: list[Point] = []
    for here, there in zip(cell.corners, (*cell.corners[1:], cell.corners[0]), strict=True):
        p, q = at(function, here), at(function, there)
        if p >= 0:
            kept.append(here)
        if p * q < 0:
            share = p / (p - q)
            kept.append(tuple(h + share * (t - h) for h, t in zip(here, there, strict=True)))
    if len(kept) < 3:
        return None
    part = replace(cell, corners=tuple(kept))
    return part if part.area > 0 else None


def split(cell: Cell, unit: int, limit: Fraction, low: Function, high: Function) -> list[Cell]:
    """Replace a unit by ``low`` where it is at most a limit, by ``high`` where it is above."""
    gap = combine([(Fraction(1), cell.values[unit]), (-limit, (*ZERO[:2], Fraction(1)))])
    if all(at(gap, corner) <= 0 for corner in cell.corners):
        return [put(cell, unit, low)]
    over = above(cell, gap)
    under = above(cell, combine([(Fraction(-1), gap)]))
    return [put(c, unit, f) for c, f in ((over, high), (under, low)) if c is not None]


def put(cell: Cell, unit: int, function: Function) -> Cell:
    return replace(cell, values=(*cell.values[:unit], function, *cell.values[unit + 1 :]))


def hinge(cells: list[Cell], slopes: list[Fraction]) -> list[Cell]:
    for unit in range(len(cells[0].values)):
        slope = slopes[unit % len(slopes)]
        if slope == 1:
            continue
        cells = [
            part
            for cell in cells
            for part in split(
                cell,
                unit,
                Fraction(0),
                combine([(slope, cell.values[unit])]),
                cell.values[unit],
            )
        ]
    return cells


def clamp(cells: list[Cell], low: Fraction, high: Fraction) -> list[Cell]:
    for unit in range(len(cells[0].values)):
        for limit, upper in ((high, True), (low, False)):
            flat = (*ZERO[:2], limit)
            cells = [
                part
                for cell in cells
                for part in (
                    split(cell, unit, limit, cell.values[unit], flat)
                    if upper
                    else split(cell, unit, limit, flat, cell.values[unit])
                )
            ]
    return cells


def largest(cells: list[Cell], size: int) -> list[Cell]:
    width = len(cells[0].values) - size + 1
    cells = [replace(cell, saved=(*cell.saved, ())) for cell in cells]
    for start in range(width):
        parts = []
        for cell in cells:
            window = cell.values[start : start + size]
            for winner, function in enumerate(window):
                part: Cell | None = cell
                for other, rival in enumerate(window):
                    if part is None or other == winner:
                        continue
                    gap = combine([(Fraction(1), function), (Fraction(-1), rival)])
                    if gap != ZERO:
                        part = above(part, gap)
                    elif winner > other:
                        part = None
                if part is not None:
                    parts.append(
                        replace(part, saved=(*part.saved[:-1], (*part.saved[-1], function)))
                    )
        cells = parts
    return [replace(c, values=c.saved[-1], saved=c.saved[:-1]) for c in cells]


def follow(module: nn.Module, cells: list[Cell]) -> list[Cell]:
    match module:
        case nn.Sequential():
            for part in module:
                cells = follow(part, cells)
            return cells
        case nn.Linear():
            weight, bias = module.weight.double().tolist(), module.bias.double().tolist()
            rows = [[Fraction(w) for w in row] for row in weight]
            one = (*ZERO[:2], Fraction(1))
            return [
                replace(
                    cell,
                    values=tuple(
                        combine([*zip(row, cell.values, strict=True), (Fraction(b), one)])
                        for row, b in zip(rows, bias, strict=True)
                    ),
                )
                for cell in cells
            ]
        case nn.ReLU():
            return hinge(cells, [Fraction(0)])
        case nn.LeakyReLU():
            return hinge(cells, [Fraction(module.negative_slope)])
        case nn.PReLU():
            return hinge(cells, [Fraction(s) for s in module.weight.double().tolist()])
        case Absolute():
            return hinge(cells, [Fraction(-1)])
        case nn.Hardtanh():
            return clamp(cells, Fraction(module.min_val), Fraction(module.max_val))
        case Residual():
            kept = [replace(cell, saved=(*cell.saved, cell.values)) for cell in cells]
            return [
                replace(
                    cell,
                    values=tuple(
                        combine([(Fraction(1), a), (Fraction(1), b)])
                        for a, b in zip(cell.values, cell.saved[-1], strict=True)
                    ),
                    saved=cell.saved[:-1],
                )
                for cell in follow(module.inner, kept)
            ]
        case Pool():
            if module.kind == "max":
                return largest(cells, module.size)
            share = Fraction(1, module.size)
            return [
                replace(
                    cell,
                    values=tuple(
                        combine([(share, f) for f in cell.values[i : i + module.size]])
                        for i in range(len(cell.values) - module.size + 1)
                    ),
                )
                for cell in cells
            ]
    raise TypeError(f"the oracle does not know {type(module).__name__}")


def regions(
    module: nn.Module,
    origin: list[float],
    u: list[float],
    v: list[float],
    extent: tuple[float, float, float, float],
) -> list[Cell]:
    """Every region of a window with its exact corners and logits."""
    left, right, low, high = map(Fraction, extent)
    window = ((left, low), (right, low), (right, high), (left, high))
    start = tuple(
        (Fraction(a), Fraction(b), Fraction(o)) for a, b, o in zip(u, v, origin, strict=True)
    )
    return follow(module, [Cell(window, start)])
