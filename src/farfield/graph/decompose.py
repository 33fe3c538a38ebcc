"""Exported programs taken apart to core ATen, but for operations that are to stay whole.

Before every program PyTorch tells each of its 500 composite operations what to become, for longer
than a small program takes. They fall apart by themselves: only those that stay whole, or become
something else than they would, have to be told. And a program all of whose operations stay whole
need not be taken apart at all.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export import exported_program as torchs

from farfield.graph.plain_layers import DROPOUT, NORM, is_plain

aten = torch.ops.aten
Table = dict[Any, Callable[..., Any]]
# Not public: where it is not as it was, the public way is taken.
NEEDED = ("cia_to_decomp", "python_decomp_table", "joint_loss_index", "decompose_custom_triton_ops")

# Parts of results, and arithmetic on sizes.
BESIDE = frozenset(
    (
        *(operator.getitem, operator.mul, operator.add, operator.sub, operator.floordiv),
        aten.sym_size.int,
    )
)
# Views, where values lie in their order.
FOLDS = (aten.flatten.using_ints, aten.reshape.default)
# With so many dimensions of places each; what is not said of them is ORDINARY.
CONVOLUTIONS = {aten.conv1d.default: 1, aten.conv2d.default: 2, aten.conv3d.default: 3}
ORDINARY = (None, [1], [0], [1], 1)  # bias, stride, padding, dilation, groups


def left_together(exported: ExportedProgram, kept: tuple[Any, ...]) -> bool:
    """Whether taking apart changes little; if so, that little is done.

    Dead ends are cut, folds become views, and convolutions say everything that they are.
    """
    calls = [node for node in exported.graph.nodes if node.op == "call_function"]
    whole = frozenset(kept)
    if not all(_stays(node, whole) for node in calls):
        return False
    for node in calls:
        if node.target in FOLDS:
            _unfold(node)
        elif node.target in CONVOLUTIONS:
            _spell_out(node)
    exported.graph.eliminate_dead_code()
    return True


def _unfold(node: torch.fx.Node) -> None:
    """Make a view of a fold, or nothing where the shape stays; what is returned keeps its name."""
    source: Any = node.args[0]
    lengths = _lengths(node)
    if lengths == _lengths(source):
        node.replace_all_uses_with(source, lambda user: user.op != "output")
    node.target, node.args = aten.view.default, (source, lengths)


def _spell_out(node: torch.fx.Node) -> None:
    """Make the general convolution of one that leaves arguments out, or says them once."""
    places = CONVOLUTIONS[node.target]  # type: ignore[index]  # call_function nodes hold callables
    given: list[Any] = [*node.args, *ORDINARY[len(node.args) - 2 :]]
    stride, padding, dilation = (
        list(each) if len(each) == places else list(each) * places for each in given[3:6]
    )
    turned: list[Any] = [False, [0] * places]
    node.target = aten.convolution.default
    node.args = (*given[:3], stride, padding, dilation, *turned, given[6])


def _stays(node: torch.fx.Node, whole: frozenset[Any]) -> bool:
    """Whether decomposing leaves an operation as it is, or makes of it what is known."""
    if node.target in FOLDS:
        source = node.args[0]
        in_order = isinstance(source, torch.fx.Node) and _is_in_order(source.meta.get("val"))
        return in_order and _lengths(node).count(-1) <= 1
    if node.target in CONVOLUTIONS:
        value = node.meta.get("val")
        return isinstance(value, Tensor) and value.ndim == CONVOLUTIONS[node.target] + 2
    if node.target in (DROPOUT, NORM):
        return is_plain(node.target, node.args) and not node.kwargs
    return node.target in whole or node.target in BESIDE


def _lengths(node: torch.fx.Node) -> list[int]:
    """The shape of a value, with -1 for what is free."""
    return [each if isinstance(each, int) else -1 for each in node.meta["val"].shape]


def _is_in_order(value: Any) -> bool:
    """Whether a value lies in memory in the order of its places."""
    if not isinstance(value, Tensor):
        return False
    expected = 1
    for length, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if not isinstance(stride, int) or (length != 1 and stride != expected):
            return False
        expected = expected * length if isinstance(length, int) else 0  # nothing lies around it
    return True


def take_apart(exported: ExportedProgram, kept: tuple[Any, ...]) -> ExportedProgram:
    """Decompose everything but the operations ``kept``."""
    if not _is_known():
        return taken_apart_slowly(exported, kept)
    composite, others = _told(kept)
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
def _told(kept: tuple[Any, ...]) -> tuple[Table, Mapping[Any, Callable[..., Any]]]:
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
