"""What was found, put into words (``content``), then on pages, consoles, papers and pictures.

Everything here reads results and computes nothing, and needs neither a model nor PyTorch: of audits
and of the exact core it knows the shape, which is imported for type checkers alone.
"""

from farfield.report.confidence import (
    confidence_html,
    confidence_latex,
    format_confidence_table,
    save_confidence_histograms,
    save_image_grid,
)
from farfield.report.ensembles import draw_decomposition, draw_mixture
from farfield.report.figure import save_figure
from farfield.report.html.comparison import write_comparison
from farfield.report.html.page import notebook_summary, write_report
from farfield.report.latex import audit_tables
from farfield.report.plane import save_plane
from farfield.report.ray import save_ray
from farfield.report.text import format_audit, print_audit

__all__ = [
    "audit_tables",
    "confidence_html",
    "confidence_latex",
    "draw_decomposition",
    "draw_mixture",
    "format_audit",
    "format_confidence_table",
    "notebook_summary",
    "print_audit",
    "save_confidence_histograms",
    "save_figure",
    "save_image_grid",
    "save_plane",
    "save_ray",
    "write_comparison",
    "write_report",
]
