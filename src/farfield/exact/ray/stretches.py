"""One ray of one network, stretch by stretch: for rays with more pieces than memory would hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from farfield.errors import InputError
from farfield.exact.piecewise import require_piecewise_affine
from farfield.exact.ray.box import Box
from farfield.exact.ray.knots import Grid, Trace
from farfield.exact.ray.line import inside, walks, with_classes
from farfield.exact.ray.line_walk import BUDGET, LineWalk
from farfield.exact.ray.lines import Line, Lines
from farfield.exact.ray.rays import Leaving, Rays, rays_of
from farfield.graph.network import Network


def iterate_pieces(
    network: Network,
    origin: Any,
    direction: Any,
    stop: Any = float("inf"),
    *,
    box: Box | None = None,
    leaving: Leaving = "stop",
    budget: int = BUDGET,
) -> Iterator[Line]:
    """Walk along one ray of one network, for rays with more pieces than memory would hold.

    Arguments are those of :func:`farfield.along`, for a single ray and a single instance.

    Yields:
        Stretches of the ray in order. The last edge of one is the first edge of the next, and
        both are edges of pieces; the last stretch ends at ``stop``, or without an end.
    """
    require_piecewise_affine(network, "a walk along a ray", continuous=True)
    rays = rays_of(network, origin, direction, stop, box, leaving)
    _check_single(network, rays, "iterate_pieces()")
    ((_, walk),) = walks(network, rays.clip, budget)
    ((_, start),) = rays.starts(1)
    return _stretches(network, walk, start)


def _stretches(network: Network, walk: LineWalk, start: Trace) -> Iterator[Line]:
    """Put windows together again where they were cut inside a piece."""
    kept: Trace | None = None
    windows = walk.windows(start)
    while True:
        with torch.no_grad():
            window = next(windows, None)
        if window is None:
            return
        part = inside(with_classes(network, window, 0))
        kept = part if kept is None else _after(kept, part)
        if len(kept.grid.t) > 1 or not window.high:
            yield Line((kept,))


def _after(kept: Trace, part: Trace) -> Trace:
    """The last knot of one stretch, then the next stretch."""
    t = torch.cat([kept.grid.t[-1:], part.grid.t])
    knots = torch.cat([kept.knots[-1:], part.knots])
    grid = Grid(t, part.grid.starts.new_tensor([0, len(t)]), part.grid.open)
    return Trace(torch.cat([part.slope, knots, part.intercept]), grid)


@dataclass(frozen=True)
class FirstReaching:
    """Where one ray first reaches a confidence.

    Attributes:
        t: The smallest such ``t``; infinite if there is none.
        pieces: How many pieces were looked at.
        forward_passes: What the search cost, in evaluations of the network at one point.
    """

    t: float
    pieces: int
    forward_passes: float


def first_reaching(
    network: Network,
    origin: Any,
    direction: Any,
    confidence: float,
    stop: Any = float("inf"),
    *,
    box: Box | None = None,
    leaving: Leaving = "stop",
    budget: int = BUDGET,
) -> FirstReaching:
    """Find the smallest ``t`` with a confidence on one ray, and look no further.

    As exact as :meth:`Lines.first_reaching`, for rays with too many pieces to know them all:
    pieces come in order, and the search ends in the first window that has the answer. Other
    arguments are those of :func:`farfield.along`, for a single ray and a single instance.
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie strictly between 0 and 1, got {confidence}")
    require_piecewise_affine(network, "a walk along a ray", continuous=True)
    rays = rays_of(network, origin, direction, stop, box, leaving)
    _check_single(network, rays, "first_reaching()")
    ((_, walk),) = walks(network, rays.clip, budget)
    ((_, start),) = rays.starts(1)
    with torch.no_grad():
        list(walk.windows(_point(start)))
    once, walk.domain.products = walk.domain.products, 0.0
    found, pieces = float("inf"), 0
    for stretch in _stretches(network, walk, start):
        found = float(Lines(stretch.traces, rays.stops).first_reaching(confidence))
        pieces += len(stretch)
        if found < float("inf"):
            break
    return FirstReaching(found, pieces, walk.domain.products / max(1.0, once))


def _point(start: Trace) -> Trace:
    """The origin of a single ray alone."""
    grid = start.grid
    one = Grid(grid.t[:1], grid.starts.new_tensor([0, 1]), torch.zeros_like(grid.open))
    return Trace(start.knots[:1], one)


def _check_single(network: Network, rays: Rays, name: str) -> None:
    if len(rays) != 1 or network.instances != 1:
        raise InputError(
            f"{name} follows one ray of one network, got {len(rays)} rays and "
            f"{network.instances} instances; use along(), or a loop"
        )
