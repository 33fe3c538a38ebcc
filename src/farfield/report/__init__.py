"""What was found, put into words (``content``), then on pages, consoles, papers and pictures.

Everything here reads results and computes nothing, and needs neither a model nor PyTorch: of audits
and of the exact core it knows the shape, which is imported for type checkers alone. Names are
imported when first used, so that words alone cost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from farfield.report.confidence import confidence_html as confidence_html
    from farfield.report.confidence import confidence_latex as confidence_latex
    from farfield.report.confidence import format_confidence_table as format_confidence_table
    from farfield.report.confidence import save_confidence_histograms as save_confidence_histograms
    from farfield.report.confidence import save_image_grid as save_image_grid
    from farfield.report.disc import Disc as Disc
    from farfield.report.disc import save_discs as save_discs
    from farfield.report.ensembles import draw_decomposition as draw_decomposition
    from farfield.report.ensembles import draw_mixture as draw_mixture
    from farfield.report.figure import save_figure as save_figure
    from farfield.report.html.comparison import write_comparison as write_comparison
    from farfield.report.html.page import notebook_summary as notebook_summary
    from farfield.report.html.page import write_report as write_report
    from farfield.report.latex import audit_tables as audit_tables
    from farfield.report.plane import save_plane as save_plane
    from farfield.report.ray import save_ray as save_ray
    from farfield.report.text import format_audit as format_audit
    from farfield.report.text import print_audit as print_audit

_HOMES = {
    "Disc": "disc",
    "audit_tables": "latex",
    "confidence_html": "confidence",
    "confidence_latex": "confidence",
    "draw_decomposition": "ensembles",
    "draw_mixture": "ensembles",
    "format_audit": "text",
    "format_confidence_table": "confidence",
    "notebook_summary": "html.page",
    "print_audit": "text",
    "save_confidence_histograms": "confidence",
    "save_discs": "disc",
    "save_figure": "figure",
    "save_image_grid": "confidence",
    "save_plane": "plane",
    "save_ray": "ray",
    "write_comparison": "html.comparison",
    "write_report": "html.page",
}
__all__ = sorted(_HOMES)  # noqa: PLE0605 - made, so that it cannot disagree


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
