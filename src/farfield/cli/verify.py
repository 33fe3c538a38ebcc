"""``farfield verify``: prove the promise of a guarded file again, from the file alone."""

from __future__ import annotations

import sys

import click

from farfield.cli.terminal import reader_may_leave
from farfield.formats import named

HELP = f"""Prove the certificate in FILE ({named("guard")}) again, from its own numbers.

Exits with 0 if the promise follows, with 1 if it does not, and with 2 if FILE holds no guard.
"""


@click.command(help=HELP)
@click.argument("path", metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def verify(path: str, as_json: bool, quiet: bool) -> None:
    """Prove the certificate of a guard in a file."""
    import json
    from dataclasses import asdict

    from farfield.guard.files import open_guard

    certificate, found = open_guard(path)
    with reader_may_leave():
        if as_json:
            click.echo(json.dumps(asdict(found)))
        elif not quiet and found:
            click.echo(
                f"verified: d >= 1 beyond {found.radius:.6g} units, where T >= "
                f"{found.temperature:.6g}. {certificate.statement()}"
            )
    for problem in found.problems:
        click.echo(f"farfield: {path} does not keep its promise: {problem}", err=True)
    if not found:
        sys.exit(1)
