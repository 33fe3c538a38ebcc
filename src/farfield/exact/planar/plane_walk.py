"""Walk a program over polygons in blocks, so that memory stays bounded however many there are.

Where a cut leaves too many polygons to be carried on together, the walk stops before the operation
that asked for the cut, and goes on with some of the polygons at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import InputError
from farfield.exact.jets import Jet
from farfield.exact.planar.cutting import TooManyPolygons
from farfield.exact.planar.plane_domain import Divided, PlaneDomain
from farfield.exact.planar.polygons import Polygons, join
from farfield.graph.program import Program, Step, walk

# How many numbers the largest value of a block may hold.
BLOCK_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class Subdivision:
    """Polygons with the network's output on them, ``(3, polygons, ...)``, and their patterns."""

    polygons: Polygons
    out: Tensor
    pattern: NDArray[np.uint64]


@dataclass(frozen=True)
class _State:
    """A walk that can be taken up: what is left to do, the values it reads, the polygons."""

    program: Program
    values: Mapping[str, Any]
    polygons: Polygons
    pattern: NDArray[np.uint64]
    decisions: int


def walk_plane(
    program: Program, start: Tensor, constants: Mapping[str, Tensor], window: Polygons, most: int
) -> Subdivision:
    """Follow a program over a window.

    Args:
        program: Whose steps do not remember how many rows there were.
        start: ``(3, *input)`` slopes and constant of the inputs.
        constants: The program's constants.
        window: A single polygon.
        most: How many polygons there may be.

    Raises:
        InputError: If there are more.
    """
    together = max(1, BLOCK_ELEMENTS // (3 * program.width))
    values = {**constants, program.input: Jet(start)}
    waiting = [_State(program, values, window, np.zeros(1, dtype=np.uint64), 0)]
    done: list[Subdivision] = []
    finished = 0
    while waiting:
        state = waiting.pop()
        room = most - finished - sum(len(other.polygons) for other in waiting)
        domain = PlaneDomain(state.polygons, together, room)
        domain.pattern, domain.decisions = state.pattern, state.decisions
        try:
            found = _run(state, domain)
        except TooManyPolygons:
            raise InputError(
                f"the window holds more than {most} regions; choose a smaller window, or allow "
                "more with most="
            ) from None
        if isinstance(found, Subdivision):
            done.append(found)
            finished += len(found.polygons)
        else:
            waiting += found
    return Subdivision(
        join([each.polygons for each in done]),
        torch.cat([each.out for each in done], dim=1),
        np.concatenate([each.pattern for each in done]),
    )


def _run(state: _State, domain: PlaneDomain) -> Subdivision | list[_State]:
    """Walk to the end, or to a cut that leaves too many polygons."""
    program = state.program
    live: dict[str, Any] = dict(state.values)
    progress = iter(program.last_uses)
    count = 0

    def look(step: Step, value: Any) -> None:
        nonlocal count
        live[step.name] = value
        for name in next(progress):
            del live[name]
        count += 1

    try:
        values = {name: value for name, value in live.items() if name != program.input}
        out = walk(program, domain, live.get(program.input, Jet(torch.empty(3, 0))), values, look)
    except Divided:
        return list(_blocks(program.with_steps(program.steps[count:]), live, domain))
    return Subdivision(domain.polygons, domain.current(out), domain.pattern)


def _blocks(program: Program, live: Mapping[str, Any], domain: PlaneDomain) -> Iterator[_State]:
    """The rest of a walk, for some of the polygons at a time."""
    for start in range(0, domain.rows, domain.together):
        part = slice(start, start + domain.together)
        values = {name: _restrict(value, domain, part) for name, value in live.items()}
        yield _State(program, values, domain.polygons[part], domain.pattern[part], domain.decisions)


def _restrict(tree: Any, domain: PlaneDomain, part: slice) -> Any:
    """A value, or several, on some of the polygons."""
    if isinstance(tree, Jet):
        return Jet(domain.restricted(tree, part).flatten(0, 1))
    if isinstance(tree, (list, tuple)):
        return type(tree)(_restrict(item, domain, part) for item in tree)
    return tree
