"""The report: one self-contained page, made from an audit's data alone."""

from farfield.report.html.comparison import write_comparison
from farfield.report.html.page import notebook_summary, render, write_report

__all__ = ["notebook_summary", "render", "write_comparison", "write_report"]
