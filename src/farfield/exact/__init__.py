"""What can be said about a network without sampling."""

from farfield.exact.arcs import BlindArcs, blind_arcs
from farfield.exact.assumptions import Assumptions
from farfield.exact.far_field import FarField
from farfield.exact.infinity import at_infinity
from farfield.exact.monotonicity import Monotonicity, check_monotonicity
from farfield.exact.plane import Plane, slice_plane
from farfield.exact.region import Region, linearize

__all__ = [
    "Assumptions",
    "BlindArcs",
    "FarField",
    "Monotonicity",
    "Plane",
    "Region",
    "at_infinity",
    "blind_arcs",
    "check_monotonicity",
    "linearize",
    "slice_plane",
]
