"""The straightforward way to the linear regions of a plane: one polygon and one line at a time.

Layer by layer, every polygon is clipped by the line of every unit (Sutherland-Hodgman, twice: once
for each side). Kept as the reading that anyone would write first, to compare with.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def clip(polygon: Floats, values: Floats) -> Floats:
    """The part of a convex polygon where a function that is affine on it is not negative."""
    kept = []
    for index in range(len(polygon)):
        here, there = values[index], values[(index + 1) % len(polygon)]
        if here >= 0:
            kept.append(polygon[index])
        if here * there < 0:
            following = polygon[(index + 1) % len(polygon)]
            kept.append(polygon[index] + here / (here - there) * (following - polygon[index]))
    return np.array(kept)


def regions(
    layers: list[tuple[Floats, Floats]], extent: float, tolerance: float = 1e-12
) -> list[tuple[Floats, Floats]]:
    """Cut ``[-extent, extent]^2`` into the regions of a ReLU network of two inputs.

    Args:
        layers: Weights ``(outputs, inputs)`` and biases ``(outputs,)``; ReLU between layers.
        extent: Half the window's side.
        tolerance: Values this close to zero count as zero.

    Returns:
        Corners ``(n, 2)`` of each polygon, and the network on it as ``(outputs, 3)``: two slopes
        and a constant.
    """
    window = extent * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    cells = [(window, np.eye(3)[:2])]
    for place, (weight, bias) in enumerate(layers):
        offset = np.column_stack([np.zeros((len(bias), 2)), bias])
        cells = [(polygon, weight @ function + offset) for polygon, function in cells]
        if place == len(layers) - 1:
            break
        for unit in range(len(bias)):
            cells = [part for cell in cells for part in _split(*cell, unit, tolerance)]
    return cells


def _split(
    polygon: Floats, function: Floats, unit: int, tolerance: float
) -> list[tuple[Floats, Floats]]:
    """Cut one polygon by one unit, and apply its ReLU on either side."""
    values = polygon @ function[unit, :2] + function[unit, 2]
    values[np.abs(values) < tolerance] = 0.0
    off = function.copy()
    off[unit] = 0.0
    if values.max() <= 0:
        return [(polygon, off)]
    if values.min() >= 0:
        return [(polygon, function)]
    return [(clip(polygon, values), function), (clip(polygon, -values), off)]
