"""``farfield report``: render a saved audit again, without recomputing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from farfield.cli.audit import echo, show

if TYPE_CHECKING:
    from farfield.report.formats import ReportFormat

# Those of farfield.report.formats, which --help need not load; a test compares the two.
FORMATS = ("html", "text", "json", "latex", "sarif", "junit", "card", "github")

EXAMPLES = """
\b
Examples:
  farfield report farfield-audit/audit.json -o report.html
  farfield report farfield-audit/audit.json --format sarif -o farfield.sarif
  farfield report farfield-audit/audit.json --format card > MODEL_CARD.md
"""


@click.command(epilog=EXAMPLES)
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write; a page is put beside SOURCE, all else is printed if not given.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(FORMATS),
    help="What to write; a page, and a summary on the terminal, if not given.",
)
@click.option("--latex", is_flag=True, help="Print the tables as LaTeX too.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def report(
    source: Path, out: Path | None, kind: ReportFormat | None, latex: bool, quiet: bool
) -> None:
    """Render SOURCE, an audit.json: as one self-contained page, or for people and machines."""
    from farfield.audit.record import Audit
    from farfield.cli.terminal import reader_may_leave

    found = Audit.from_json(source)
    if kind is None:
        page = out or source.with_name("report.html")
        found.to_html(page)
        with reader_may_leave():
            show(found, page, as_json=False, latex=latex, quiet=quiet)
    else:
        beside = source.with_name("report.html") if kind == "html" else None
        with reader_may_leave():
            echo(found.render(kind), out or beside)
