"""A network along whole rays: breakpoints, pieces, confidence, bounded domains."""
