"""Programs in ``.pt2`` files, watched on two batches without numbers, as modules are.

Nothing of PyTorch's compiler is needed for that. Operations come from the same table as in
:mod:`~farfield.graph.pt2.tracing`, arguments are checked in the same way, and the first run pays
for each step from the budgets of the file, all rows of the batch included, which is more than
tracing asks. Whatever cannot be followed is left to tracing, and every complaint with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from torch import Tensor

from farfield import budget
from farfield.budget import Budget
from farfield.errors import CaptureError
from farfield.graph.export import Read, place_of
from farfield.graph.program import CodePlace, tensors_in
from farfield.graph.pt2 import schema
from farfield.graph.pt2.arguments import argument, arguments, origin, result_names
from farfield.graph.pt2.operations import check_pieces, check_size, operations, work, written_out
from farfield.graph.pt2.saved import SavedProgram, input_of
from farfield.graph.recorded import watched
from farfield.graph.recorder import RecordingError
from farfield.graph.watched import Tensors


def follow(saved: SavedProgram) -> Read:
    """Read a program by watching what it does to batches.

    Raises:
        RecordingError: If it does something that is not followed there.
        CaptureError: If the file is damaged.
    """
    subject = WatchedFile(saved)
    return watched(subject, subject.shape, subject.dtype, subject.rows)


class WatchedFile:
    """A saved program, node by node."""

    def __init__(self, saved: SavedProgram) -> None:
        self.saved, self.where = saved, str(saved.path)
        self.named: dict[str, Tensor] = {}
        owned: dict[int, tuple[str, Tensor]] = {}
        self._budgets: _Budgets | None = _Budgets(saved.size)
        self._node: schema.SavedNode | None = None
        self._places: dict[int, CodePlace] = {}
        graph = saved.model.graph
        for spec in saved.model.signature.input_specs:
            if spec.user_input is not None:
                self.input, self.dtype, rows, shape = input_of(
                    graph, spec.user_input.arg, saved.path
                )
                self.rows, self.shape = rows or 0, tuple(shape)
                continue
            path, _, tensor = saved.weight(spec)
            self._add(self.named, spec.value.arg.name, tensor)
            owned[id(tensor)] = f"weights.{path}", tensor
        self.tensors: Tensors = owned

    @cached_property
    def known(self) -> Mapping[str, Any]:
        """Operations that a file may name."""
        return operations()

    def run(self, batch: Tensor) -> Any:
        """Follow its nodes; the first run pays for them."""
        graph = self.saved.model.graph
        values: dict[str, Any] = dict(self.named)
        self._add(values, self.input, batch)
        self._pay(self.input, batch)
        for node in graph.nodes:
            self._node = node
            self._step(node, values)
        self._budgets = None
        last = graph.outputs[0].as_tensor
        return None if last is None else values.get(last.name)

    def place(self) -> CodePlace:
        """Where the node that is followed came from."""
        node = self._node
        if node is None:
            return CodePlace()
        if id(node) not in self._places:
            self._places[id(node)] = place_of(origin(node.metadata))
        return self._places[id(node)]

    def _step(self, node: schema.SavedNode, values: dict[str, Any]) -> None:
        """Do one operation, and name its results."""

        def look(name: str) -> Any:
            if name not in values:
                raise RecordingError(f"{name} is used before it is made")
            return values[name]

        if node.target not in self.known:
            raise RecordingError(f"{node.target} is not known")
        target = self.known[node.target]
        args, kwargs = arguments(target, node, self.where, look)
        names = result_names(node, self.where)
        bound = {item.name: argument(item.arg, self.where, look) for item in node.inputs}
        check_pieces(target, bound, len(names), self.where)
        if self._budgets is not None:
            self._budgets.work.spend(written_out(target, bound), self.where)
        result = target(*args, **kwargs)
        check_size(result, self.where)
        if self._budgets is not None:
            given = list(tensors_in((args, kwargs)))
            self._budgets.work.spend(work(target, bound, given, result), self.where)
        self._pay(self.where, result)
        several = isinstance(result, (list, tuple))
        made = list(result) if several else [] if result is None else [result]
        if len(made) != len(names):
            raise RecordingError(f"{node.target} names {len(names)} results")
        for name, value in zip(names, made, strict=True):
            self._add(values, name, value)

    def _add(self, values: dict[str, Any], name: str, value: Any) -> None:
        if name in values:
            raise RecordingError(f"{name} is two values")
        values[name] = value

    def _pay(self, where: str, result: Any) -> None:
        """Pay for holding a value."""
        if self._budgets is not None:
            for tensor in tensors_in(result):
                self._budgets.bytes.spend(tensor.numel() * tensor.dtype.itemsize, where)


class _Budgets:
    """What a file of so many bytes may ask for."""

    def __init__(self, size: int) -> None:
        self.bytes = Budget(budget.allowance(size), "bytes", CaptureError)
        self.work = Budget(budget.operations(size), "operations", CaptureError)
