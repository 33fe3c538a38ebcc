"""The essentials of an audit as text: plain, or in colour on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farfield.report.content.entry_errors import made_in
from farfield.report.content.findings import counted, told
from farfield.report.content.headline import headline
from farfield.report.content.listings import (
    SHOWN,
    Listing,
    closing,
    entry_listing,
    listings,
    opening,
    warnings,
)

if TYPE_CHECKING:
    from rich.console import Console

    from farfield.audit.fields.entry import EntryErrors
    from farfield.audit.record import Audit

WARNING = "bold yellow"
SEVERITIES = {"error": "red", "warning": "yellow", "note": ""}
COLOURS = {"passed": "bold green", "failed": "bold red", "unasked": "bold"}


def format_audit(audit: Audit) -> str:
    """Write the essentials: warnings, the verdict, findings, then the tables."""
    tables = (_plain(each) for each in listings(audit))
    found = [f"Findings: {counted(audit.findings)}", *(text for _, text in told(audit))]
    return "\n\n".join([*warnings(audit), *opening(audit), *found, *tables, *closing(audit)])


def format_entry_errors(found: EntryErrors) -> str:
    """Write errors of data entry: the table, worst first, and the worst rows in words."""
    listing = entry_listing(found, SHOWN)
    if not listing.rows:
        return f"No error of data entry that was tried changes a class, {made_in(found)}."
    return "\n".join([_plain(listing), *(f"  {text}" for text in found.worst)])


def print_audit(audit: Audit, console: Console) -> None:
    """Print the essentials with rich; colours appear on terminals only."""
    from rich.table import Table
    from rich.text import Text

    for text in warnings(audit):
        console.print(Text(text, style=WARNING))
    badge, *rest = opening(audit)
    console.print(Text(badge, style=COLOURS[headline(audit).outcome]))
    for text in rest:
        console.print(Text(text))
    console.print(Text(f"\nFindings: {counted(audit.findings)}", style="bold"))
    for severity, text in told(audit):
        console.print(Text(text, style=SEVERITIES.get(severity, "")))
    for listing in listings(audit):
        table = Table(title=Text(listing.title), title_justify="left", title_style="bold")
        for index, name in enumerate(listing.head):
            table.add_column(Text(name), justify="right" if index else "left", overflow="fold")
        for row in listing.rows:
            table.add_row(*map(Text, row))
        console.print()
        console.print(table)
        if listing.note:
            console.print(Text(listing.note, style="dim"))
    for text in closing(audit):
        console.print()
        console.print(Text(text))


def _plain(listing: Listing) -> str:
    """A listing as aligned text."""
    lines = [listing.head, *listing.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(listing.head))]
    text = [listing.title]
    for line in lines:
        cells = [
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        text.append("  " + "  ".join(cells).rstrip())
    if listing.note:
        text.append(f"  {listing.note}")
    return "\n".join(text)
