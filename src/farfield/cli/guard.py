"""``farfield guard``: the same model, with a promise that can be checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from farfield.cli import options
from farfield.errors import InputError
from farfield.formats import named, suffixes
from farfield.levels import EPSILON, KEEP, RADII

EXAMPLES = """
\b
Examples:
  farfield guard model.onnx --data train.csv --label outcome -o safe.onnx
  farfield guard model.onnx --data train.csv --radii 2 --epsilon 0.05 -o safe.pt2
  farfield guard forest.onnx --data train.csv --envelope --keep 0.999 -o safe.onnx
  farfield guard ensemble/ --data train.parquet -o safe.safetensors
"""
BESIDE = (
    "The model's own outputs stay as they are. What follows is true of the output guarded; rows "
    "that are unchanged in it are those that are inside."
)


@click.command(epilog=EXAMPLES)
@click.argument("model", nargs=-1, required=True)
@click.option("--data", required=True, help="Training data: CSV, parquet, npz, npy or IDX images.")
@click.option("-o", "--out", required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--label", help="Column (or npz key) that holds the labels; guessed aloud.")
@click.option("--radii", default=RADII, show_default=True, help="Data radii of the promise.")
@click.option("--epsilon", default=EPSILON, show_default=True, help="No class above 1/K + epsilon.")
@click.option("--keep", default=KEEP, show_default=True, help="Share of new rows left as they are.")
@click.option("--envelope", is_flag=True, help="Leave outputs alone; add inside, distance, ...")
@options.reading
@options.allow_code
@options.seed
@click.option("--json", "as_json", is_flag=True, help="Print the certificate as JSON.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def guard(
    model: tuple[str, ...],
    data: str,
    out: Path,
    radii: float,
    epsilon: float,
    keep: float,
    envelope: bool,
    as_json: bool,
    quiet: bool,
    **reading: Any,
) -> None:
    """Guard MODEL: same classes, same numbers near the data, no confidence far away, by proof.

    The suffix of the output decides its format: .onnx and .pt2 run anywhere, .safetensors can be
    loaded again (farfield.guard.load) and audited. The certificate travels inside of the file.

    With --envelope the model's own outputs stay as they are, to the bit, and the outputs inside,
    distance, view, column and guarded are added to them; --keep is then the share of new rows that
    are to be inside, so one minus the rate of false alarms.
    """
    from farfield.cli.guarding import write_guard
    from farfield.files import writable
    from farfield.progress import stages

    if out.suffix not in suffixes("guard"):
        raise InputError(f"cannot tell the format of {out}; name it {named('guard')}")
    if envelope and out.suffix == ".safetensors":
        raise InputError("an envelope is a model that others run; name the output .onnx or .pt2")
    writable(out)
    promise = {"radii": radii, "epsilon": epsilon, "keep": keep}
    with stages(False if quiet or as_json else None) as progress:
        certificate, notes = write_guard(
            list(model), data, out, progress, promise, envelope=envelope, **reading
        )
    for note in notes:
        click.echo(f"farfield: {note}", err=True)
    if as_json:
        click.echo(certificate.to_json())
    elif not quiet:
        said = f"{BESIDE} " if envelope else ""
        click.echo(f"{said}{certificate.statement()}\n\n{out}")
