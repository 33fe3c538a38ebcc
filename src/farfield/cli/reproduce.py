"""``farfield reproduce``: the papers' tables and figures, beside the published ones."""

from __future__ import annotations

import os
from pathlib import Path

import click

# A backspace on a line of its own keeps click from filling what follows.
HELP = """Reproduce a table or figure of the papers, NAME, or all of them.

Writes figures, tables, results.json and index.html, which puts every number beside the published
one. A run that was stopped goes on where it was.

\b
Examples:
  farfield reproduce --list
  farfield reproduce know-your-limits-3 --quick
  farfield reproduce all --quick --data-dir ~/data
"""


@click.command(help=HELP)
@click.argument("name", required=False)
@click.option("--list", "listed", is_flag=True, help="Name the experiments and stop.")
@click.option("--quick", is_flag=True, help="Reduced settings, about a minute each.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("farfield-reproduce"),
    show_default=True,
    help="Folder; each experiment has one of its own in it.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Folder with data sets. [default: $FARFIELD_DATA]",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed.")
@click.option(
    "--jobs",
    default=None,
    type=click.IntRange(min=1),
    help="Processes of searches. [default: the number of cores]",
)
def reproduce(
    name: str | None,
    listed: bool,
    quick: bool,
    out: Path,
    data_dir: Path | None,
    seed: int,
    jobs: int | None,
) -> None:
    """Reproduce a table or figure, or all of them."""
    from farfield.progress import stages
    from farfield.reproduce import NAMES, RunRequest, find_experiment
    from farfield.reproduce.runner import run_all, run_experiment

    if listed:
        width = max(map(len, NAMES))
        for each in NAMES:
            click.echo(f"{each:{width}}  {find_experiment(each).TITLE}")
        return
    if name is None:
        raise click.UsageError("name an experiment, or all; --list shows the names")
    environment = os.environ.get("FARFIELD_DATA")
    if data_dir is None and environment:
        data_dir = Path(environment)
    request = RunRequest(out, quick, seed, data_dir, jobs or os.cpu_count() or 1)
    with stages() as progress:
        if name == "all":
            experiments = {each: find_experiment(each) for each in NAMES}
            outcomes = run_all(experiments, request, progress=progress)
        else:
            experiment = find_experiment(name)
            own = RunRequest(out / name, quick, seed, data_dir, request.jobs)
            outcomes = [run_experiment(experiment, own, progress=progress)]
    for outcome in outcomes:
        click.echo(outcome.page or f"skipped {outcome.name}: {outcome.reason}")
    if name == "all":
        click.echo(out / "index.html")
