"""Options that several commands share: how a table is read, and what may run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Command = Callable[..., Any]

_READING = (
    click.option("--schema", type=click.Path(path_type=Path), help="TOML: bounds, units, kinds."),
    click.option("--categorical", multiple=True, metavar="COLUMN", help="A column of categories."),
    click.option("--ignore", multiple=True, metavar="COLUMN", help="A column to leave out."),
    click.option(
        "--delimiter", help="What separates columns of CSV; told from the file if not given."
    ),
    click.option(
        "--impute",
        type=click.Choice(["mean", "median", "most_frequent"]),
        help="Fill missing values.",
    ),
)


def reading(command: Command) -> Command:
    """Add the options of :func:`farfield.data.open_data`."""
    for option in reversed(_READING):
        command = option(command)
    return command


allow_code = click.option(
    "--allow-code", is_flag=True, help="Let MODEL be package.module:function; runs it."
)
seed = click.option("--seed", "random_state", default=0, show_default=True, metavar="INTEGER")
config = click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Budgets and accepted findings; farfield.toml if it is here.",
)


def policy(given: Path | None) -> Path | None:
    """The file of budgets: the one that was named, or the one that is here."""
    from farfield.audit.policy import NAME

    here = Path(NAME)
    return given if given is not None else here if here.is_file() else None
