"""How sure a model can be of anything, if it ends in a linear layer of normalised rows.

A row behind a layer or RMS norm is ``gamma * u + beta`` with ``|u| <= sqrt(n)``, whatever the
input; behind a layer norm the entries of ``u`` add up to zero as well. So a difference of two
logits, ``w . (gamma * u + beta) + c``, is at most ``sqrt(n) |P (gamma * w)| + w . beta + c``, where
``P`` centres (layer norm) or does nothing (RMS norm). Means and choices of such rows, as pooling
makes them, obey the same bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from farfield.graph.program import Program, Ref, Step

aten = torch.ops.aten
NORMS = (aten.layer_norm.default, aten.rms_norm.default)
# What leaves rows of features within the set that they lie in.
POOLING = (
    *(aten.select.int, aten.slice.Tensor, aten.mean.dim, aten.alias.default, aten.clone.default),
    *(aten.squeeze.dim, aten.squeeze.dims, aten.detach.default, aten._to_copy.default),
)
# What a row of logits may pass at the very end.
RESHAPING = (aten.view.default, aten.alias.default, aten.squeeze.dim, aten.squeeze.default)
Lead = Callable[[int | None, int | None], float]


def norm_head(program: Program, constants: Mapping[str, Tensor]) -> Lead | None:
    """The most by which one output can be ahead of another; ``None`` for zero.

    Args:
        program: The program of a network.
        constants: Its weights.

    Returns:
        A function of two outputs; ``None`` if the program does not end in such a head.
    """
    made = {step.name: step for step in program.steps}
    last = made.get(program.output)
    while last is not None and last.target in RESHAPING and isinstance(last.args[0], Ref):
        last = made.get(last.args[0].name)
    if last is None or last.target is not aten.linear.default:
        return None
    weight, bias = _constant(last, 1, constants), _constant(last, 2, constants)
    norm = _below(last, made, int(program.per_row))
    if weight is None or norm is None or tuple(norm.args[1]) != (weight.shape[-1],):
        return None
    gamma = _constant(norm, 2, constants)
    beta = _constant(norm, 3, constants) if norm.target is aten.layer_norm.default else None
    centres = norm.target is aten.layer_norm.default
    rows = weight.double()

    def lead(one: int | None, other: int | None) -> float:
        gap = torch.zeros_like(rows[0])
        offset = 0.0
        for place, sign in ((one, 1.0), (other, -1.0)):
            if place is not None:
                gap = gap + sign * rows[place]
                offset += 0.0 if bias is None else sign * float(bias[place])
        steep = gap if gamma is None else gap * gamma.double()
        steep = steep - steep.mean() if centres else steep
        offset += 0.0 if beta is None else float(gap @ beta.double())
        return math.sqrt(len(gap)) * float(steep.norm()) * (1 + 1e-12) + offset

    return lead


def _below(step: Step, made: Mapping[str, Step], extra: int) -> Step | None:
    """The norm that a step takes its rows from, perhaps pooled on the way."""
    while isinstance(step.args[0], Ref) and step.args[0].name in made:
        step = made[step.args[0].name]
        if step.target in NORMS:
            return step
        if step.target not in POOLING or _takes_features(step, extra):
            return None
    return None


def _takes_features(step: Step, extra: int) -> bool:
    """Whether a pooling step goes over the last dimension, that of the features.

    ``extra`` dimensions come before those that the step counts.
    """
    dims: Any = step.args[1] if len(step.args) > 1 else None
    if step.target in (aten.alias.default, aten.clone.default, aten.detach.default):
        return False
    if step.target is aten._to_copy.default:
        return False
    places = dims if isinstance(dims, (list, tuple)) else [dims]
    kept = step.target is aten.slice.Tensor or (len(step.args) > 2 and step.args[2] is True)
    size = len(step.shape or ()) - extra + (0 if kept else len(places))
    return any(not isinstance(place, int) or place % max(size, 1) == size - 1 for place in places)


def _constant(step: Step, place: int, constants: Mapping[str, Tensor]) -> Tensor | None:
    """A weight of a step."""
    item = step.args[place] if len(step.args) > place else None
    return constants.get(item.name) if isinstance(item, Ref) else None
