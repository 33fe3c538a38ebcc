"""What can be said about a network without sampling."""

from farfield.exact.arcs import BlindArcs, blind_arcs
from farfield.exact.assumptions import Assumptions
from farfield.exact.box import Box
from farfield.exact.far_field import FarField
from farfield.exact.infinity import at_infinity
from farfield.exact.line import along
from farfield.exact.lines import Line, Lines
from farfield.exact.monotonicity import Monotonicity, check_monotonicity
from farfield.exact.plane import Plane, slice_plane
from farfield.exact.region import Region, linearize
from farfield.exact.stretches import FirstReaching, first_reaching, iterate_pieces

__all__ = [
    "Assumptions",
    "BlindArcs",
    "Box",
    "FarField",
    "FirstReaching",
    "Line",
    "Lines",
    "Monotonicity",
    "Plane",
    "Region",
    "along",
    "at_infinity",
    "blind_arcs",
    "check_monotonicity",
    "first_reaching",
    "iterate_pieces",
    "linearize",
    "slice_plane",
]
