"""What every walk along rays starts with."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.graph.network import Network
from farfield.graph.rows import as_rows


def check_rays(
    network: Network, origin: Any, direction: Any, dtype: torch.dtype | None = None
) -> tuple[Tensor, Tensor]:
    """Check origins and directions, and that they broadcast against each other.

    They come in the network's own floating-point type unless told otherwise.
    """
    if not isinstance(network, Network):
        raise InputError(
            f"expected a captured network, got {type(network).__name__}; capture the model first: "
            "network = farfield.capture(model, example)"
        )
    kind = (network.input_shape, dtype or network.dtype, network.device)
    origins = network.rows(origin, "origin")
    if network.columns is not None or origins.dtype != kind[1]:
        # Gaps that a table may have are no place for a ray to begin.
        origins = as_rows(origins, *kind, "origin")
    directions = as_rows(direction, *kind, "direction")
    for place, column in enumerate(network.columns or ()):
        if column.categories is not None and bool((directions[:, place] != 0).any()):
            name = f"column {place}" if column.name is None else f"column {column.name!r}"
            raise InputError(
                f"direction moves {name}, which holds categories; these are moved between their "
                "values, never scaled: set it to 0 and choose a value in origin"
            )
    starts, ways = origins.shape[0], directions.shape[0]
    if starts != ways and 1 not in (starts, ways):
        raise InputError(
            f"origin has {starts} rows and direction {ways}; they must have equally many, or one "
            "of them a single row"
        )
    # Most directions move everything, which is seen at a glance.
    if not bool(directions.all()) and len(still := _still(directions)):
        raise InputError(
            f"{len(still)} of {ways} directions are zero (rows {still[:5].tolist()}); a ray needs "
            "a direction, drop these rows"
        )
    return origins, directions


def _still(directions: Tensor) -> Tensor:
    """Which rows are zero."""
    return torch.nonzero(~directions.flatten(1).any(dim=1)).flatten()


def cut_rows(rows: Tensor, part: slice, count: int) -> Tensor:
    """A part of so many rows, or as many copies of the one row that stands for all."""
    if rows.shape[0] == count:
        return rows if part == slice(0, count) else rows[part]
    return rows.expand(part.stop - part.start, *rows.shape[1:])


@cache
def keep_memory() -> None:
    """Let the C library keep freed memory instead of returning it to the system each time.

    Allocating and freeing one large block, untouched, raises the limit above which glibc gives
    memory back; without that, every temporary of a walk is paid for in page faults.
    """
    torch.empty(3 << 20, dtype=torch.float64)
