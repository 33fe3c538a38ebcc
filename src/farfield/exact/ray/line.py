"""Follow a network along whole rays: every breakpoint, and the affine pieces between.

The numbers that are usually found by bisection along a ray (Hein et al. 2019, Table 2) become
exact: the *first* place with a confidence, not one that a bisection happens to end at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from farfield.errors import NumericalOverflow
from farfield.exact.piecewise import has_jumps, require_piecewise_affine
from farfield.exact.ray.bend import Bend
from farfield.exact.ray.box import Box
from farfield.exact.ray.broken import Broken
from farfield.exact.ray.jump_walk import JumpWalk
from farfield.exact.ray.knots import Grid, Trace
from farfield.exact.ray.line_walk import BUDGET, LineWalk, Window
from farfield.exact.ray.lines import Lines
from farfield.exact.ray.rays import Leaving, Rays, rays_of
from farfield.exact.walking import keep_memory
from farfield.graph.network import Network

if TYPE_CHECKING:
    from farfield.exact.ray.proof import LineProof


def along(
    network: Network,
    origin: Any,
    direction: Any,
    stop: Any = float("inf"),
    *,
    box: Box | None = None,
    leaving: Leaving = "stop",
    certify: bool = False,
    budget: int = BUDGET,
) -> Lines:
    """Restrict a network to rays ``origin + t * direction``, ``0 <= t <= stop``, exactly.

    A *breakpoint* is a ``t`` strictly between 0 and ``stop`` at which a decision of the network
    changes: a unit passes from one of its pieces to another, or a maximum changes hands. Between
    breakpoints every logit is affine in ``t``; the last piece of a ray without an end is its germ
    at infinity. Computed in float64, whatever the network's own type.

    Trees, and other models that jump, have breakpoints where their output changes. There, logits
    are the model's own, which those on either side need not be.

    Args:
        network: From :func:`farfield.capture`, of piecewise-affine operations and steps.
        origin: ``(rays, *input)`` or one row for all rays.
        direction: ``(rays, *input)`` or one row for all rays; not zero.
        stop: Where rays end: one number, or one per ray; infinite unless told otherwise.
        box: The inputs that can occur, if they are bounded.
        leaving: What happens where a ray leaves the box: it stops there, or it is projected back
            onto the box feature by feature (clipping, which is piecewise affine too).
        certify: Prove that breakpoints are all there and in order, each within its bounds, or say
            which are not proven: ``lines.certified``, and ``proofs`` of each line. Needs a float64
            network without jumps. Costs some ten forward passes for each piece, and more where
            several units switch at once.
        budget: How many numbers the values of one layer may hold at a time.

    Returns:
        The breakpoints and logits of every ray.

    Raises:
        InputError: For shapes that do not fit, NaN, infinity, a zero direction, a negative
            ``stop``, or a ray that starts outside the box.
        UnsupportedOperation: For operations that are smooth, by name.
        NumericalOverflow: If a number leaves the range of float64.

    >>> from torch import nn
    >>> import farfield as ff
    >>> layer = nn.Linear(1, 2)
    >>> layer.weight.data, layer.bias.data = torch.tensor([[1.0], [-2.0]]), torch.tensor([-1.0, 6])
    >>> network = ff.capture(nn.Sequential(layer, nn.ReLU()), torch.zeros(1, 1))
    >>> line = along(network, [0.0], [1.0])
    >>> line[0].breakpoints.tolist(), line[0].logits.tolist()
    ([1.0, 3.0], [[0.0, 4.0], [2.0, 0.0]])
    >>> line[0].slope.tolist()
    [[0.0, -2.0], [1.0, -2.0], [1.0, 0.0]]
    >>> line.first_reaching(0.5).tolist(), line.highest_confidence().tolist()
    ([0.0], [1.0])
    """
    require_piecewise_affine(network, "a walk along a ray")
    rays = rays_of(network, origin, direction, stop, box, leaving)
    if certify:
        from farfield.exact.ray.proof import (
            check_provable,  # rational arithmetic takes a while to load
        )

        check_provable(network, rays.clip is not None)
    keep_memory()
    traces: list[Trace | Broken | None] = [None] * network.instances
    with torch.no_grad():
        for place, walk in walks(network, rays.clip, budget):
            if isinstance(walk, JumpWalk):
                traces[place] = walk.follow(rays.origins, rays.directions, rays.stops)
                continue
            parts = [
                with_classes(network, window, first)
                for first, start in rays.starts(max(1, budget // (3 * walk.program.width)))
                for window in walk.windows(start)
            ]
            traces[place] = _joined(parts, len(rays))
    lines = Lines(tuple(trace for trace in traces if trace is not None), rays.stops)
    return replace(lines, proofs=_proofs(network, rays, lines)) if certify else lines


def _proofs(network: Network, rays: Rays, lines: Lines) -> tuple[tuple[LineProof, ...], ...]:
    """Prove the lines of every instance."""
    from farfield.exact.ray.proof import LineProver

    found: list[tuple[LineProof, ...]] = [()] * network.instances
    for group in network.groups:
        for index, member in enumerate(group.members):
            prover = LineProver(network, group.program, group.instance(index))
            own = lines.instance(member)
            found[member] = tuple(
                prover.prove(*rays.row(place), line.edges) for place, line in enumerate(own)
            )
    return tuple(found)


def walks(
    network: Network, clip: Bend | None, budget: int
) -> Iterator[tuple[int, LineWalk | JumpWalk]]:
    """One walk for each instance, with its place among them."""
    for group in network.groups:
        jumps = has_jumps(group)
        for index, place in enumerate(group.members):
            constants = {
                name: tensor.double() if tensor.is_floating_point() else tensor
                for name, tensor in group.instance(index).items()
            }
            if jumps:
                yield place, JumpWalk(network, group.program, constants, clip, budget)
            else:
                yield place, LineWalk(group.program, constants, clip, budget)


def with_classes(network: Network, window: Window, first: int) -> Window:
    """Give a window's output its classes, and its place among all rays."""
    parts = network.as_classes(window.trace.parts[None])[0]
    if not bool(torch.isfinite(parts).all()):
        raise NumericalOverflow(
            "a logit left the range of float64; bring inputs and weights to a moderate scale"
        )
    trace = Trace(parts, window.trace.grid)
    return Window(window.first + first, trace, window.low, window.high, window.ends)


def inside(window: Window) -> Trace:
    """The knots of a window without those ends that are no knots."""
    if not window.low and not window.high:
        return window.trace
    trace = window.trace
    rows = slice(int(window.low), len(trace.grid.t) - int(window.high and not window.ends.high))
    t, knots = trace.grid.t[rows], trace.knots[rows]
    grid = Grid(t, trace.grid.starts.new_tensor([0, len(t)]), trace.grid.open)
    return Trace(torch.cat([trace.slope, knots, trace.intercept]), grid)


def _joined(windows: Iterable[Window], rays: int) -> Trace:
    """Put windows together."""
    parts = [(window.first, inside(window)) for window in windows]
    ray = torch.cat([first + trace.grid.ray for first, trace in parts])
    starts = torch.searchsorted(ray, torch.arange(rays + 1, device=ray.device))
    t = torch.cat([trace.grid.t for _, trace in parts])
    slope = torch.cat([trace.slope for _, trace in parts])
    knots = torch.cat([trace.knots for _, trace in parts])
    intercept = torch.cat([trace.intercept for _, trace in parts])
    open_ = torch.zeros(rays, dtype=torch.bool, device=t.device)
    for first, trace in parts:
        open_[first : first + trace.grid.rays] |= trace.grid.open
    return Trace(torch.cat([slope, knots, intercept]), Grid(t, starts, open_))
