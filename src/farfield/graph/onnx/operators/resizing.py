"""Images resized: by the nearest value, or by weighted means of neighbours."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch

from farfield.graph.onnx.node import Node, operator
from farfield.graph.onnx.operators.selecting import pick
from farfield.graph.onnx.trace import (
    MOST_ELEMENTS,
    ROWS,
    Known,
    ProgramBuilder,
    Refusal,
    Value,
    plain,
    sizes_of,
)

aten = torch.ops.aten
HALF = Fraction(1, 2)
# Where each place of the output lies is computed in fractions.
PER_PLACE = 2**8
# Where the centre of an output lies in the input: (place, factor, lengths of input and output).
Coordinate = Callable[[int, Fraction, int, int], Fraction]
COORDINATES: dict[str, Coordinate] = {
    "half_pixel": lambda place, factor, *_: (place + HALF) / factor - HALF,
    "pytorch_half_pixel": lambda place, factor, _, out: (
        (place + HALF) / factor - HALF if out > 1 else Fraction(0)
    ),
    "asymmetric": lambda place, factor, *_: place / factor,
    "align_corners": lambda place, _, length, out: (
        Fraction(place * (length - 1), out - 1) if out > 1 else Fraction(0)
    ),
}
ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    "round_prefer_floor": lambda place: math.ceil(place - HALF),
    "round_prefer_ceil": lambda place: math.floor(place + HALF),
    "floor": math.floor,
    "ceil": math.ceil,
}


@operator("Resize", "Upsample")
def resize(trace: ProgramBuilder, node: Node) -> Any:
    """The nearest value of the input for every place of the output, or a mean of neighbours."""
    value = node[0]
    modern = node.operator == "Resize" and node.version > 10
    way = node.text("coordinate_transformation_mode", "half_pixel") if modern else "asymmetric"
    coordinate = COORDINATES.get(way)
    rounding = ROUNDINGS.get(node.text("nearest_mode", "round_prefer_floor") if modern else "floor")
    mode = node.text("mode", "nearest")
    if mode not in ("nearest", "linear", "cubic") or coordinate is None or rounding is None:
        raise Refusal(f"resizes by the mode {mode!r} and coordinates {way!r}")
    if "axes" in node.attributes or node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Refusal("resizes some dimensions only, or keeps the aspect ratio")
    if node.whole("antialias", 0) or node.whole("exclude_outside", 0):
        raise Refusal("resizes against aliasing, or without what lies outside")
    sharp = node.number("cubic_coeff_a", -0.75)
    taps = _linear if mode == "linear" else functools.partial(_cubic, a=sharp)
    for axis, (factor, out) in enumerate(_factors(node, value.shape, modern)):
        length = value.shape[axis]
        if factor == 1 and out == length:
            continue
        trace.spend(PER_PLACE * out)
        centres = [coordinate(place, factor, length, out) for place in range(out)]
        if mode == "nearest":
            places = [min(max(rounding(centre), 0), length - 1) for centre in centres]
            value = pick(trace, value, axis, places)
        else:
            value = _mixed(trace, value, axis, _matrix(trace, centres, length, taps))
    return value


def _linear(rest: float) -> dict[int, float]:
    return {0: 1 - rest, 1: rest}


def _cubic(rest: float, a: float) -> dict[int, float]:
    """The weights of four neighbours, by their distance."""

    def weight(d: float) -> float:
        if d <= 1:
            return (a + 2) * d**3 - (a + 3) * d**2 + 1
        return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a

    return {step: weight(abs(step - rest)) for step in (-1, 0, 1, 2)}


def _matrix(
    trace: ProgramBuilder,
    centres: list[Fraction],
    length: int,
    taps: Callable[[float], dict[int, float]],
) -> torch.Tensor:
    """``(outputs, inputs)`` the weights; neighbours beyond the edge count for the edge."""
    trace.spend(len(centres) * length, 8 * len(centres) * length)
    matrix = torch.zeros(len(centres), length, dtype=torch.float64)
    for row, centre in enumerate(centres):
        first = math.floor(centre)
        for step, weight in taps(float(centre - first)).items():
            matrix[row, min(max(first + step, 0), length - 1)] += weight
    return matrix


def _mixed(trace: ProgramBuilder, value: Value, axis: int, matrix: torch.Tensor) -> Value:
    """Means along one axis."""
    rank = len(value.shape)
    order = [each for each in range(rank) if each != axis] + [axis]
    moved = trace.apply(aten.permute.default, value, order)
    mixed = trace.apply(aten.linear.default, moved, Known(matrix))
    return trace.apply(aten.permute.default, mixed, [order.index(e) for e in range(rank)])


def _factors(node: Node, shape: tuple[int, ...], modern: bool) -> list[tuple[Fraction, int]]:
    """How many times longer each dimension becomes, and how long."""
    scales, sizes = (node.optional(2), node.optional(3)) if modern else (node.optional(1), None)
    if not modern and "scales" in node.attributes:
        factors = [Fraction(scale) for scale in node.numbers("scales")]
    elif scales is not None and 0 not in scales.shape:
        factors = [Fraction(scale) for scale in plain(scales, "factors")]
    elif sizes is not None:
        lengths = [length or 1 for length in shape]
        wanted = sizes_of(sizes, "sizes")
        factors = [Fraction(size, length) for size, length in zip(wanted, lengths, strict=True)]
    else:
        raise Refusal("does not say by how much")
    if len(factors) != len(shape) or any(factor <= 0 for factor in factors):
        raise Refusal(f"resizes {len(shape)} dimensions by {[float(f) for f in factors]}")
    found = [
        (factor, math.floor(length * factor)) for length, factor in zip(shape, factors, strict=True)
    ]
    for length, (factor, out) in zip(shape, found, strict=True):
        if (length == ROWS and factor != 1) or out > max(ROWS, MOST_ELEMENTS) or out < 1:
            raise Refusal(f"resizes a dimension of length {length} by {float(factor)}")
    return found
