"""What errors of data entry do: every error in every column that matters, on rows of the data."""

from __future__ import annotations

from typing import Any

from farfield.audit.case import Case
from farfield.audit.entry_errors import make_errors
from farfield.data import TableColumn

# Columns that errors are made in: those that move the model most, and as many of categories.
COLUMNS = 40


def compute(case: Case) -> dict[str, Any]:
    """Make every error in every column that matters, and count what happens."""
    columns = _columns(case)
    return (
        {"entry_errors": make_errors(case, columns, numbered=case.settings.show_rows)}
        if columns
        else {}
    )


def _columns(case: Case) -> list[TableColumn]:
    """Numbers that move the model most, and categories, those with many values first."""
    categories = [each for each in case.subject.moving if each.discrete]
    categories.sort(key=lambda each: -len(each.options))
    return [*case.telling[:COLUMNS], *categories[:COLUMNS]]
