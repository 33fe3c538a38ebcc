"""The command line: one file per command, thin over the library.

Commands import PyTorch when they run, so that ``farfield --help`` answers at once.
"""

from __future__ import annotations

import sys
import traceback

import click

from farfield import __version__
from farfield.cli.demo import demo
from farfield.errors import FarfieldError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="farfield")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def farfield() -> None:
    """Say exactly what a neural classifier does far away from its data."""


farfield.add_command(demo)


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 an audit failed, 2 bad usage or input."""
    try:
        farfield()
    except FarfieldError as error:
        if "--debug" in sys.argv:
            traceback.print_exc()
        click.echo(f"farfield: {error}", err=True)
        sys.exit(2)
