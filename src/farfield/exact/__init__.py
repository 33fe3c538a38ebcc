"""What can be said about a network without sampling."""

from farfield.exact.far_field import FarField
from farfield.exact.infinity import at_infinity
from farfield.exact.local.assumptions import Assumptions
from farfield.exact.local.monotonicity import Monotonicity, check_monotonicity
from farfield.exact.local.region import Region, linearize
from farfield.exact.orthants import BlindOrthants, blind_orthants
from farfield.exact.passes import Passes
from farfield.exact.planar.arcs import BlindArcs, blind_arcs
from farfield.exact.planar.plane import Plane, slice_plane
from farfield.exact.ray.box import Box
from farfield.exact.ray.line import along
from farfield.exact.ray.lines import Line, Lines
from farfield.exact.ray.stretches import FirstReaching, first_reaching, iterate_pieces
from farfield.exact.sure_from import SureFrom

__all__ = [
    "Assumptions",
    "BlindArcs",
    "BlindOrthants",
    "Box",
    "FarField",
    "FirstReaching",
    "Line",
    "Lines",
    "Monotonicity",
    "Passes",
    "Plane",
    "Region",
    "SureFrom",
    "along",
    "at_infinity",
    "blind_arcs",
    "blind_orthants",
    "check_monotonicity",
    "first_reaching",
    "iterate_pieces",
    "linearize",
    "slice_plane",
]
