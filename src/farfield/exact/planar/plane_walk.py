"""Walk a program over the polygons of a window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import InputError
from farfield.exact.cell_walk import walk_cells
from farfield.exact.jets import Jet
from farfield.exact.planar.cutting import TooManyPolygons
from farfield.exact.planar.plane_domain import PlaneDomain
from farfield.exact.planar.polygons import Polygons, join
from farfield.graph.program import Program

# How many numbers the largest value of a block may hold.
BLOCK_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class Subdivision:
    """Polygons with the network's output on them, ``(3, polygons, ...)``, and their patterns."""

    polygons: Polygons
    out: Tensor
    pattern: NDArray[np.uint64]


def walk_plane(
    program: Program, start: Tensor, constants: Mapping[str, Tensor], window: Polygons, most: int
) -> Subdivision:
    """Follow a program over a window.

    Args:
        program: Whose steps do not remember how many rows there were.
        start: ``(3, *input)`` slopes and constant of the inputs.
        constants: The program's constants.
        window: A single polygon.
        most: How many polygons there may be.

    Raises:
        InputError: If there are more.
    """
    together = max(1, BLOCK_ELEMENTS // (3 * program.width))
    done: list[Subdivision] = []

    def make(polygons: Polygons, waiting: int) -> PlaneDomain:
        room = most - waiting - sum(len(each.polygons) for each in done)
        return PlaneDomain(polygons, together, room)

    try:
        for domain, out in walk_cells(program, Jet(start), constants, window, make):
            done.append(Subdivision(domain.cells, out, domain.pattern))
    except TooManyPolygons:
        raise InputError(
            f"the window holds more than {most} regions; choose a smaller window, or allow "
            "more with most="
        ) from None
    return Subdivision(
        join([each.polygons for each in done]),
        torch.cat([each.out for each in done], dim=1),
        np.concatenate([each.pattern for each in done]),
    )
