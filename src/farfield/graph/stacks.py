"""Members that are stacked in front of the rows, put behind them.

``torch.stack(outputs).softmax(-1).mean(0)`` is how many ensembles are written. For a moment the
rows of the batch are the second dimension; what is done there, element by element or along
one dimension, can as well be done with the rows in front.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from farfield.graph.program import FREE, Program, Ref, Step
from farfield.graph.rules import RULES

aten = torch.ops.aten
# Operations along the dimension that their second argument names.
ALONG_ONE = frozenset(
    {
        aten.softmax.int,
        aten._softmax.default,
        aten.log_softmax.int,
        aten._log_softmax.default,
    }
)
# Operations that bring dimensions down to one number: whether those are listed.
REDUCING = {
    aten.mean.dim: True,
    aten.sum.dim_IntList: True,
    aten.amax.default: True,
    aten.amin.default: True,
    aten.logsumexp.default: True,
    aten.select.int: False,
}
ELEMENTWISE = ("piecewise affine", "smooth")


def stack_behind_rows(program: Program) -> Program:
    """Stack members behind the rows of the batch, wherever nothing more is done in front of them.

    Args:
        program: Whose number of rows is free.
    """
    turned: dict[str, Step] = {}
    steps: list[Step] = []
    for step in program.steps:
        made = _turned(step, turned)
        if made is not None:
            turned[step.name] = made
            steps.append(made)
        steps.append(_reduced(step, turned))
    return program.with_steps(tuple(steps))


def _is_behind(step: Step) -> bool:
    """Whether the rows are the second dimension of what a step makes."""
    return step.shape is not None and step.shape[1:2] == (FREE,) and step.shape[0] != FREE


def _turned(step: Step, turned: dict[str, Step]) -> Step | None:
    """The same with rows in front, if that is known."""
    if not _is_behind(step) or step.shape is None:
        return None
    shape = (FREE, step.shape[0], *step.shape[2:])
    named = replace(step, name=f"{step.name}/turned", shape=shape)
    if step.target is aten.stack.default and (len(step.args) == 1 or step.args[1] == 0):
        return replace(named, args=(step.args[0], 1))
    below = _below(step, turned)
    if below is None:
        return None
    rest = step.args[1:]
    if step.target in ALONG_ONE:
        return replace(named, args=(below, _swapped(rest[0], len(shape)), *rest[1:]))
    rule = RULES.get(step.target)
    single = not any(isinstance(each, Ref) for each in rest) and not step.kwargs
    if rule is not None and rule.kind in ELEMENTWISE and single:
        return replace(named, args=(below, *rest))
    return None


def _below(step: Step, turned: dict[str, Step]) -> Ref | None:
    """What a step is made of, with rows in front."""
    first = step.args[0] if step.args else None
    found = turned.get(first.name) if isinstance(first, Ref) else None
    return None if found is None else Ref(found.name)


def _reduced(step: Step, turned: dict[str, Step]) -> Step:
    """A reduction over the members in front, done where they are now."""
    below = _below(step, turned)
    if below is None or step.target not in REDUCING or len(step.args) < 2:
        return step
    dims = step.args[1] if REDUCING[step.target] else [step.args[1]]
    keeps = len(step.args) > 2 and step.args[2] is True and REDUCING[step.target]
    rank = len(turned[step.args[0].name].shape or ())
    if [each % rank for each in dims] != [0] or keeps:
        return step
    place: Any = [1] if REDUCING[step.target] else 1
    return replace(step, args=(below, place, *step.args[2:]))


def _swapped(dim: int, rank: int) -> int:
    """Where a dimension stands once the first two have changed places."""
    return (1, 0)[dim % rank] if dim % rank < 2 else dim % rank
