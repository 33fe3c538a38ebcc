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
Named = tuple[Any, tuple[Any, ...]]
# Not public: where it is not as it was, the public way is taken.
NEEDED = ("cia_to_decomp", "python_decomp_table", "joint_loss_index", "decompose_custom_triton_ops")

# Parts of results, and arithmetic on sizes.
BESIDE = frozenset(
    (
        *(operator.getitem, operator.mul, operator.add, operator.sub, operator.floordiv),
        aten.sym_size.int,
    )
)
# Views, where values lie in their order; elsewhere of copies in their order.
FOLDS = (aten.flatten.using_ints, aten.reshape.default, aten.unflatten.int)
# With so many dimensions of places each; what is not said of them is ORDINARY.
CONVOLUTIONS = {aten.conv1d.default: 1, aten.conv2d.default: 2, aten.conv3d.default: 3}
ORDINARY = (None, [1], [0], [1], 1)  # bias, stride, padding, dilation, groups
IN_ORDER: dict[str, Any] = {"memory_format": torch.contiguous_format}


def left_together(exported: ExportedProgram, kept: tuple[Any, ...]) -> bool:
    """Whether taking apart changes little; if so, that little is done.

    Dead ends are cut, folds become views, convolutions say everything that they are, and other
    names of operations with a rule become these.
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
        elif node.target in OTHER_NAMES:
            node.target, node.args = OTHER_NAMES[node.target](node)
        elif node.target is aten.contiguous.default:
            _put_in_order(node)
    exported.graph.eliminate_dead_code()
    return True


def _unfold(node: torch.fx.Node) -> None:
    """Make a view of a fold, or nothing where the shape stays; what is returned keeps its name."""
    source: Any = node.args[0]
    lengths = _lengths(node)
    if lengths == _lengths(source):
        node.replace_all_uses_with(source, lambda user: user.op != "output")
    elif node.target is not aten.unflatten.int and not _is_in_order(source.meta["val"]):
        with node.graph.inserting_before(node):
            copy = node.graph.call_function(aten.clone.default, (source,), IN_ORDER)
        copy.meta = {**node.meta, "val": source.meta["val"]}
        node.target, node.args = aten._unsafe_view.default, (copy, lengths)
        return
    node.target, node.args = aten.view.default, (source, lengths)


def _put_in_order(node: torch.fx.Node) -> None:
    """Make a copy of values that lie in another order, and nothing of others."""
    source: Any = node.args[0]
    if _is_in_order(source.meta["val"]):
        node.replace_all_uses_with(source, lambda user: user.op != "output")
    node.target, node.kwargs = aten.clone.default, IN_ORDER


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


def _as_split(node: torch.fx.Node) -> Named | None:
    """Chunks, which are told how many they are, as parts that are told how long."""
    arguments: tuple[Any, ...] = node.args
    source, count, *place = arguments
    length = _value(source).shape[place[0] if place else 0]
    if not isinstance(length, int) or length == 0:
        return None
    return aten.split.Tensor, (source, -(-length // count), *place)


def _as_expansion(node: torch.fx.Node) -> Named | None:
    """An expansion to a shape; how often rows are repeated has no number."""
    source: Any = node.args[0]
    lengths, own = _lengths(node), _lengths(source)
    own = [0] * (len(lengths) - len(own)) + own
    free = [before == -1 for before, after in zip(own, lengths, strict=True) if after == -1]
    return (aten.expand.default, (source, lengths)) if all(free) else None


def _as_permutation(node: torch.fx.Node) -> Named:
    """All dimensions the other way around."""
    return aten.permute.default, (node.args[0], [*reversed(range(_value(node.args[0]).ndim))])


def _as_transposition(node: torch.fx.Node) -> Named:
    """The last two dimensions the other way around."""
    return aten.transpose.int, (node.args[0], -2, -1)


def _as_frame(node: torch.fx.Node) -> Named | None:
    """Padding with a number."""
    given: list[Any] = [*node.args, *("constant", None)[len(node.args) - 2 :]]
    source, widths, mode, value = given
    if mode != "constant":
        return None
    return aten.constant_pad_nd.default, (source, widths, 0.0 if value is None else value)


# Operations that are others with their arguments said otherwise; ``None`` where they are not.
OTHER_NAMES: Mapping[Any, Callable[[torch.fx.Node], Any]] = {
    aten.chunk.default: _as_split,
    aten.expand_as.default: _as_expansion,
    aten.numpy_T.default: _as_permutation,
    aten.mT.default: _as_transposition,
    aten.pad.default: _as_frame,
}


def _value(node: Any) -> Any:
    """What an argument was when it was traced; nothing for numbers."""
    return node.meta.get("val") if isinstance(node, torch.fx.Node) else None


def _stays(node: torch.fx.Node, whole: frozenset[Any]) -> bool:
    """Whether decomposing leaves an operation as it is, or makes of it what is known."""
    if node.target in FOLDS:
        return isinstance(_value(node.args[0]), Tensor) and _lengths(node).count(-1) <= 1
    if node.target is aten.contiguous.default:
        return isinstance(_value(node.args[0]), Tensor) and not node.kwargs
    if node.target in OTHER_NAMES:
        known = isinstance(_value(node.args[0]), Tensor) and not node.kwargs
        return known and OTHER_NAMES[node.target](node) is not None
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
