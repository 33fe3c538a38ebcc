"""``farfield train``: any estimator and objective, from a data file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from farfield.cli import options
from farfield.errors import InputError

METHODS = {
    "relu": "ReLUClassifier",
    "ensemble": "EnsembleClassifier",
    "anchored": "AnchoredEnsembleClassifier",
    "mc-dropout": "MCDropoutClassifier",
    "bayes-by-backprop": "BayesByBackpropClassifier",
    "rbf": "RBFClassifier",
    "regressor": "EnsembleRegressor",
}
EXAMPLES = """
\b
Examples:
  farfield train relu --data train.csv --label outcome -o model.safetensors
  farfield train ensemble --data train.parquet --label y --set members=5 -o ensemble.safetensors
  farfield train relu --objective acet --data train.csv --label y --epochs 50 -o acet.safetensors
"""


@click.command(epilog=EXAMPLES)
@click.argument("method", type=click.Choice(list(METHODS)))
@click.option("--data", required=True, help="Training data: CSV, parquet, npz or npy.")
@click.option("--label", required=True, help="Column (or npz key) that holds the labels.")
@click.option("-o", "--out", required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--hidden", default=None, help="Widths of the hidden layers, such as 64,64.")
@click.option(
    "--objective", default=None, help="nll, adversarial, virtual-adversarial, ceda, acet."
)
@click.option("--epochs", type=click.IntRange(min=1), default=None)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Any other parameter.")
@options.reading
@options.seed
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def train(
    method: str,
    data: str,
    label: str,
    out: Path,
    hidden: str | None,
    objective: str | None,
    epochs: int | None,
    settings: tuple[str, ...],
    random_state: int,
    quiet: bool,
    **reading: Any,
) -> None:
    """Train METHOD on a data file and save it, without pickle, to one file.

    The file can be audited (farfield audit FILE --data ...) and loaded (farfield.load).
    """
    import numpy as np

    from farfield import estimators
    from farfield.data import open_table
    from farfield.files import writable
    from farfield.progress import stages

    given = dict(_setting(text) for text in settings)
    given |= {"epochs": epochs} if epochs is not None else {}
    given |= {"objective": objective} if objective is not None else {}
    given |= {"hidden": _widths(hidden)} if hidden is not None else {}
    kind = getattr(estimators, METHODS[method])
    known = kind().get_params()
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise InputError(
            f"{method} has no parameter {', '.join(unknown)}; it has {', '.join(sorted(known))}"
        )
    estimator = kind(**{"random_state": random_state, **given})
    writable(out)
    with stages(False if quiet else None) as progress:
        progress("reading")
        source = open_table(
            data,
            label=label,
            label_kind="number" if method == "regressor" else "class",
            random_state=random_state,
            **reading,
        )
        rows = source.read()
        names = source.class_names
        y = rows.y if names is None else np.asarray(names)[rows.y]
        progress("training")
        estimator.fit(rows.X, y)
    score = estimator.score(rows.X, y)
    # Fitted on an array, so that scikit-learn did not see the names of its columns.
    estimator.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
    estimator.save(out)
    for note in source.notes:
        click.echo(f"farfield: {note}", err=True)
    if not quiet:
        what = "R^2" if method == "regressor" else "accuracy"
        click.echo(f"{out}: {METHODS[method]}, training {what} {score:.4f} on {source.n_rows} rows")


def _setting(text: str) -> tuple[str, Any]:
    """Split NAME=VALUE; the value is JSON where it can be, and text otherwise."""
    name, mark, value = text.partition("=")
    if not (name and mark):
        raise InputError(f"--set takes NAME=VALUE, got {text!r}; such as --set members=5")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _widths(text: str) -> tuple[int, ...]:
    """Read widths separated by commas."""
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise InputError(f"--hidden takes widths such as 64,64, got {text!r}") from None
