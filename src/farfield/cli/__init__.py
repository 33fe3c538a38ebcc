"""The command line: one file per command, thin over the library.

Commands import PyTorch when they run, so that ``farfield --help`` answers at once.
"""

from __future__ import annotations

import atexit
import errno
import io
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NoReturn

import click

from farfield import __version__
from farfield.cli.audit import audit
from farfield.cli.demo import demo
from farfield.cli.diff import diff
from farfield.cli.explain import explain
from farfield.cli.guard import guard
from farfield.cli.report import report
from farfield.cli.reproduce import reproduce
from farfield.cli.schema import schema
from farfield.cli.terminal import reader_may_leave
from farfield.cli.train import train
from farfield.cli.verify import verify
from farfield.errors import FarfieldError


class Commands(click.Group):
    """All commands; whoever reads what one of them writes may leave."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        with reader_may_leave():
            return super().invoke(ctx)


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="farfield")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def farfield() -> None:
    """Say exactly what a classifier does far away from its data."""


for command in (demo, audit, explain, diff, guard, verify, train, schema, report, reproduce):
    farfield.add_command(command)


# How threads of the libraries below us wait for one another: awake for some tens of microseconds,
# then asleep. Spinning on, they take the time of whatever else runs, and on a busy machine of one
# another; asleep at once, they are woken anew for every small product, which takes as long as
# thirty of them. What numpy multiplies is small, and waits for nobody. Read when libraries load.
ASLEEP = {
    "OMP_WAIT_POLICY": "passive",
    "GOMP_SPINCOUNT": "3000",
    "KMP_BLOCKTIME": "0",
    "OPENBLAS_NUM_THREADS": "1",
}
# No plugin has a part in what is validated here, and to look for one reads about every package.
ALONE = {"PYDANTIC_DISABLE_PLUGINS": "__all__"}


def program() -> NoReturn:
    """Run the command line in a process of its own, and leave at once.

    To take PyTorch apart again, object by object, takes a quarter of a second and serves nobody.
    Whatever asked to be called in the end is called.
    """
    try:
        main()
    except SystemExit as end:
        others = [each for each in threading.enumerate() if not each.daemon]
        if not isinstance(end.code, int) or len(others) > 1:
            raise
        code = end.code
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        # What was said was not written; Python says so as it ends.
        sys.exit(code)
    os._exit(code)


def main() -> NoReturn:
    """Run the command line.

    Exit codes: 0 done, 1 an audit failed its threshold or a budget, 2 bad usage or input, 3 a
    defect of farfield itself, 130 interrupted.
    """
    # How often to look before sleeping would overrule what somebody said of sleeping at all.
    said = {"GOMP_SPINCOUNT"} if "OMP_WAIT_POLICY" in os.environ else set()
    for name, value in (ASLEEP | ALONE).items():
        if name not in said:
            os.environ.setdefault(name, value)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever called
            nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the end
            setattr(sys, name, nowhere)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows another in its place.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        sys.exit(farfield(standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("farfield: interrupted; nothing half-written was left behind", err=True)
        sys.exit(130)
    except FarfieldError as error:
        _explain(str(error), 2)
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            _explain(f"cannot write: {error.strerror}", 2)
        _explain(f"unexpected {type(error).__name__}: {error}; run again with --debug", 3)


def _explain(message: str, code: int) -> NoReturn:
    """Print one line, or with --debug the traceback, and leave."""
    if "--debug" in sys.argv:
        traceback.print_exc()
    click.echo(f"farfield: {message}", err=True)
    sys.exit(code)
