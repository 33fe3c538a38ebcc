"""Images made larger by whole factors, each value repeated."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from farfield.graph.onnx.node import Node, operator
from farfield.graph.onnx.operators.selecting import pick
from farfield.graph.onnx.trace import MOST_ELEMENTS, ROWS, ProgramBuilder, Refusal, plain, sizes_of

HALF = Fraction(1, 2)
# Where each place of the output lies is computed in fractions.
PER_PLACE = 2**8
# Where the centre of an output lies in the input: (place, factor, length of the input).
COORDINATES: dict[str, Callable[[int, int, int], Fraction]] = {
    "half_pixel": lambda place, factor, _: (place + HALF) / factor - HALF,
    "pytorch_half_pixel": lambda place, factor, length: (
        (place + HALF) / factor - HALF if factor * length > 1 else Fraction(0)
    ),
    "asymmetric": lambda place, factor, _: Fraction(place, factor),
    "align_corners": lambda place, factor, length: (
        Fraction(place * (length - 1), factor * length - 1) if factor * length > 1 else Fraction(0)
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
    """The nearest value of the input for every place of the output."""
    value = node[0]
    modern = node.operator == "Resize" and node.version > 10
    coordinate = COORDINATES.get(
        node.text("coordinate_transformation_mode", "half_pixel") if modern else "asymmetric"
    )
    rounding = ROUNDINGS.get(node.text("nearest_mode", "round_prefer_floor") if modern else "floor")
    if node.text("mode", "nearest") != "nearest" or coordinate is None or rounding is None:
        raise Refusal("resizes otherwise than by the nearest value")
    if "axes" in node.attributes or node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Refusal("resizes some dimensions only, or keeps the aspect ratio")
    for axis, factor in enumerate(_factors(node, value.shape, modern)):
        length = value.shape[axis]
        if factor > 1:
            trace.spend(PER_PLACE * factor * length)
            centres = (coordinate(place, factor, length) for place in range(factor * length))
            places = [min(max(rounding(centre), 0), length - 1) for centre in centres]
            value = pick(trace, value, axis, places)
    return value


def _factors(node: Node, shape: tuple[int, ...], modern: bool) -> list[int]:
    """How many times longer each dimension becomes."""
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
    if len(factors) != len(shape) or any(f.denominator != 1 or f < 1 for f in factors):
        raise Refusal("resizes by factors that are not whole")
    whole = [int(factor) for factor in factors]
    for length, factor in zip(shape, whole, strict=True):
        if (length == ROWS and factor > 1) or length * factor > max(ROWS, MOST_ELEMENTS):
            raise Refusal(f"resizes a dimension of length {length} by {factor}")
    return whole
