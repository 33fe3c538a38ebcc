"""Cells: values that are affine in one or two coordinates on each cell of a subdivision.

A ray, or a slice of the input space, is cut into cells (stretches of the ray, polygons of a plane,
arcs of the circle of directions) on which every value of the network is
``slope_a * a + slope_b * b + constant``: a jet whose rows are cells. A kink first cuts every cell
where units change piece, steps cut it where columns pass a break; then each cell lies on one piece
of each unit.

Cells are walked in blocks, so that memory stays bounded however many there are: where a cut leaves
too many to be carried on together, the walk stops before the operation that asked for the cut, and
goes on with some of the cells at a time, in their order.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.exact.germ import kink
from farfield.exact.jets import Jet, JetDomain
from farfield.graph.program import Program, Step, walk
from farfield.graph.rules import Pieces, Places, Steps

# Odd constants that spread consecutive numbers over 64 bits.
SPREAD, SCRAMBLE = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


class Divided(Exception):  # noqa: N818 - a signal within the walk, not an error
    """A cut has left more cells than should be carried on together."""


class CellDomain(JetDomain):
    """The walk over all cells of a subdivision at once.

    Attributes:
        cells: The cells themselves, by now, if the walk is to be taken up with some of them.
        together: How many cells to carry on together at most; more raise :class:`Divided`.
        parents: For each division so far, which earlier cell each cell came from.
        pattern: ``(cells,)`` a 64-bit fingerprint of all decisions on each cell.
        decisions: How many decisions went into it.
    """

    cells: Any

    def __init__(self, numbers: int, cells: int, together: int | None = None) -> None:
        super().__init__(numbers, cells, torch.zeros((), dtype=torch.float64))
        self.together = together
        self.parents: list[Tensor] = []
        self.pattern = np.zeros(cells, dtype=np.uint64)
        self.decisions = 0

    @abstractmethod
    def divide(self, lines: Tensor) -> Tensor | None:
        """Cut the cells where ``(numbers, cells, lines)`` are zero.

        Gives the parent of each new cell, if any is new.
        """

    @abstractmethod
    def divide_by_largest(self, candidates: Tensor) -> Tensor | None:
        """Cut the cells where the largest of ``(candidates, numbers, cells, units)`` changes."""

    @abstractmethod
    def divide_at_breaks(self, columns: Tensor, steps: Steps) -> Tensor | None:
        """Cut the cells where ``(numbers, cells, outputs)`` pass a break of their output."""

    def current(self, value: Jet) -> Tensor:
        """The value on the cells as they are now, ``(numbers, cells, ...)``."""
        return self.restricted(value, slice(None))

    def restricted(self, value: Jet, part: slice) -> Tensor:
        """The value on some of the cells as they are now."""
        parts = super().current(value)
        which = None
        for parent in reversed(self.parents[value.age :]):
            which = parent[part] if which is None else parent[which]
        return parts[:, part] if which is None else parts.index_select(1, which)

    def jet(self, parts: Tensor) -> Jet:
        """A value ``(numbers, cells, ...)`` on the cells as they are now."""
        return Jet(parts.flatten(0, 1), len(self.parents))

    def divide_at_kinks(self, value: Jet, pieces: Pieces) -> None:
        """Cut the cells along every line where a unit changes piece."""
        parts = self.current(value)
        flat = parts.flatten(2)
        found = []
        for index, threshold in enumerate(pieces.thresholds):
            real = kink(pieces, index)
            if real is False:
                continue
            lines = flat
            if isinstance(real, Tensor):
                lines = flat[:, :, real.expand(parts.shape[2:]).flatten()]
            if threshold != 0:
                lines = self.shifted(lines, -float(threshold))
            found.append(lines)
        if found:
            self.follow(self.divide(torch.cat(found, dim=2) if len(found) > 1 else found[0]))

    def divide_at_ties(self, candidates: Sequence[Jet], sign: int) -> None:
        """Cut the cells along every line where a maximum changes hands."""
        self.follow(self.divide_by_largest(self.stack(candidates, sign)))

    def divide_at_steps(self, value: Jet, steps: Steps) -> None:
        """Cut the cells wherever a column passes a break."""
        self.follow(self.divide_at_breaks(self.current(value)[..., steps.columns], steps))

    def follow(self, parent: Tensor | None) -> None:
        """Go on with the cells of a division, given the parent of each, unless they are too many.

        Raises:
            Divided: When the domain is up to date, but the operation is still to be done.
        """
        if parent is None:
            return
        self.parents.append(parent)
        self.rows = len(parent)
        self.pattern = self.pattern[parent.numpy()]
        if self.together is not None and self.rows > self.together:
            raise Divided

    def note_pieces(self, parts: Tensor, pieces: Pieces, above: Sequence[Tensor]) -> None:
        """Add the pieces to the fingerprint; thresholds without a kink separate nothing."""
        for index, over in enumerate(above):
            real = kink(pieces, index)
            self.note(over & real if isinstance(real, Tensor) else over * real)

    def note_winner(self, candidates: Tensor, winner: Tensor, places: Places | None) -> None:
        """Add the winners to the fingerprint."""
        self.note(winner)

    def note_steps(self, parts: Tensor, steps: Steps, places: Tensor) -> None:
        """Add the intervals to the fingerprint."""
        self.note(places)

    def note(self, decisions: Tensor) -> None:
        """Add decisions to the fingerprint: each has its own odd factor, sums wrap around."""
        flat = decisions.reshape(self.rows, -1).numpy().astype(np.uint64)
        start, self.decisions = self.decisions, self.decisions + flat.shape[1]
        keys = np.arange(start + 1, self.decisions + 1, dtype=np.uint64) * SPREAD
        keys = (keys ^ (keys >> np.uint64(29))) * SCRAMBLE
        keys = (keys ^ (keys >> np.uint64(32))) | np.uint64(1)
        self.pattern = self.pattern + flat @ keys


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
