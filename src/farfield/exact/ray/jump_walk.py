"""Walk programs that jump along rays: stretch by stretch, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

from farfield.errors import NumericalOverflow
from farfield.exact.cells import walk_cells
from farfield.exact.jets import Jet
from farfield.exact.piecewise import free_rows, output_classes
from farfield.exact.ray.bend import Bend
from farfield.exact.ray.broken import Broken, merged
from farfield.exact.ray.jump_domain import JumpDomain
from farfield.exact.ray.spans import Spans
from farfield.graph.network import Network
from farfield.graph.program import Program
from farfield.graph.rules import RowFunction, Steps

# Fewer cells than this are never cut apart, however wide a layer is.
LEAST_CELLS = 64
T = TypeVar("T")
# Cutting cells at breaks and placing each number between its breaks, in products; measured on
# boosted trees, where it took some three times as long as the walk through the trees.
PER_NUMBER = 1500


class JumpWalk:
    """Follow rays through one instance of a network that jumps.

    Args:
        network: The network.
        program: The program of the instance.
        constants: Its weights, in float64.
        clip: Applied to the input first, if given.
        budget: How many numbers the values of one layer may hold at a time.

    Attributes:
        cells: How many cells were evaluated so far.
    """

    def __init__(
        self,
        network: Network,
        program: Program,
        constants: Mapping[str, Tensor],
        clip: Bend | None,
        budget: int,
    ) -> None:
        self.network = network
        self.program, self.constants, self.clip = free_rows(program), constants, clip
        self.together = max(LEAST_CELLS, budget // (2 * program.width))
        inputs = math.prod(program.input_shape)
        per_ray = max(3 * inputs, sum(len(each.breaks) for each in _found(program, Steps)))
        if clip is not None:
            per_ray += 8 * inputs * inputs
        self.size = max(1, budget // (4 * per_ray))
        self.cells = 0

    @cached_property
    def work(self) -> float:
        """About how many products of weights and values an evaluation of one row is worth."""
        made = sum(math.prod(step.shape[1:]) for step in self.program.steps if step.shape)
        return float(
            PER_NUMBER * made + sum(each.work for each in _found(self.program, RowFunction))
        )

    def follow(self, origins: Tensor, directions: Tensor, stops: Tensor) -> Broken:
        """The outputs along whole rays, a number of rays at a time."""
        rays = len(stops)
        parts = []
        for first in range(0, rays, self.size):
            stop = stops[first : first + self.size]
            starts, ways = (
                rows.expand(rays, *rows.shape[1:])[first : first + self.size]
                for rows in (origins, directions)
            )
            parts.append(self.stretch(starts, ways, Spans.of(stop), len(stop))[0])
        return Broken.join(parts)

    def stretch(
        self, origins: Tensor, directions: Tensor, spans: Spans, rays: int
    ) -> tuple[Broken, Tensor]:
        """The outputs along stretches of rays, which ``spans`` tell; and the cells of each ray."""
        found = list(self.blocks(origins, directions, spans))
        cells = Spans.join([each for each, _ in found])
        out = torch.cat([each for _, each in found], dim=1)
        return self._broken(cells, out, rays), torch.bincount(cells.ray, minlength=rays)

    def stretches(self, origins: Tensor, directions: Tensor, stops: Tensor) -> Iterator[Broken]:
        """The outputs along a single ray, some pieces at a time and in order."""
        spans = Spans.of(stops)
        held, values = spans[:0], None
        for cells, out in self.blocks(origins, directions, spans):
            every = out if values is None else torch.cat([values, out], dim=1)
            held, values = merged(Spans.join([held, cells]), every)
            # Whether anything changes at the last cell is not known before the next.
            last = int(torch.nonzero(held.is_place[:-1]).amax()) if len(held) > 1 else 0
            if last > 0:
                yield self._broken(held[: last + 1], values[:, : last + 1], 1)
                held, values = held[last:], values[:, last:]
        if values is not None:
            yield self._broken(held, values, 1)

    def _broken(self, cells: Spans, out: Tensor, rays: int) -> Broken:
        return Broken.of(cells, out, rays, shares=self.network.link == "identity")

    def blocks(
        self, origins: Tensor, directions: Tensor, spans: Spans
    ) -> Iterator[tuple[Spans, Tensor]]:
        """The outputs on cells, ``(2, cells, classes)``, some cells at a time and in order."""
        start = torch.stack([directions[spans.ray], origins[spans.ray]])
        value = Jet(start.flatten(0, 1))
        if self.clip is not None:
            whole = JumpDomain(spans)
            value = Jet(whole.current(whole.bend(value, self.clip)).flatten(0, 1))
            spans = whole.cells

        def make(cells: Spans, _: int) -> JumpDomain:
            return JumpDomain(cells, self.together)

        for domain, out in walk_cells(self.program, value, self.constants, spans, make):
            self.cells += domain.rows
            yield domain.cells, self._classes(out)

    def _classes(self, out: Tensor) -> Tensor:
        classes = output_classes(self.network, out)
        if not bool(torch.isfinite(classes).all()):
            raise NumericalOverflow(
                "a logit left the range of float64; bring inputs and weights to a moderate scale"
            )
        return classes


def _found(program: Program, kind: type[T]) -> Iterator[T]:
    """The steps, or functions of rows, of a program."""
    for step in program.steps:
        yield from (each for each in step.args if isinstance(each, kind))
