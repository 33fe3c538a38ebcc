"""A graph made node by node from its JSON, every value on tensors without data.

Names were checked to be identifiers, operations come from a fixed table, arguments are checked
against the operation's own signature, and each step is paid for before the next is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import getitem
from typing import Any

import torch
from torch import Tensor
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._export.verifier import TrainingIRVerifier
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.fx.node import map_arg
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from farfield import budget
from farfield.budget import Budget
from farfield.errors import CaptureError, UnsupportedOperation
from farfield.graph.program import tensors_in
from farfield.graph.pt2 import schema
from farfield.graph.pt2.arguments import argument, arguments, origin, place, result_names
from farfield.graph.pt2.operations import check_pieces, check_size, operations, work, written_out


class Tracing:
    """The graph as far as it has been made."""

    def __init__(self, where: str, size: int) -> None:
        self.where = where
        self.graph = Graph()
        self.input_name = ""
        self._shapes = ShapeEnv()
        self._mode = FakeTensorMode(shape_env=self._shapes, export=True)
        self._rows: Any = None
        self._nodes: dict[str, Node] = {}
        self._known = operations()
        self._bytes = Budget(budget.allowance(size), "bytes", CaptureError)
        self._work = Budget(budget.operations(size), "operations", CaptureError)

    def input(self, name: str, dtype: torch.dtype, rows: int | None, shape: list[int]) -> str:
        """Add the input; ``rows`` of ``None`` is a free number of them."""
        length: int | torch.SymInt | None = rows
        if length is None:
            source = ConstantSource("rows")
            self._rows = self._shapes.create_symbol(2, source, dynamic_dim=DimDynamic.DYNAMIC)
            length = self._shapes.create_symintnode(self._rows, hint=2, source=source)
        with self._mode:
            value = torch.empty((length, *shape), dtype=dtype)
        self._pay("its input", value)
        self.input_name = self._add(name, self.graph.placeholder(name), value)
        return self.input_name

    def constant(self, name: str, tensor: Tensor) -> str:
        """Add a weight."""
        value = self._mode.from_tensor(tensor, static_shapes=True)
        return self._add(name, self.graph.placeholder(name), value)

    def ranges(self) -> dict[Any, Any]:
        """What is known of the number of rows."""
        return {} if self._rows is None else {self._rows: ValueRanges(2, int_oo)}

    def verifier(self) -> type[TrainingIRVerifier]:
        """PyTorch's own check of what was made."""
        return TrainingIRVerifier

    def check_known(self, nodes: Sequence[schema.SavedNode]) -> None:
        """List every operation that is not in the table, in one error."""
        unknown = [
            f"  {node.target.removeprefix('torch.ops.')[:80]!r}  in {place(node.metadata)}"
            for node in nodes
            if node.target not in self._known
        ]
        if unknown:
            raise UnsupportedOperation(
                f"{len(unknown)} operation{'s' if len(unknown) > 1 else ''} of {self.where} "
                "cannot be read from a .pt2 file:\n"
                + "\n".join(unknown[:20])
                + "\nfarfield explain rules lists what is supported; replace them by standard "
                "PyTorch operations."
            )

    def step(self, node: schema.SavedNode) -> None:
        """Add one operation and its results."""
        target = self._known[node.target]
        where = f"{self.where}: {node.target} in {place(node.metadata)}"
        args, kwargs = arguments(target, node, where, self._node)
        names = result_names(node, where)
        values, options = _values(args), _values(kwargs)
        bound = {item.name: _values(argument(item.arg, where, self._node)) for item in node.inputs}
        check_pieces(target, bound, len(names), where)
        self._work.spend(written_out(target, bound), where)
        with self._mode, enable_python_dispatcher():  # as torch.export itself does
            result = target(*values, **options)
        check_size(result, where)
        tensors = list(tensors_in((values, options)))
        self._work.spend(work(target, bound, tensors, result), where)
        self._pay(where, result)
        name = node.name or (names[0] if len(names) == 1 else None)
        made = self.graph.create_node("call_function", target, args, kwargs, name)
        made.meta.update(origin(node.metadata))
        self._results(made, result, node, names)

    def output(self, argument: schema.Argument) -> str:
        """End the graph; the name of the value that it returns."""
        node = self._node("" if argument.as_tensor is None else argument.as_tensor.name)
        if not isinstance(node.meta["val"], Tensor):
            raise CaptureError(f"{self.where} returns no tensor")
        made = self.graph.output((node,))
        made.meta["val"] = (node.meta["val"],)
        return str(node.name)

    def _results(self, made: Node, result: Any, node: schema.SavedNode, names: list[str]) -> None:
        """Name what an operation returned."""
        if not isinstance(result, (list, tuple)):
            if len(names) != int(result is not None):
                raise CaptureError(f"{self.where}: {node.target} names {len(names)} results")
            self._add(names[0] if names else "", made, result)
            return
        if len(names) != len(result):
            raise CaptureError(f"{self.where}: {node.target} names {len(names)} results")
        self._add("", made, result)
        for index, name in enumerate(names):
            item = self.graph.create_node("call_function", getitem, (made, index), {}, name)
            item.meta.update(origin(node.metadata))
            self._add(name, item, result[index])

    def _add(self, name: str, node: Node, value: Any) -> str:
        if name in self._nodes:
            raise CaptureError(f"{self.where} gives the name {name!r} to two values; damaged")
        node.meta["val"] = value
        if name:
            self._nodes[name] = node
        return str(node.name)

    def _node(self, name: str) -> Node:
        if name not in self._nodes:
            raise CaptureError(f"{self.where} uses the value {name!r} before it is made; damaged")
        return self._nodes[name]

    def _pay(self, where: str, result: Any) -> None:
        """Pay for holding one row of a value."""
        for tensor in tensors_in(result):
            lengths = [length for length in tensor.shape if isinstance(length, int)]
            self._bytes.spend(prod(lengths) * tensor.dtype.itemsize, where)


def _values(tree: Any) -> Any:
    """Nodes replaced by their tensors without data."""
    return map_arg(tree, lambda node: node.meta["val"])
