"""Figures without global state: made, drawn on, written whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from farfield.errors import MissingDependency
from farfield.files import replacing

# Told apart by people who see colours differently, on white and on purple.
CLASSES = ("#d95f02", "#1b9e77", "#e6ab02", "#e7298a", "#66a61e", "#7570b3", "#a6761d", "#666666")
DOTS_PER_INCH = 150


def new_figure(width: float, height: float) -> Any:
    """Make an empty figure of a size in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency(
            "pictures need matplotlib; install it with: pip install 'farfield[plots]'"
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Any, path: Path, **options: Any) -> Path:
    """Write a figure; the suffix chooses the format, and matplotlib takes other options."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=DOTS_PER_INCH, **options)
    return path
