"""What can be watched at work: modules in Python, and programs that were exported before."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.fx.node import map_arg
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from farfield.graph import recorder
from farfield.graph.export import place_of
from farfield.graph.program import CodePlace
from farfield.graph.recorder import RecordingError, record

TORCH = str(Path(torch.__file__).parent)
CALL = "_call_impl"  # the frame of a module's call
Tensors = Mapping[int, tuple[str, Tensor]]


class WatchedModule:
    """A module; it stays as it is."""

    def __init__(self, module: nn.Module) -> None:
        if isinstance(module, (torch.fx.GraphModule, torch.jit.ScriptModule)):
            raise RecordingError("the code of the module is not the user's")
        self.module = module
        self.tensors = _tensors_of(module)
        self.paths = {id(part): path for path, part in module.named_modules()}

    def run(self, batch: Tensor) -> Any:
        """Call it."""
        with _as_it_was(self.module):
            return self.module(batch)

    def place(self) -> CodePlace:
        """The innermost module, and the last line of code that is not PyTorch's own."""
        module = line = ""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not record.__code__:
            file = frame.f_code.co_filename
            if not file.startswith(TORCH) and file not in (__file__, recorder.__file__):
                line = line or f"{Path(file).name}:{frame.f_lineno}"
            elif frame.f_code.co_name == CALL and not module:
                called = frame.f_locals.get("self")
                path = self.paths.get(id(called), "") or "the model"
                module = f"{path} ({type(called).__name__})"
            frame = frame.f_back
        return CodePlace(module, line)


@dataclass
class WatchedProgram:
    """A program that was exported, node by node.

    Attributes:
        exported: The program.
        named: Its tensors, by the names of its placeholders.
        names: What they are called in the module that it was made of.
        output: The name of what it returns.
    """

    exported: ExportedProgram
    named: Mapping[str, Tensor]
    names: Mapping[str, str]
    output: str
    tensors: Tensors = field(init=False)
    node: torch.fx.Node | None = None

    def __post_init__(self) -> None:
        self.tensors = {id(each): (self.names[key], each) for key, each in self.named.items()}

    def run(self, batch: Tensor) -> Any:
        """Follow its nodes."""
        values: dict[torch.fx.Node, Any] = {}
        for node in self.exported.graph.nodes:
            if node.op == "placeholder":
                values[node] = self.named.get(node.name, batch)
            elif node.op == "call_function":
                self.node = node
                args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = node.target(*args, **kwargs)
            if node.name == self.output:
                return values[node]
        raise RecordingError("the program does not return what it says")

    def place(self) -> CodePlace:
        """Where the node that is followed came from."""
        return CodePlace() if self.node is None else place_of(self.node.meta)


def _tensors_of(module: nn.Module) -> Tensors:
    """Weights and buffers with their names, by their addresses.

    Raises:
        RecordingError: If a weight does not know its shape yet.
    """
    own: dict[int, tuple[str, Tensor]] = {}
    for path, tensor in (*module.named_parameters(), *module.named_buffers()):
        if isinstance(tensor, (UninitializedBuffer, UninitializedParameter)):
            raise RecordingError(f"{path} has no shape yet")
        own[id(tensor)] = path, tensor
    return own


@contextmanager
def _as_it_was(module: nn.Module) -> Iterator[None]:
    """Undo what a module writes into itself, and into its lists and dictionaries."""
    held = [
        each
        for part in module.modules()
        for each in (part.__dict__, *part.__dict__.values())
        if isinstance(each, (dict, list))
    ]
    before: list[Any] = [each.copy() for each in held]
    try:
        yield
    finally:
        for now, then in zip(held, before, strict=True):
            if isinstance(now, list):
                now[:] = then
            elif now.keys() != then.keys() or any(now[key] is not then[key] for key in then):
                now.clear()
                now.update(then)
