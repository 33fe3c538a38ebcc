"""The formats of a report: each makes one text from one saved audit, and computes nothing.

A new format is a function and a line in ``REPORT_FORMATS``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from farfield.report.card import card
from farfield.report.github import github
from farfield.report.html.page import render
from farfield.report.junit import junit
from farfield.report.latex import audit_tables
from farfield.report.sarif import sarif
from farfield.report.text import format_audit

if TYPE_CHECKING:
    from farfield.audit.record import Audit
    from farfield.report.explained import Kinds

ReportFormat = Literal["html", "text", "json", "latex", "sarif", "junit", "card", "github"]
Render = Callable[["Audit", "Kinds"], str]
HEAD = "% Needs \\usepackage{array,booktabs,longtable,textcomp}.\n"
BETWEEN = "\n\\bigskip\n\n\\noindent\n"

REPORT_FORMATS: dict[ReportFormat, Render] = {
    "html": lambda audit, _: render(audit).decode(),
    "text": lambda audit, _: format_audit(audit) + "\n",
    "json": lambda audit, _: audit.to_json() + "\n",
    "latex": lambda audit, _: HEAD + BETWEEN.join(audit_tables(audit).values()),
    "sarif": sarif,
    "junit": junit,
    "card": lambda audit, _: card(audit),
    "github": lambda audit, _: github(audit),
}
