"""``farfield demo``: half-moons, one network and one ensemble, seen all the way to infinity."""

from __future__ import annotations

from pathlib import Path

import click

DIRECTIONS = 1440
FAR_AWAY = 100.0


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("farfield-demo"),
    show_default=True,
    help="Folder for the picture.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of data and training.")
@click.option("--quiet", is_flag=True, help="Print nothing but the picture's path.")
def demo(out: Path, seed: int, quiet: bool) -> None:
    """Train two small models on half-moons and show their far field.

    One ReLU network, and an ensemble of ten. Prints what they say infinitely far out in eight
    directions, and writes far-field.png: the whole plane as a disc whose rim is infinity.
    """
    from farfield.cli.moons import far_field_of_moons
    from farfield.report.console import compass_table
    from farfield.report.disc import save_discs

    def say(text: str) -> None:
        if not quiet:
            click.echo(text)

    say("Training one network and an ensemble of ten on 500 half-moon points ...")
    results = far_field_of_moons(seed, DIRECTIONS, FAR_AWAY)
    for result in results:
        say(f"\n{result.title}: validation accuracy {result.accuracy:.3f}")
        say(compass_table(result))
        say(result.verdict)
    picture = save_discs(results, out / "far-field.png")
    click.echo(f"{picture}" if quiet else f"\nThe whole plane, out to infinity: {picture}")
