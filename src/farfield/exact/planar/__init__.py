"""A network in a plane: polygons, decision boundaries, arcs of directions."""
