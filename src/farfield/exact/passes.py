"""Budgets in forward passes instead of seconds: what a proof may cost beside the model itself."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import torch

from farfield.errors import InputError
from farfield.graph.network import Network, chunks

# Rows that are timed at most, and how often: the quickest counts.
ROWS, TURNS = 64, 2


@dataclass(frozen=True, slots=True)
class Passes:
    """A budget of so many forward passes for each ray, timed on the machine at hand.

    >>> Passes(60)
    Passes(count=60)
    """

    count: float


def seconds_of(budget: float | Passes, network: Network, rays: int) -> float:
    """A budget in seconds.

    Raises:
        InputError: If it is not a number, or negative.
    """
    count = budget.count if isinstance(budget, Passes) else budget
    if isinstance(count, bool) or not isinstance(count, (int, float)) or not count >= 0:
        raise InputError(
            "budget must be a number of seconds, or farfield.Passes(n) for n forward passes for "
            f"each ray, zero or more; got {budget!r}"
        )
    return count * rays * _forward_seconds(network, rays) if isinstance(budget, Passes) else count


def _forward_seconds(network: Network, rays: int) -> float:
    """What one row costs in a forward pass of as many rows as are walked together."""
    size = next(chunks(min(rays, ROWS), network.groups[0], factor=1)).stop
    rows = torch.zeros(size, *network.input_shape, dtype=network.dtype, device=network.device)
    best: float = float("inf")
    with torch.no_grad():
        for _ in range(TURNS):
            start = perf_counter()
            for group in network.groups:
                group.forward(rows)
            best = min(best, perf_counter() - start)
    each: float = best / size
    return each
