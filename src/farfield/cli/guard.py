"""``farfield guard``: the same model, with a promise that can be checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from farfield.errors import InputError

EXAMPLES = """
\b
Examples:
  farfield guard model.onnx --data train.csv --label outcome -o safe.onnx
  farfield guard model.onnx --data train.csv --radii 2 --epsilon 0.05 -o safe.pt2
  farfield guard ensemble/ --data train.parquet -o safe.safetensors
"""
SUFFIXES = (".onnx", ".pt2", ".safetensors")
# Rows that a guard is fitted on at most; more are taken as a sample.
MOST_ROWS = 200_000


@click.command(epilog=EXAMPLES)
@click.argument("model", nargs=-1, required=True)
@click.option("--data", required=True, help="Training data: CSV, parquet, npz, npy or IDX images.")
@click.option("-o", "--out", required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--label", help="Column (or npz key) that holds the labels; not needed.")
@click.option("--radii", default=3.0, show_default=True, help="Data radii of the promise.")
@click.option("--epsilon", default=0.01, show_default=True, help="No class above 1/K + epsilon.")
@click.option("--prototypes", default=64, show_default=True, help="Balls that cover the data.")
@click.option("--schema", type=click.Path(path_type=Path), help="TOML: bounds, units, kinds.")
@click.option("--categorical", multiple=True, metavar="COLUMN", help="A column of categories.")
@click.option("--impute", type=click.Choice(["mean", "median", "most_frequent"]))
@click.option("--allow-code", is_flag=True, help="Let MODEL be package.module:function; runs it.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the certificate as JSON.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def guard(
    model: tuple[str, ...],
    data: str,
    out: Path,
    label: str | None,
    radii: float,
    epsilon: float,
    prototypes: int,
    schema: Path | None,
    categorical: tuple[str, ...],
    impute: Any,
    allow_code: bool,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Guard MODEL: same classes, same numbers near the data, no confidence far away, by proof.

    The suffix of the output decides its format: .onnx and .pt2 run anywhere, .safetensors can be
    loaded again (farfield.guard.load) and audited. The certificate travels inside of the file.
    """
    from farfield.audit.models import load_model
    from farfield.audit.sources import open_data
    from farfield.cli.progress import stages
    from farfield.guard.protect import guard as protect

    if out.suffix not in SUFFIXES:
        raise InputError(f"cannot tell the format of {out}; name it .onnx, .pt2 or .safetensors")
    with stages(quiet or as_json) as progress:
        progress("reading", 0.0)
        source = open_data(
            data,
            label=label,
            schema=schema,
            categorical=categorical,
            impute=impute,
            random_state=seed,
        )
        chosen = model[0] if len(model) == 1 else list(model)
        loaded = load_model(chosen, source.sample(1).X, allow_code=allow_code)
        network = loaded.network
        source = source.fit_to(
            int(source.summary.mean.size),
            n_classes=network.classes,
            feature_names=loaded.feature_names,
            class_labels=loaded.class_labels,
        )
        rows = source.sample(MOST_ROWS, random_state=seed)
        progress("guarding", 0.0)
        blocks = [list(each.features) for each in source.columns if each.kind == "categorical"]
        safe = protect(
            network,
            rows.X,
            radii=radii,
            epsilon=epsilon,
            prototypes=prototypes,
            labels=rows.y,
            categorical=blocks or None,
            random_state=seed,
        )
        progress("writing", 0.0)
        write = {".onnx": safe.to_onnx, ".pt2": safe.to_pt2, ".safetensors": safe.save}
        write[out.suffix](out)
    if as_json:
        click.echo(safe.certificate.to_json())
    elif not quiet:
        click.echo(f"{safe.certificate.statement()}\n\n{out}")
