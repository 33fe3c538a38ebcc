"""Operations that PyTorch writes out when it traces a model, put together again."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention

from farfield.graph.program import Program, Ref, Step

aten = torch.ops.aten


def put_together(program: Program) -> Program:
    """Recognise softsign."""
    return _softsign(program)


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
