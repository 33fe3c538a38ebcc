"""``farfield demo``: models on half-moons, before and after a guard, seen out to infinity."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from farfield.reproduce import Findings


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("farfield-demo"),
    show_default=True,
    help="Folder for the reports and the picture.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of data and training.")
@click.option("--quiet", is_flag=True, help="Print nothing but the path of the page.")
def demo(out: Path, seed: int, quiet: bool) -> None:
    """Train eight models on half-moons, audit them, and compare.

    Six models of Know Your Limits, which are certain far away, and two that are not: an RBF
    network, and the first network behind a guard. Prints how sure each is far away, writes one
    report per model, index.html with all of them side by side, and far-field.png: the whole plane
    as a disc whose rim is infinity. "farfield reproduce demo" is the same as an experiment.
    """
    from farfield.progress import stages
    from farfield.reproduce import RunRequest
    from farfield.reproduce import demo as experiment
    from farfield.reproduce.runner import run_stages

    with stages(False if quiet else None) as progress, tempfile.TemporaryDirectory() as scratch:
        request = RunRequest(Path(scratch) / experiment.NAME, seed=seed)
        done = run_stages(experiment, request, progress=progress)
        page = experiment.write_reports(done.settings, done.results, out)
    if not quiet:
        _print(experiment.present(done.settings, done.results))
        click.echo(f"\nThe whole plane, out to infinity: {out / 'far-field.png'}")
        click.echo("All of it side by side: ", nl=False)
    click.echo(page)
    if not quiet:
        click.echo(
            "Your own model: farfield audit MODEL --data TABLE.csv, then "
            "farfield guard MODEL --data TABLE.csv -o SAFE.onnx"
        )


def _print(findings: Findings) -> None:
    """Print one line per model."""
    from rich.table import Table

    from farfield.cli.output import Output
    from farfield.reproduce.findings import format_value

    (found,) = findings.tables
    table = Table(title="Half-moons: how sure are they infinitely far out?")
    for index, heading in enumerate(found.columns):
        table.add_column(heading.replace(" (", "\n("), justify="right" if index else "left")
    for row in found.rows:
        table.add_row(*(format_value(cell, 3) for cell in row))
    Output(width=max(100, Output().width)).print(table)
    click.echo("\n".join(findings.summary))
