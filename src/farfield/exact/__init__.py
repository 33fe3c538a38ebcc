"""What can be said about a network without sampling."""

from farfield.exact.far_field import FarField
from farfield.exact.infinity import at_infinity

__all__ = ["FarField", "at_infinity"]
