"""``farfield diff``: what got better and worse from one audit to the next."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from farfield.cli.audit import echo

EXAMPLES = """
\b
Examples:
  farfield diff last-month.json farfield-audit/audit.json
  farfield diff old.json new.json --format html -o difference.html
  farfield diff old.json new.json --gate --quiet
"""


@click.command(epilog=EXAMPLES)
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    show_default=True,
)
@click.option(
    "-o", "--out", type=click.Path(dir_okay=False, path_type=Path), help="Printed if not given."
)
@click.option("--gate", is_flag=True, help="Exit with 1 if something got worse.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def diff(old: Path, new: Path, kind: str, out: Path | None, gate: bool, quiet: bool) -> None:
    """Say what got better and worse from OLD to NEW, two audit.json of a model.

    Numbers with intervals count as better or worse only if the intervals do not overlap. With
    --gate it exits with 1 if a number got worse, or if there is a new finding that is no note and
    that nobody has accepted.
    """
    from farfield.audit.difference import difference
    from farfield.audit.record import Audit
    from farfield.cli.terminal import reader_may_leave
    from farfield.report.difference import difference_page, format_difference

    found = difference(Audit.from_json(old), Audit.from_json(new))
    if kind == "json":
        text = found.to_json()
    else:
        text = format_difference(found) if kind == "text" else difference_page(found)
    if out is not None or not quiet:
        with reader_may_leave():
            echo(text, out)
    if gate and found.is_worse:
        sys.exit(1)
