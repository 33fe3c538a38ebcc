"""``farfield explain``: what a finding means, and what can be read, without a network."""

from __future__ import annotations

import re
import textwrap

import click

from farfield.errors import InputError

WIDTH = 96
RULES = "RULES"


@click.command(
    epilog="\b\nExamples:\n  farfield explain FF201\n  farfield explain\n  farfield explain rules"
)
@click.argument("code", required=False)
def explain(code: str | None) -> None:
    """Say what the finding CODE means and what to do about it; without CODE, list them all.

    With the word rules for CODE, list every operation of models that is followed exactly.
    """
    from farfield.audit.findings import KINDS
    from farfield.audit.findings.document import page

    if code is None:
        for kind in KINDS.values():
            click.echo(f"{kind.code}  {kind.severity:<7}  {kind.title}")
        return
    if code.strip().upper() == RULES:
        click.echo(_rules())
        return
    found = KINDS.get(code.strip().upper())
    if found is None:
        raise InputError(f"there is no finding {code}; there are {', '.join(KINDS)}, and rules")
    click.echo("\n".join(map(_wrapped, page(found).splitlines())))


def _rules() -> str:
    """The table of rules, as a terminal shows it."""
    from farfield.graph.document import rules_page

    tables = (
        rules_page().partition("\n## ")[2].replace("| operation | at infinity |\n|---|---|\n", "")
    )
    lines = tables.splitlines()
    rows = [re.fullmatch(r"\| `(.*)` \| (.*) \|", line) for line in lines]
    return "\n".join(
        f"  {row[1]:<36} {row[2].replace('``', '')}" if row else line.lstrip("# ")
        for row, line in zip(rows, lines, strict=True)
    )


def _wrapped(line: str) -> str:
    """A line of Markdown as a terminal shows it: headings bare, paragraphs in short lines."""
    if line.startswith("#"):
        return line.lstrip("# ")
    return textwrap.fill(line, WIDTH, break_on_hyphens=False)
