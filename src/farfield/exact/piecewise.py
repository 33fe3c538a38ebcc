"""Programs made ready for analyses that cut their rows: piecewise affine, rows free to multiply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from farfield.errors import InputError, UnsupportedOperation
from farfield.graph.network import Network
from farfield.graph.program import FREE, SIZE, Program, Ref, Step, resolve
from farfield.graph.rules import RULES

aten = torch.ops.aten
VIEWS = (aten.view.default, aten._unsafe_view.default)


def require_piecewise_affine(network: Network, analysis: str) -> None:
    """List every smooth operation of a network in one error.

    Raises:
        UnsupportedOperation: If some operation has no affine pieces.
    """
    smooth = dict.fromkeys(
        (step.operation, str(step.source))
        for group in network.groups
        for step in group.program.steps
        if not step.constant and RULES[step.target].kind == "smooth"
    )
    if not smooth:
        return
    width = max(len(operation) for operation, _ in smooth)
    lines = "\n".join(f"  {operation:<{width}}  in {where}" for operation, where in smooth)
    raise UnsupportedOperation(
        f"{analysis} needs affine pieces, and {len(smooth)} "
        f"operation{'s are' if len(smooth) > 1 else ' is'} smooth:\n{lines}\n"
        "Use at_infinity, which knows their limits, or a network with ReLU-like activations."
    )


def pick_instance(network: Network, instance: int | None) -> tuple[Program, dict[str, Tensor]]:
    """The program of one instance, and its constants.

    Raises:
        InputError: If there are several instances and none was named, or no such instance.
    """
    count = network.instances
    if instance is None:
        if count > 1:
            raise InputError(
                f"the network has {count} instances and each has regions of its own; say which "
                f"with instance=0 to instance={count - 1}"
            )
        instance = 0
    if not 0 <= instance < count:
        raise InputError(f"instance={instance}, but the network has {count}: 0 to {count - 1}")
    group = next(group for group in network.groups if instance in group.members)
    return group.program, group.instance(group.members.index(instance))


def free_rows(program: Program) -> Program:
    """Rewrite a program so that no step remembers how many rows an earlier value had.

    Shapes infer the number of rows; constants with a row for each row get a single one.
    """
    rows = {step.name for step in program.steps if step.target is SIZE and step.args[1] == 0}
    if not rows:
        return program
    steps = [_forget(step, rows) for step in program.steps if step.name not in rows]
    return program.with_steps(tuple(steps))


def _forget(step: Step, rows: set[str]) -> Step:
    if not rows.intersection(step.refs()):
        return step
    if step.target in VIEWS and step.shape is not None and not step.constant:
        return replace(step, args=(step.args[0], list(step.shape)))
    table: dict[str, Any] = {name: Ref(name) for name in step.refs()}
    table |= dict.fromkeys(rows, 1 if step.constant else FREE)
    kwargs = {key: resolve(item, table) for key, item in step.kwargs.items()}
    return replace(step, args=resolve(step.args, table), kwargs=kwargs)
