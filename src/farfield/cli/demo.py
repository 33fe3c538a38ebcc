"""``farfield demo``: half-moons, the papers' models, audited side by side out to infinity."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from farfield.audit.record import Audit
    from farfield.cli.moons import Audited

DIRECTIONS = 1440
FAR_AWAY = 100.0


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
    """Train the papers' models on half-moons, audit them, and compare.

    Six models of Know Your Limits. Prints how sure each is far away, writes one report per model,
    index.html with all of them side by side, and far-field.png: the whole plane as a disc whose
    rim is infinity.
    """
    from farfield.cli.moons import audited_moons
    from farfield.cli.progress import stages
    from farfield.report.disc import save_discs
    from farfield.report.html.comparison import write_comparison

    with stages(quiet) as progress:
        results = audited_moons(seed, DIRECTIONS, FAR_AWAY, progress)
        audits = {}
        for result in results:
            folder = out / _slug(result.title)
            result.found.to_json(folder / "audit.json")
            result.found.to_html(folder / "report.html")
            audits[result.title] = (f"{_slug(result.title)}/report.html", result.found)
        picture = save_discs([result.disc for result in results], out / "far-field.png")
        page = write_comparison(
            audits,
            out / "index.html",
            title="Half-moons, out to infinity",
            rows=f"the {results[0].found.data.rows} points that the models were trained on",
            picture=picture,
        )
    if not quiet:
        _print(results)
        click.echo(f"\nThe whole plane, out to infinity: {picture}")
        click.echo("All of it side by side: ", nl=False)
    click.echo(page)


def _print(results: list[Audited]) -> None:
    """Print one line per model."""
    from rich.table import Table

    from farfield.cli.console import Output

    table = Table(title="Half-moons: how sure are they infinitely far out?")
    for heading in (
        "model",
        "accuracy\n(training)",
        "accuracy\n(held out)",
        "blind\n(exact)",
        "confidence\nat infinity",
        "finds ring\n(entropy)",
    ):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for result in results:
        circle = next(family for family in result.found.families if family.name == "circle")
        entropy = next(row for row in result.found.detection if row.score == "predictive_entropy")
        low, middle, high = circle.confidence[0], circle.confidence[2], circle.confidence[-1]
        table.add_row(
            result.title,
            f"{_trained(result.found):.3f}",
            f"{result.accuracy:.3f}",
            f"{circle.share:.1%}",
            f"{middle:.3f} ({low:.3f} to {high:.3f})",
            f"AUROC {entropy.auroc.value:.3f}",
        )
    Output(width=max(100, Output().width)).print(table)
    click.echo(
        "Blind: the share of all directions in which the model ends up 99% sure or more; computed "
        "exactly,\nas arcs of the circle. The ring lies three to four times as far out as the data."
    )


def _trained(found: Audit) -> float:
    """Accuracy on the rows of the audit, which are those of the training."""
    return found.health.numbers["accuracy"].value if found.health is not None else float("nan")


def _slug(title: str) -> str:
    return title.lower().replace(" ", "-")
