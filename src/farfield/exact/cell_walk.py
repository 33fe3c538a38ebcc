"""Walk a program over cells in blocks, so that memory stays bounded however many there are.

Where a cut leaves too many cells to be carried on together, the walk stops before the operation
that asked for the cut, and goes on with some of the cells at a time, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.exact.cells import CellDomain, Divided
from farfield.exact.jets import Jet
from farfield.graph.program import Program, Step, walk


class Cells(Protocol):
    """Parts of a ray or a plane."""

    def __len__(self) -> int: ...

    def __getitem__(self, which: slice, /) -> Self: ...


D = TypeVar("D", bound=CellDomain)


@dataclass(frozen=True)
class _State:
    """A walk that can be taken up: what is left to do, the cells, and the values it reads.

    Values are those of all cells of a division until the walk is taken up, so that what waits
    takes no memory of its own.
    """

    program: Program
    cells: Any
    pattern: NDArray[np.uint64]
    decisions: int
    live: Mapping[str, Any]
    divided: CellDomain | None = None
    part: slice | None = None

    def values(self) -> dict[str, Any]:
        """What the walk reads."""
        domain, part = self.divided, self.part
        if domain is None or part is None:
            return dict(self.live)
        return {name: _restrict(value, domain, part) for name, value in self.live.items()}


def walk_cells(
    program: Program,
    start: Jet,
    constants: Mapping[str, Tensor],
    cells: Cells,
    make: Callable[[Any, int], D],
) -> Iterator[tuple[D, Tensor]]:
    """Follow a program over cells.

    Args:
        program: Whose steps do not remember how many rows there were.
        start: The inputs on the cells.
        constants: The program's constants.
        cells: Where to start from.
        make: Makes a domain of some cells, given how many others wait.

    Yields:
        Domains that have come to the end, whose cells are in order, and the outputs on these,
        ``(numbers, cells, ...)``.
    """
    values = {**constants, program.input: start}
    waiting = [_State(program, cells, np.zeros(len(cells), dtype=np.uint64), 0, values)]
    while waiting:
        state = waiting.pop()
        domain = make(state.cells, sum(len(other.cells) for other in waiting))
        domain.pattern, domain.decisions = state.pattern, state.decisions
        found = _run(state, domain)
        if isinstance(found, Tensor):
            yield domain, found
        else:
            waiting += reversed(found)


def _run(state: _State, domain: CellDomain) -> Tensor | list[_State]:
    """Walk to the end, or to a cut that leaves too many cells."""
    program = state.program
    live = state.values()
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
        nothing = Jet(torch.empty(domain.numbers, 0))
        out = walk(program, domain, live.get(program.input, nothing), values, look)
    except Divided:
        return list(_blocks(program.with_steps(program.steps[count:]), live, domain))
    return domain.current(out)


def _blocks(program: Program, live: Mapping[str, Any], domain: CellDomain) -> Iterator[_State]:
    """The rest of a walk, for some of the cells at a time."""
    size = domain.together or domain.rows
    for start in range(0, domain.rows, size):
        part = slice(start, start + size)
        cells, pattern = domain.cells[part], domain.pattern[part]
        yield _State(program, cells, pattern, domain.decisions, live, domain, part)


def _restrict(tree: Any, domain: CellDomain, part: slice) -> Any:
    """A value, or several, on some of the cells."""
    if isinstance(tree, Jet):
        return Jet(domain.restricted(tree, part).flatten(0, 1))
    if isinstance(tree, (list, tuple)):
        return type(tree)(_restrict(item, domain, part) for item in tree)
    return tree
