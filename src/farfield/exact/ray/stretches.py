"""One ray of one network, stretch by stretch: for rays with more pieces than memory would hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.exact.piecewise import require_piecewise_affine
from farfield.exact.ray.box import Box
from farfield.exact.ray.crossing import proven_crossing
from farfield.exact.ray.jump_walk import JumpWalk
from farfield.exact.ray.knots import Grid, Trace
from farfield.exact.ray.line import inside, walks, with_classes
from farfield.exact.ray.line_walk import BUDGET, LineWalk
from farfield.exact.ray.lines import Line, Lines
from farfield.exact.ray.rays import Leaving, Rays, rays_of
from farfield.exact.ray.skipping import Skipper, settled, single_is_single, window
from farfield.exact.ray.window_walk import WindowWalk
from farfield.graph.network import Network
from farfield.graph.program import Program
from farfield.graph.rules import RULES

# Networks with more units than this have rays with so many pieces that skipping pays.
MANY_UNITS = 1 << 14


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
    require_piecewise_affine(network, "a walk along a ray")
    rays = rays_of(network, origin, direction, stop, box, leaving)
    _check_single(network, rays, "iterate_pieces()")
    ((_, walk),) = walks(network, rays.clip, budget)
    if isinstance(walk, JumpWalk):
        return _jumping(walk, rays)
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


def _jumping(walk: JumpWalk, rays: Rays) -> Iterator[Line]:
    """The same for a network that jumps."""
    blocks = walk.stretches(rays.origins, rays.directions, rays.stops)
    while True:
        with torch.no_grad():
            found = next(blocks, None)
        if found is None:
            return
        yield Line((found,))


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
        pieces: How many pieces were followed.
        forward_passes: What the search cost, in evaluations of the network at one point.
        skipped: How many windows were skipped because they provably hold no answer.
        walked: How many windows were followed piece by piece.
        bounds: With ``certify``: it is proven that the confidence is not reached before the first,
            and that it is by the second; infinite if that is not proven.
    """

    t: float
    pieces: int
    forward_passes: float
    skipped: int = 0
    walked: int = 1
    bounds: tuple[float, float] | None = None


def first_reaching(
    network: Network,
    origin: Any,
    direction: Any,
    confidence: float,
    stop: Any = float("inf"),
    *,
    box: Box | None = None,
    leaving: Leaving = "stop",
    skip: bool | None = None,
    certify: bool = False,
    budget: int = BUDGET,
) -> FirstReaching:
    """Find the smallest ``t`` with a confidence on one ray, and look no further.

    As exact as :meth:`Lines.first_reaching`, for rays with too many pieces to know them all:
    pieces come in order, and the search ends in the first window that has the answer.

    With ``skip``, or by default in networks with more than 16,384 units, windows are skipped over
    which bounds on all logits prove that there is no answer; the answer is the same. With
    ``certify`` no window is skipped, and ``bounds`` are proven to hold the answer.

    ``confidence`` lies strictly between 0 and 1; other arguments are those of
    :func:`farfield.along`, for a single ray and a single instance.
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie strictly between 0 and 1, got {confidence}")
    require_piecewise_affine(network, "a walk along a ray", continuous=bool(skip))
    rays = rays_of(network, origin, direction, stop, box, leaving)
    _check_single(network, rays, "first_reaching()")
    if certify:
        from farfield.exact.ray.proof import (
            check_provable,  # rational arithmetic takes a while to load
        )

        check_provable(network, rays.clip is not None)
        if skip:
            raise InputError("windows that are skipped are not proven; drop skip or certify")
    ((_, walk),) = walks(network, rays.clip, budget)
    if isinstance(walk, JumpWalk):
        return _among_jumps(walk, rays, confidence)
    search = _Search(network, walk, rays, confidence)
    with torch.no_grad():
        once = search.once()
        if certify:
            return search.proven(once)
        reliable = single_is_single(network.device)
        if skip and not reliable:
            raise InputError(
                "skip=True needs plain single precision; use a network on the CPU, and "
                'torch.set_float32_matmul_precision("highest")'
            )
        if skip is None:
            skip = reliable and kinks(walk.program) > MANY_UNITS
        return search.skipping(once) if skip else search.plainly(once)


def _among_jumps(walk: JumpWalk, rays: Rays, confidence: float) -> FirstReaching:
    """Look at the pieces of a network that jumps; each costs one evaluation, and so do places."""
    pieces, found = 0, float("inf")
    for stretch in _jumping(walk, rays):
        pieces += len(stretch)
        found = float(Lines(stretch.traces, rays.stops).first_reaching(confidence))
        if found < float("inf"):
            break
    return FirstReaching(found, pieces, float(walk.cells))


def kinks(program: Program) -> int:
    """How many numbers of a row go through functions with kinks."""
    kinds = ("piecewise affine", "largest")
    return sum(
        math.prod(step.shape[1:])
        for step in program.steps
        if not step.constant and RULES[step.target].kind in kinds and step.shape is not None
    )


class _Search:
    """The search on one ray, with or without skipping."""

    def __init__(self, network: Network, walk: LineWalk, rays: Rays, confidence: float) -> None:
        self.network, self.walk, self.rays = network, walk, rays
        self.confidence = confidence
        self.pieces = 0

    def once(self) -> float:
        """How many products of weights and values one forward pass forms."""
        ((_, start),) = self.rays.starts(1)
        list(self.walk.windows(_point(start)))
        products, self.walk.domain.products = self.walk.domain.products, 0.0
        return max(1.0, products)

    def plainly(self, once: float) -> FirstReaching:
        """Follow all pieces."""
        ((_, start),) = self.rays.starts(1)
        found = self._follow(start)
        return FirstReaching(found, self.pieces, self.walk.domain.products / once)

    def proven(self, once: float) -> FirstReaching:
        """Follow all pieces, then prove them and what they say."""
        ((_, start),) = self.rays.starts(1)
        edges: list[Tensor] = []
        found = float("inf")
        for stretch in _stretches(self.network, self.walk, start):
            self.pieces += len(stretch)
            edges.append(stretch.edges if not edges else stretch.edges[1:])
            found = float(Lines(stretch.traces, self.rays.stops).first_reaching(self.confidence))
            if found < float("inf"):
                break
        followed = torch.cat(edges)
        if found < float("inf"):
            followed = followed[: int(torch.searchsorted(followed, found, right=True)) + 1]
        from farfield.exact.ray.proof import LineProver

        prover = LineProver(self.network, self.walk.program, self.walk.constants)
        proof = prover.prove(*self.rays.row(0), followed)
        bounds = proven_crossing(proof, followed, found, self.confidence)
        passes = self.walk.domain.products / once
        return FirstReaching(found, self.pieces, passes, bounds=bounds)

    def skipping(self, once: float) -> FirstReaching:
        """Follow the pieces of those windows only that may hold the answer."""
        window_walk = WindowWalk(self.walk.program, self.walk.constants, self.rays.clip)
        skipper = Skipper(self.network, window_walk, self.rays, self.confidence)
        end, walked = settled(self.network, self.rays), 0
        low, stop, found = 0.0, float(self.rays.stops[0]), float("inf")
        while low < end and found == float("inf"):
            low = skipper.advance(low, end)
            if skipper.reached < low:
                walked += 1
                found = self._follow(window(self.rays, skipper.reached, low))
        if found == float("inf") and (stop == float("inf") or stop == 0):
            walked += 1
            found = self._follow(window(self.rays, low, stop))
        products = self.walk.domain.products + window_walk.domain.products
        return FirstReaching(found, self.pieces, products / once, skipper.skipped, walked)

    def _follow(self, start: Trace) -> float:
        """Follow the pieces of a stretch until the confidence is reached."""
        for stretch in _stretches(self.network, self.walk, start):
            found = float(Lines(stretch.traces, self.rays.stops).first_reaching(self.confidence))
            self.pieces += len(stretch)
            if found < float("inf"):
                return found
        return float("inf")


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
