"""``farfield report``: render a saved audit again, without recomputing."""

from __future__ import annotations

from pathlib import Path

import click

from farfield.cli.audit import show


@click.command(epilog="\b\nExample:\n  farfield report farfield-audit/audit.json -o report.html")
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the page; beside SOURCE if not given.",
)
@click.option("--latex", is_flag=True, help="Print the tables as LaTeX too.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def report(source: Path, out: Path | None, latex: bool, quiet: bool) -> None:
    """Render SOURCE, an audit.json, as one self-contained page."""
    from farfield.audit.record import Audit
    from farfield.cli.terminal import reader_may_leave

    found = Audit.from_json(source)
    page = out or source.with_name("report.html")
    found.to_html(page)
    with reader_may_leave():
        show(found, page, as_json=False, latex=latex, quiet=quiet)
