"""Console, plots, pages: everything here reads results and computes nothing."""
