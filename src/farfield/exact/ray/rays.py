"""Rays as users give them: checked, and turned into traces that a walk can start from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.exact.ray.bend import Bend
from farfield.exact.ray.box import Box
from farfield.exact.ray.knots import Grid, Trace
from farfield.exact.walking import check_rays
from farfield.graph.network import Network

Leaving = Literal["stop", "project"]


@dataclass(frozen=True, eq=False)
class Rays:
    """``origin + t * direction`` for ``0 <= t <= stop``, clipped unit by unit if asked.

    Attributes:
        origins: ``(rays, *input)``, or one row for all.
        directions: ``(rays, *input)``, or one row for all.
        stops: ``(rays,)`` where they end.
        clip: What is applied to the input first.
    """

    origins: Tensor
    directions: Tensor
    stops: Tensor
    clip: Bend | None

    def __len__(self) -> int:
        return len(self.stops)

    def row(self, ray: int) -> tuple[Tensor, Tensor]:
        """The origin and the direction of one ray, one row each."""
        origin, direction = (
            rows if len(rows) == 1 else rows[ray : ray + 1]
            for rows in (self.origins, self.directions)
        )
        return origin, direction

    def starts(self, size: int) -> Iterator[tuple[int, Trace]]:
        """The inputs along ``size`` rays at a time, with the index of the first.

        There is a knot at the origin, and one at the end or the germ of what follows.
        """
        for first in range(0, len(self), size):
            stop = self.stops[first : first + size]
            origin, direction = (
                rows.expand(len(self), *rows.shape[1:])[first : first + size]
                for rows in (self.origins, self.directions)
            )
            open_ = torch.isinf(stop)
            count = 1 + ((stop > 0) & ~open_).long()
            starts = torch.cat([count.new_zeros(1), count.cumsum(0)])
            ray = torch.arange(len(stop), device=stop.device).repeat_interleave(count)
            t = stop[ray]
            t[starts[:-1]] = 0.0
            knots = origin[ray] + t.reshape(-1, *[1] * (origin.ndim - 1)) * direction[ray]
            parts = torch.cat([direction[open_], knots, origin[open_]])
            yield first, Trace(parts, Grid(t, starts, open_))


def rays_of(
    network: Network, origin: Any, direction: Any, stop: Any, box: Box | None, leaving: Leaving
) -> Rays:
    """Check origins, directions and ends; say where rays stop and how inputs are clipped."""
    origins, directions = check_rays(network, origin, direction, torch.float64)
    stops = _stops(stop, max(len(origins), len(directions)), directions)
    if leaving not in ("stop", "project"):
        raise InputError(f"leaving must be 'stop' or 'project', got {leaving!r}")
    if box is None:
        return Rays(origins, directions, stops, None)
    if leaving == "stop":
        ends = torch.minimum(stops, box.exit(origins, directions))
        return Rays(origins, directions, ends, None)
    box.check(origins, directions)
    low, high = box.bounds(network.input_shape, origins)
    return Rays(origins, directions, stops, Bend.clip(low, high))


def _stops(stop: Any, rays: int, like: Tensor) -> Tensor:
    try:
        stops = torch.as_tensor(stop, dtype=torch.float64, device=like.device).detach()
        stops = stops.expand(rays).clone()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"stop must be one number, or one for each of the {rays} rays: {error}"
        ) from error
    if not bool((stops >= 0).all()):
        raise InputError(
            f"stop must not be negative or NaN, got {stops[~(stops >= 0)][:5].tolist()}; turn the "
            "direction round to look the other way"
        )
    return stops
