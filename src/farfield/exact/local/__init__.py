"""A network around a point, and in the region that a ray ends in."""
