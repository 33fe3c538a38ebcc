"""Walk a program along rays, window by window, so that memory stays bounded.

Late layers have far more knots than early ones. When a layer's trace would outgrow the budget, the
walk stops there, cuts everything that later steps still need into windows (fewer rays; for a single
ray, shorter stretches of ``t``), and follows each window to the end before it begins the next. So
windows come out in order, and a search may stop at the first that answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from farfield.errors import NumericalOverflow
from farfield.exact.ray.bend import Bend
from farfield.exact.ray.kinked import plain_kernel
from farfield.exact.ray.knots import Trace, together
from farfield.exact.ray.line_domain import Ends, LeftRange, LineDomain, TooLarge
from farfield.graph.program import SIZE, Program, Step

CONVOLUTION = torch.ops.aten.convolution.default
# How many numbers one trace may hold: a few copies of it stay within the cache and the memory.
BUDGET = 1 << 20
# Where between two knots a ray is cut: nobody's favourite number, so that decisions avoid it.
CUT = 0.3819660112501051
# How many knots around the wanted place may be looked at for a wide gap.
LEEWAY = 4


@dataclass(frozen=True)
class Window:
    """A stretch of rays: from ``first`` on, and on a single ray perhaps only a part of it.

    Attributes:
        first: The index of the first ray.
        trace: The output there.
        low: Whether the window begins inside a ray, at a place that is no knot.
        high: Whether it ends inside a ray, at a place that is no knot.
        ends: Whether a decision happens to fall exactly there.
    """

    first: int
    trace: Trace
    low: bool
    high: bool
    ends: Ends


@dataclass(frozen=True)
class _State:
    """What is left to do: the next step, and the values that it and later ones need."""

    step: int
    values: dict[str, Any]
    first: int = 0
    low: bool = False
    high: bool = False
    ends: Ends | None = None


class LineWalk:
    """Follow rays through one instance of a network.

    Args:
        program: The network.
        constants: Its weights, in float64.
        clip: Applied to the input first, if given.
        budget: How many numbers one trace may hold.
    """

    def __init__(
        self,
        program: Program,
        constants: Mapping[str, Tensor],
        clip: Bend | None = None,
        budget: int = BUDGET,
    ) -> None:
        self.program = program
        self.constants = constants
        self.clip = clip
        self.domain = LineDomain(budget)
        self.sized = {step.name: step for step in program.steps if step.constant}

    def windows(self, start: Trace) -> Iterator[Window]:
        """Follow rays to the output; windows come ray after ray, in order of ``t``."""
        todo = [_State(-1 if self.clip is not None else 0, {self.program.input: start})]
        while todo:
            state = todo.pop()
            result = self._advance(state)
            if isinstance(result, Window):
                yield result
            else:
                todo.extend(reversed(result))

    def _advance(self, state: _State) -> Window | list[_State]:
        """Walk to the output, or to the first step that needs smaller windows."""
        values = state.values
        self.domain.ends = state.ends
        for place in range(state.step, len(self.program.steps)):
            try:
                self._take(place, values)
            except TooLarge as large:
                return list(_cut(replace(state, step=place, values=values), large))
        ends = state.ends or Ends()
        return Window(state.first, values[self.program.output], state.low, state.high, ends)

    def _take(self, place: int, values: dict[str, Any]) -> None:
        """Take one step."""
        if place < 0:
            if self.clip is not None:
                start = values[self.program.input]
                self.domain.grid = start.grid
                values[self.program.input] = self.domain.bend(start, self.clip)
            return
        step = self.program.steps[place]
        if not step.constant:
            try:
                values[step.name] = self._lower(step, values)
            except LeftRange:
                raise NumericalOverflow(
                    f"a number left the range of float64 before {step.operation}, in "
                    f"{step.source}; bring inputs and weights to a moderate scale"
                ) from None
        for name in self.program.last_uses[place]:
            values.pop(name, None)

    def _lower(self, step: Step, values: dict[str, Any]) -> Any:
        names = [name for name in step.refs() if name in values]
        traces = [trace for name in names for trace in _traces(values[name])]
        same = dict(zip(map(id, traces), together(traces), strict=True))
        self.domain.grid = same[id(traces[0])].grid
        rows = len(same[id(traces[0])].parts)
        known = {name: _map(values[name], lambda trace: same[id(trace)]) for name in names}
        for name in step.refs():
            if name not in known:
                known[name] = self._constant(name, rows)
        args, kwargs = step.bind(known)
        plain = step.target is CONVOLUTION and not self.program.per_row
        self.domain.kernel = plain_kernel(args) if plain else None
        return self.program.lower(step, self.domain, args, kwargs)

    def _constant(self, name: str, rows: int) -> Any:
        """A weight, or what is computed from the number of rows."""
        if name in self.constants:
            return self.constants[name]
        step = self.sized[name]
        if step.target is SIZE:
            if step.args[1] != 0:
                raise AssertionError("only the number of rows is a free size")
            return rows
        known = {ref: self._constant(ref, rows) for ref in step.refs()}
        args, kwargs = step.bind(known)
        return step.target(*args, **kwargs)


def _traces(tree: Any) -> list[Trace]:
    if isinstance(tree, Trace):
        return [tree]
    if isinstance(tree, (list, tuple)):
        return [trace for item in tree for trace in _traces(item)]
    return []


def _map(tree: Any, change: Callable[[Trace], Trace]) -> Any:
    if isinstance(tree, Trace):
        return change(tree)
    if isinstance(tree, (list, tuple)):
        return type(tree)(_map(item, change) for item in tree)
    return tree


def _cut(state: _State, large: TooLarge) -> Iterator[_State]:
    """Cut what is left to do into windows of about as many rows as fit."""

    def part(change: Callable[[Trace], Trace]) -> dict[str, Any]:
        return {name: _map(tree, change) for name, tree in state.values.items()}

    grid = large.grid
    if grid.rays > 1:
        for first, last in _ray_groups(grid.starts.tolist(), large.rows):
            values = part(lambda trace, a=first, b=last: trace.rays(a, b))  # type: ignore[misc]
            yield replace(state, values=values, first=state.first + first)
        return
    bounds: list[float | None] = [None, *_cuts(grid.t, large.rows), None]
    inherited = state.ends or Ends()
    for low, high in pairwise(bounds):
        values = part(lambda trace, a=low, b=high: trace.between(a, b))  # type: ignore[misc]
        yield replace(
            state,
            values=values,
            low=state.low if low is None else True,
            high=state.high if high is None else True,
            ends=Ends(inherited.low and low is None, inherited.high and high is None),
        )


def _ray_groups(starts: list[int], rows: int) -> Iterator[tuple[int, int]]:
    """Neighbouring rays with about ``rows`` knots together."""
    first = 0
    for ray in range(1, len(starts)):
        if ray == len(starts) - 1 or starts[ray + 1] - starts[first] > rows:
            yield first, ray
            first = ray


def _cuts(t: Tensor, rows: int) -> list[float]:
    """Places between knots, about ``rows`` knots apart, in the widest of the gaps around."""
    gaps = t.diff()
    cuts = []
    for place in range(rows, len(t) - LEEWAY, rows):
        near = slice(place - LEEWAY, place + LEEWAY)
        row = place - LEEWAY + int(gaps[near].argmax())
        cuts.append(float(t[row] + CUT * gaps[row]))
    return cuts
