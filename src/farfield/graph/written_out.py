"""Operations that PyTorch writes out when it traces a model, put together again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention

from farfield.graph.program import Program, Ref, Step

aten = torch.ops.aten


def put_together(program: Program) -> Program:
    """Recognise softsign and softshrink."""
    return _softshrink(_softsign(program))


def _softsign(program: Program) -> Program:
    """Recognise ``x / (1 + |x|)``, which PyTorch writes out."""
    made = {step.name: step for step in program.steps}

    def read(step: Step) -> Step:
        if step.target is not aten.div.Tensor or not isinstance(step.args[1], Ref):
            return step
        top, bottom = step.args[0], made.get(step.args[1].name)
        if bottom is None or bottom.target not in (aten.add.Tensor, aten.add.Scalar):
            return step
        first, second = bottom.args[:2]
        size = made.get(first.name) if isinstance(first, Ref) and second == 1 else None
        if size is None or size.target is not aten.abs.default or size.args != (top,):
            return step
        return replace(step, target=F.softsign, args=(top,), kwargs={})

    return program.with_steps(tuple(read(step) for step in program.steps))


def _softshrink(program: Program) -> Program:
    """Recognise softshrink, which PyTorch writes out: ``x`` less what a clamp leaves of it."""
    made = {step.name: step for step in program.steps}
    steps: list[Step] = []
    for step in program.steps:
        found = _shrinkage(step, made)
        if found is not None:
            value, size = found
            cut = Ref(f"{step.name}_cut")
            limits = (value, -size, size)
            steps.append(replace(step, name=cut.name, target=aten.clamp.default, args=limits))
            steps.append(replace(step, target=aten.sub.Tensor, args=(value, cut)))
        else:
            steps.append(step)
    return program.with_steps(tuple(steps))


def _shrinkage(step: Step, made: Mapping[str, Step]) -> tuple[Ref, float] | None:
    """``x`` and ``l`` of ``where(|x| > l, x - sign(x) * l, x * 0)``, if a step is that."""

    def parts(value: Any, *targets: Any) -> tuple[Any, ...]:
        """The arguments of the step that made a value, if it was one of these."""
        maker = made.get(value.name) if isinstance(value, Ref) else None
        return maker.args if maker is not None and maker.target in targets else (None, None)

    if step.target is not aten.where.self:
        return None
    products = (aten.mul.Tensor, aten.mul.Scalar)
    distance, size = parts(step.args[0], aten.gt.Scalar)[:2]
    value = parts(distance, aten.abs.default)[0]
    first, shift = parts(step.args[1], aten.sub.Tensor)[:2]
    sign, factor = parts(shift, *products)[:2]
    signed, nothing = parts(sign, aten.sign.default)[0], parts(step.args[2], *products)[:2]
    alike = isinstance(value, Ref) and value == first == signed and nothing == (value, 0)
    if not alike or not isinstance(size, (int, float)) or size != factor or not size > 0:
        return None
    return value, float(size)
