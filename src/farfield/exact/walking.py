"""What every walk along rays starts with."""

from __future__ import annotations

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
    origins = as_rows(network.rows(origin, "origin"), *kind, "origin")
    directions = as_rows(direction, *kind, "direction")
    for place, column in enumerate(network.columns or ()):
        if column.categories is not None and bool((directions[:, place] != 0).any()):
            name = f"column {place}" if column.name is None else f"column {column.name!r}"
            raise InputError(
                f"direction moves {name}, which holds categories; these are moved between their "
                "values, never scaled: set it to 0 and choose a value in origin"
            )
    if len(origins) != len(directions) and 1 not in (len(origins), len(directions)):
        raise InputError(
            f"origin has {len(origins)} rows and direction {len(directions)}; they must have "
            "equally many, or one of them a single row"
        )
    still = (directions == 0).reshape(len(directions), -1).all(dim=1)
    if bool(still.any()):
        places = torch.nonzero(still).flatten()[:5].tolist()
        raise InputError(
            f"{int(still.sum())} of {len(directions)} directions are zero (rows {places}); a ray "
            "needs a direction, drop these rows"
        )
    return origins, directions


def cut_rows(rows: Tensor, part: slice, count: int) -> Tensor:
    """A part of so many rows, or as many copies of the one row that stands for all."""
    if len(rows) == count:
        return rows[part]
    return rows.expand(part.stop - part.start, *rows.shape[1:])


def keep_memory() -> None:
    """Let the C library keep freed memory instead of returning it to the system each time.

    Allocating and freeing one large block, untouched, raises the limit above which glibc gives
    memory back; without that, every temporary of a walk is paid for in page faults.
    """
    torch.empty(3 << 20, dtype=torch.float64)
