"""``farfield explain``: what a finding means, without a network."""

from __future__ import annotations

import textwrap

import click

from farfield.errors import InputError

WIDTH = 96


@click.command(epilog="\b\nExamples:\n  farfield explain FF201\n  farfield explain")
@click.argument("code", required=False)
def explain(code: str | None) -> None:
    """Say what the finding CODE means and what to do about it; without CODE, list them all."""
    from farfield.audit.findings import KINDS
    from farfield.audit.findings.document import page

    if code is None:
        for kind in KINDS.values():
            click.echo(f"{kind.code}  {kind.severity:<7}  {kind.title}")
        return
    found = KINDS.get(code.strip().upper())
    if found is None:
        raise InputError(f"there is no finding {code}; there are {', '.join(KINDS)}")
    click.echo("\n".join(map(_wrapped, page(found).splitlines())))


def _wrapped(line: str) -> str:
    """A line of Markdown as a terminal shows it: headings bare, paragraphs in short lines."""
    if line.startswith("#"):
        return line.lstrip("# ")
    return textwrap.fill(line, WIDTH, break_on_hyphens=False)
