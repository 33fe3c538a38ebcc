"""``farfield schema``: a schema to start from."""

from __future__ import annotations

from pathlib import Path

import click

EXAMPLES = """
\b
Examples:
  farfield schema --data train.csv --label outcome -o schema.toml
  farfield audit model.onnx --data train.csv --schema schema.toml
"""


@click.command(epilog=EXAMPLES)
@click.option("--data", required=True, help="Training data: CSV, parquet, npz or npy.")
@click.option("--label", help="Column that holds the labels; one called so if not given.")
@click.option("--delimiter", help="What separates columns of CSV; told from the file if not given.")
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write it; printed if not given.",
)
def schema(data: str, label: str | None, delimiter: str | None, out: Path | None) -> None:
    """Propose a schema from data: kinds, natural bounds, units, codes that may mean missing.

    What is certain is written out, what only looks so is a comment. Correct it, then pass it to
    audit, guard and train with --schema.
    """
    from farfield.cli.terminal import reader_may_leave
    from farfield.data import propose_schema
    from farfield.files import replacing

    text = propose_schema(data, label=label, delimiter=delimiter)
    if out is None:
        with reader_may_leave():
            click.echo(text, nl=False)
        return
    with replacing(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    described = text.count("\n[features.")
    click.echo(f"{out}: {described} columns described; read it before you use it.")
