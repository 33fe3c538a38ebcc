"""What was found, put into words (``content``), then on pages, consoles and papers.

Everything here reads results and computes nothing, and needs neither a model nor PyTorch: of audits
it knows the shape, which is imported for type checkers alone.
"""
