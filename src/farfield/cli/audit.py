"""``farfield audit``: one command, one report, one number."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from farfield.audit.settings import Settings
from farfield.cli import options
from farfield.cli.loading import loading, page_compiled
from farfield.errors import InputError
from farfield.formats import listed

if TYPE_CHECKING:
    from farfield.audit.record import Audit
    from farfield.audit.settings import EntryRows

HELP = f"""Say what MODEL does far away from its data, and write a report.

MODEL is a file, several of them or a folder (an ensemble), or with --allow-code a Python factory
package.module:function. Files can be {listed()}. Writes audit.json and report.html. Exits with 1 if
the blind share is above --max-blind, or a budget of farfield.toml is broken.
"""
EXAMPLES = """
\b
Examples:
  farfield audit model.onnx --data train.csv --label outcome
  farfield audit model.onnx --data train.parquet --label y --ood other-hospital=b.csv
  farfield audit ensemble/ --data train.csv --label y --max-blind 0.1 --json
  farfield audit lenet.pt2 --data train-images-idx3-ubyte.gz --labels train-labels-idx1-ubyte.gz
"""


@click.command(help=HELP, epilog=EXAMPLES)
@click.argument("model", nargs=-1, required=True)
@click.option("--data", required=True, help="Training data: CSV, parquet, npz, npy or IDX images.")
@click.option("--label", help="Column (or npz key) that holds the labels.")
@click.option("--labels", help="File with the labels, where they are apart from the data.")
@click.option("--ood", multiple=True, metavar="NAME=FILE", help="Out-of-distribution data.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("farfield-audit"),
    show_default=True,
    help="Folder for audit.json and report.html.",
)
@click.option("--max-blind", type=click.FloatRange(0, 1), help="Fail above this blind share.")
@click.option(
    "--threshold", default=Settings.threshold, show_default=True, help="Confidence that is blind."
)
@options.reading
@click.option(
    "--label-kind", type=click.Choice(["class", "number"]), help="Are labels classes or targets?"
)
@click.option("--class-names", help="Names of the classes, separated by commas.")
@click.option("--pair", multiple=True, metavar="X,Y", help="Two features to draw a surface of.")
@click.option("--task", type=click.Choice(["classification", "regression"]))
@click.option(
    "--samples", default=Settings.samples, show_default=True, help="Rows for distances and curves."
)
@click.option(
    "--directions", default=Settings.directions, show_default=True, help="Directions per family."
)
@click.option("--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True)
@click.option(
    "--guard/--no-guard",
    default=None,
    help="Before and after a guard: of all rows, or none; of a sample of tables if not given.",
)
@click.option("--show-rows", is_flag=True, help="Show rows of the data in surfaces.")
@click.option(
    "--expected-accuracy", type=click.FloatRange(0, 1), help="Warn if the accuracy is far from it."
)
@click.option("--entry-rows", metavar="N|all", help="Rows to make errors of data entry in.")
@options.allow_code
@click.option(
    "--evidence",
    type=click.Choice(["auto", "exact", "sampled"]),
    default="auto",
    show_default=True,
    help="Refuse, or only evaluate, models that cannot be followed exactly.",
)
@options.config
@options.seed
@click.option("--json", "as_json", is_flag=True, help="Print the audit as JSON.")
@click.option("--latex", is_flag=True, help="Print the tables as LaTeX.")
@click.option("--quiet", is_flag=True, help="Print errors and warnings only.")
def audit(
    model: tuple[str, ...],
    data: str,
    labels: str | None,
    ood: tuple[str, ...],
    out: Path,
    class_names: str | None,
    pair: tuple[str, ...],
    entry_rows: str | None,
    guard: bool | None,
    config: Path | None,
    as_json: bool,
    latex: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Say what a model does far away from its data, and write a report."""
    sets = dict(_named(each) for each in ood)
    pairs = [_pair(each) for each in pair]
    rows = _entry_rows(entry_rows)
    with page_compiled() as templates:
        with loading():
            from farfield.audit.run import audit as run
            from farfield.audit.second_process import second_process
            from farfield.cli.terminal import reader_may_leave
            from farfield.progress import stages

        with second_process(), stages(False if quiet or as_json else None) as progress:
            progress("reading")
            found = run(
                model[0] if len(model) == 1 else list(model),
                data,
                labels,
                ood=sets,
                class_names=class_names.split(",") if class_names else None,
                pairs=pairs,
                entry_rows=rows,
                guard="sample" if guard is None else guard,
                policy=options.policy(config),
                progress=progress,
                **given,
            )
            progress("report")
            templates()
            found.to_json(out / "audit.json")
            found.to_html(out / "report.html")
    with reader_may_leave():
        show(found, out / "report.html", as_json=as_json, latex=latex, quiet=quiet)
    if not found.passed:
        from farfield.report.content.findings import broken

        for line in broken(found):
            click.echo(f"farfield: {line}", err=True)
        sys.exit(1)


def _named(text: str) -> tuple[str, str]:
    """Split NAME=FILE."""
    name, mark, path = text.partition("=")
    if not (name and mark and path):
        raise InputError(f"--ood takes NAME=FILE, got {text!r}; such as --ood other=other.csv")
    return name, path


def _pair(text: str) -> tuple[str, str]:
    """Split X,Y."""
    names = [part.strip() for part in text.split(",")]
    if len(names) != 2 or not all(names):
        raise InputError(f"--pair takes two features as X,Y, got {text!r}")
    return names[0], names[1]


def _entry_rows(text: str | None) -> EntryRows:
    """Read N, or all."""
    if text is None:
        return None
    if text == "all":
        return "all"
    if not text.isdecimal():
        raise InputError(f"--entry-rows takes a number of rows or all, got {text!r}")
    return int(text)


def _escaped(text: str, encoding: str | None) -> str:
    r"""Write JSON so that ``encoding`` can carry it, and it stays the same JSON.

    >>> print(_escaped('"≥ 3"', "ascii"))
    "\u2265 3"
    """
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], text)
    return text


def echo(text: str, out: Path | None) -> None:
    """Write text to a file, whole or not at all, or print it."""
    from farfield.files import replacing

    if out is None:
        click.echo(text, nl=False)
        return
    with replacing(out) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")
    click.echo(str(out), err=True)


def show(found: Audit, page: Path, *, as_json: bool, latex: bool, quiet: bool) -> None:
    """Print an audit the way that was asked for, and where its page is."""
    from farfield.report.content.listings import warnings

    if as_json or latex or quiet:
        # Whoever reads the output by machine, or not at all, is told on the other channel.
        for text in warnings(found):
            click.echo(f"farfield: {text}", err=True)
    if as_json:
        click.echo(_escaped(found.to_json(), sys.stdout.encoding))
    elif latex:
        from farfield.report.latex import audit_tables

        for table in audit_tables(found).values():
            click.echo(table)
    elif not quiet:
        from farfield.cli.output import Output
        from farfield.report.text import print_audit

        print_audit(found, Output())
        click.echo(f"\n{page}")
