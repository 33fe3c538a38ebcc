"""A model as a checked op graph: capture, the rule table, the walk."""

from farfield.graph.models import capture
from farfield.graph.network import Network

__all__ = ["Network", "capture"]
