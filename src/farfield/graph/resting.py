"""Which values of a program stay bounded whatever the input, as far as its form tells."""

from __future__ import annotations

import torch

from farfield.graph.growth import AtRest, Growth
from farfield.graph.norms import attend
from farfield.graph.products import add_product, contract, multiply, multiply_matrices
from farfield.graph.program import Program, Step
from farfield.graph.rules import RULES

aten = torch.ops.aten
BOUNDED = (
    *(aten.layer_norm.default, aten.native_layer_norm.default, aten.rms_norm.default),
    *(aten.group_norm.default, aten.instance_norm.default, aten.softmax.int),
    *(aten._softmax.default, aten.sigmoid.default, aten.tanh.default, aten.erf.default),
    *(aten.erfc.default, aten.atan.default, aten.hardsigmoid.default, aten.relu6.default),
    *(aten.sin.default, aten.cos.default),
)
# Growth that keeps bounded values bounded.
KEEPING = (multiply, multiply_matrices, add_product, contract, attend, aten.square.default)


def growing_waves(program: Program) -> dict[str, str]:
    """Steps that need values at rest, by name, and why what they are given may not be."""
    bounded: set[str] = set()
    varying = {program.input}
    found: dict[str, str] = {}
    for step in program.steps:
        if step.constant:
            continue
        varying.add(step.name)
        given = [name for name in step.refs() if name in varying]
        resting = all(name in bounded for name in given)
        reason = _wants_rest(step)
        if reason is not None and not resting:
            found[step.name] = reason
        if step.target in BOUNDED or (resting and _keeps(step)):
            bounded.add(step.name)
    return found


def _keeps(step: Step) -> bool:
    rule = RULES.get(step.target)
    return rule is not None and (rule.kind != "growth" or step.target in KEEPING)


class _Asked:
    """A domain that only looks at the operation it is given."""

    def grow(self, operation: Growth, *_: object) -> Growth:
        return operation


def _wants_rest(step: Step) -> str | None:
    """Why an operation has no limit of what grows, if it has none."""
    if step.target not in RESTING:
        return None
    operation = RULES[step.target].lower(_Asked(), None)
    assert isinstance(operation, AtRest)
    return operation.reason


RESTING = (aten.sin.default, aten.cos.default)
