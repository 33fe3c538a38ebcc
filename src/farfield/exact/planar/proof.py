"""Proofs of planes: that a network is affine on every polygon, but for a seam along its sides.

On a side some unit is zero, where no sign can be proven. Polygons are therefore made a little
smaller; if a network decides alike at all corners of the smaller one, it is affine on it. What is
not proven of a plane whose polygons all are is the seams between them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from farfield.exact.alike import hulls_alike
from farfield.exact.slices import add_up, sum_error, two_product
from farfield.graph.program import Program

# How much smaller polygons are made.
SEAM = 2.0**-20
RUNGS = (1, 3)


def proven_polygons(
    program: Program,
    constants: Mapping[str, Tensor],
    frame: tuple[Tensor, Tensor, Tensor],
    vertices: Tensor,
    centres: Tensor,
    counts: Tensor,
) -> Tensor:
    """``(polygons,)`` whether the network is proven to be affine on each, but for its seam.

    Args:
        program: The network.
        constants: Its weights.
        frame: The origin and the directions of the slice.
        vertices: ``(corners, 2)`` of all polygons.
        centres: ``(polygons, 2)`` a point inside each.
        counts: ``(polygons,)`` how many corners each has.
    """
    middle = centres.repeat_interleave(counts, dim=0)
    inner = vertices + SEAM * (middle - vertices)
    a, b = (each.reshape(-1, *[1] * frame[0].ndim) for each in inner.unbind(dim=1))
    origin, u, v = frame
    terms = [*two_product(a, u[None]), *two_product(b, v[None]), origin[None]]
    points = add_up(terms, 3)
    size = sum((term.abs() for term in terms), torch.zeros_like(points[0]))
    return hulls_alike(program, constants, points, size * sum_error(5, 3), counts, RUNGS)
