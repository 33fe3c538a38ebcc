"""A graph made node by node from its JSON, every value on tensors without data.

Names were checked to be identifiers, operations come from a fixed table, arguments are checked
against the operation's own signature, and each step is paid for before the next is made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
from farfield.graph.pt2.operations import check_pieces, operations, window, work
from farfield.graph.pt2.weights import DTYPES, STRIDED

FLOATS = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}
MEMORY_FORMATS = {
    1: torch.contiguous_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
    4: torch.preserve_format,
}
TRACE_LINE = re.compile(r'\s*File "([^"\r\n]{1,400})", line (\d{1,9}), in ')
NOT_WORDS = re.compile(r"[^\w./\\<>\[\]() -]")
POSITIONAL = 1
SIMPLE = ("as_int", "as_ints", "as_string", "as_bool", "as_bools")
TABLES: Mapping[str, Mapping[int, Any]] = {
    "as_scalar_type": DTYPES,
    "as_memory_format": MEMORY_FORMATS,
    "as_layout": {STRIDED: torch.strided},
}


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
            f"  {node.target.removeprefix('torch.ops.')[:80]!r}  in {_place(node.metadata)}"
            for node in nodes
            if node.target not in self._known
        ]
        if unknown:
            raise UnsupportedOperation(
                f"{len(unknown)} operation{'s' if len(unknown) > 1 else ''} of {self.where} "
                "cannot be read from a .pt2 file:\n"
                + "\n".join(unknown[:20])
                + "\nSee docs/rules.md for what is supported; replace them by standard PyTorch "
                "operations."
            )

    def step(self, node: schema.SavedNode) -> None:
        """Add one operation and its results."""
        target = self._known[node.target]
        where = f"{self.where}: {node.target} in {_place(node.metadata)}"
        args, kwargs = self._arguments(target, node, where)
        names = _names(node, where)
        values, options = _values(args), _values(kwargs)
        bound = {item.name: _values(self._argument(item.arg, where)) for item in node.inputs}
        check_pieces(target, bound, len(names), where)
        with self._mode, enable_python_dispatcher():  # as torch.export itself does
            result = target(*values, **options)
        tensors = list(tensors_in((values, options)))
        self._work.spend(work(target, tensors, window(bound), result), where)
        self._pay(where, result)
        name = node.name or (names[0] if len(names) == 1 else None)
        made = self.graph.create_node("call_function", target, args, kwargs, name)
        made.meta.update(_meta(node.metadata))
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
            item.meta.update(_meta(node.metadata))
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

    def _arguments(
        self, target: Any, node: schema.SavedNode, where: str
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and named arguments, in the order of the operation's signature."""
        given = {item.name: item for item in node.inputs}
        if len(given) != len(node.inputs):
            raise CaptureError(f"{where} gives an argument twice; damaged")
        if not isinstance(target, torch._ops.OpOverload):  # arithmetic on sizes
            return tuple(self._argument(item.arg, where) for item in node.inputs), {}
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        complete = True
        for parameter in target._schema.arguments:
            item = given.pop(parameter.name, None)
            if item is None:
                complete = False
                continue
            value = self._argument(item.arg, where)
            kind = item.kind or (2 if parameter.has_default_value() else POSITIONAL)
            if parameter.kwarg_only or (kind != POSITIONAL and parameter.name.isidentifier()):
                kwargs[parameter.name] = value
            elif complete and not kwargs:
                args.append(value)
            else:
                raise CaptureError(f"{where} leaves out an argument before {parameter.name!r}")
        if given:
            raise CaptureError(f"{where} has no argument {next(iter(given))[:50]!r}; damaged")
        return tuple(args), kwargs

    def _argument(self, argument: schema.Argument, where: str) -> Any:
        """What an argument means."""
        tag, value = argument.tag, argument.value
        if tag in SIMPLE:
            return value
        if tag == "as_none":
            return None
        if tag in TABLES:
            if value not in TABLES[tag]:
                raise CaptureError(f"{where} has the unknown value {value} for {tag}; damaged")
            return TABLES[tag][value]
        if tag == "as_device":
            return torch.device("cpu")
        if tag == "as_tensor":
            return self._node(value.name)
        if tag == "as_tensors":
            return [self._node(item.name) for item in value]
        if tag in ("as_float", "as_floats"):
            return (
                [FLOATS.get(x, x) for x in value]
                if tag == "as_floats"
                else FLOATS.get(value, value)
            )
        items = [self._mention(item) for item in (value if isinstance(value, list) else [value])]
        return items if isinstance(value, list) else items[0]

    def _mention(self, item: schema.SizeArgument | schema.OptionalTensor) -> Any:
        """A size or a tensor that may be missing."""
        if isinstance(item, schema.OptionalTensor):
            return None if item.as_tensor is None else self._node(item.as_tensor.name)
        return item.as_int if item.as_name is None else self._node(item.as_name)


def _names(node: schema.SavedNode, where: str) -> list[str]:
    """The names that the file gives to an operation's results."""
    names: list[str] = []
    for output in node.outputs:
        if output.as_tensor is not None:
            names.append(output.as_tensor.name)
        elif output.as_tensors is not None and len(node.outputs) == 1:
            names.extend(item.name for item in output.as_tensors)
        elif output.as_sym_int is not None and output.as_sym_int.as_name is not None:
            names.append(output.as_sym_int.as_name)
        elif output.as_none is None:
            raise CaptureError(f"{where} returns something else than tensors and sizes")
    return names


def _values(tree: Any) -> Any:
    """Nodes replaced by their tensors without data."""
    return map_arg(tree, lambda node: node.meta["val"])


def _meta(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Where an operation came from, without anything that could be more than words."""
    trace = TRACE_LINE.findall(metadata.get("stack_trace", "")[:20_000])
    lines = [f'File "{_words(file)}", line {number}, in forward' for file, number in trace]
    stack = {}
    for index, item in enumerate(metadata.get("nn_module_stack", "")[:5_000].split(";")):
        key, _, rest = item.partition(",")
        path, _, kind = rest.partition(",")
        if key:
            stack[f"{index}"] = (_words(path), _words(kind))
    return {"nn_module_stack": stack, **({"stack_trace": "\n".join(lines)} if lines else {})}


def _place(metadata: Mapping[str, str]) -> str:
    """Where an operation came from, in words."""
    stack = list(_meta(metadata)["nn_module_stack"].values())
    return (
        f"{stack[-1][0] or 'the model'} ({stack[-1][1].rsplit('.', 1)[-1]})"
        if stack
        else "the model"
    )


def _words(text: str) -> str:
    return NOT_WORDS.sub("?", text)[:200]
