"""Exported programs taken apart to core ATen, but for operations that are to stay whole.

Before every program PyTorch tells each of its 500 composite operations what to become, for longer
than a small program takes. They fall apart by themselves: only those that stay whole, or become
something else than they would, have to be told.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export import exported_program as torchs

Table = dict[Any, Callable[..., Any]]
# Not public: where it is not as it was, the public way is taken.
NEEDED = ("cia_to_decomp", "python_decomp_table", "joint_loss_index", "decompose_custom_triton_ops")


def take_apart(exported: ExportedProgram, kept: tuple[Any, ...]) -> ExportedProgram:
    """Decompose everything but the operations ``kept``."""
    if not _is_known():
        return taken_apart_slowly(exported, kept)
    composite, others = told(kept)
    taken: ExportedProgram = torchs._decompose_exported_program(
        exported,
        cia_to_decomp=composite,
        python_decomp_table=dict(others),
        joint_loss_index=None,
        decompose_custom_triton_ops=False,
    )
    return taken


def taken_apart_slowly(exported: ExportedProgram, kept: tuple[Any, ...]) -> ExportedProgram:
    """Do the same by PyTorch's public function."""
    taken: ExportedProgram = exported.run_decompositions(_table(kept))
    return taken


@cache
def _table(kept: tuple[Any, ...]) -> Table:
    """How PyTorch takes operations apart, without those that are kept; slow to make."""
    table = dict(torch.export.default_decompositions())
    for target in kept:
        table.pop(target, None)
    return table


@cache
def told(kept: tuple[Any, ...]) -> tuple[Table, Mapping[Any, Callable[..., Any]]]:
    """What composite operations have to be told, and what becomes of others."""
    composite, others = torchs._split_decomp_table_to_cia_and_python_decomp(dict(_table(kept)))
    return {each: told for each, told in composite.items() if not _by_itself(told)}, others


def _by_itself(told: Callable[..., Any]) -> bool:
    """Whether an operation is told to fall apart as it does anyway."""
    return isinstance(told, partial) and told.func.__name__ == "_special_op_to_decompose_cia"


@cache
def _is_known() -> bool:
    """Whether PyTorch's own functions take what they are given here."""
    function = getattr(torchs, "_decompose_exported_program", None)
    if function is None or not hasattr(torchs, "_split_decomp_table_to_cia_and_python_decomp"):
        return False
    return set(NEEDED) == set(inspect.signature(function).parameters) - {"ep"}
