"""A program that was traced on a batch of one row, as a program of that row.

The batch is made and unmade by steps of its own, so that whatever the model does to it in between,
there is nothing but one row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from farfield.graph.program import FREE, Program, Ref, Step

aten = torch.ops.aten


def one_row(program: Program) -> Program:
    """Put the batch of one around the input, and take it off the output."""
    batch = Step(
        f"{program.input}/batch",  # no traced name has a slash
        aten.unsqueeze.default,
        (Ref(program.input), 0),
        shape=(FREE, 1, *program.input_shape),
    )
    output = batch.name if program.output == program.input else program.output
    last = Step(
        f"{program.output}/row",
        aten.view.default,
        (Ref(output), list(program.output_shape)),
        shape=(FREE, *program.output_shape),
    )
    steps = tuple(_renamed(step, program.input, batch.name) for step in program.steps)
    return replace(program, steps=(batch, *steps, last), output=last.name, per_row=True)


def _renamed(step: Step, old: str, new: str) -> Step:
    table: dict[str, Any] = {name: Ref(new if name == old else name) for name in step.refs()}
    args, kwargs = step.bind(table)
    shape = None
    if step.shape is not None:
        shape = (FREE, *(1 if length == FREE else length for length in step.shape))
    return replace(step, args=args, kwargs=kwargs, shape=shape)
