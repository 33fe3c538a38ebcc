"""An audit in a notebook: the essentials, without scripts and in the notebook's own colours."""

from __future__ import annotations

from farfield.audit.record import Audit
from farfield.report.html.features import feature_rows
from farfield.report.html.limits import Limits
from farfield.report.html.page import environment
from farfield.report.html.verdict import headline

# Rows that a cell has room for.
SHOWN = 10


def notebook_summary(audit: Audit) -> str:
    """Make a fragment of HTML for a notebook: the verdict, the families, the first features."""
    return (
        environment()
        .get_template("notebook.html")
        .render(
            audit=audit,
            headline=headline(audit),
            families=audit.families[:SHOWN],
            rows=feature_rows(audit, Limits(features=SHOWN)),
        )
    )
