"""The architectures of the papers, one member or many at once."""
