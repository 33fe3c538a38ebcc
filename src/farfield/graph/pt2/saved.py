"""What a ``.pt2`` file holds: a graph as validated JSON, and its weights taken as raw bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from farfield.budget import Budget, allowance
from farfield.errors import CaptureError
from farfield.graph.pt2 import schema
from farfield.graph.pt2.archive import (
    CONSTANTS,
    CONSTANTS_INDEX,
    MODEL,
    WEIGHTS,
    WEIGHTS_INDEX,
    open_archive,
)
from farfield.graph.pt2.weights import element_type, read_tensors

# Parts of a weight's name that PyTorch needs for itself.
TAKEN = frozenset(dir(nn.Module()))


@dataclass(frozen=True, eq=False)
class SavedProgram:
    """An exported program as its file says it.

    Attributes:
        path: The file.
        size: Of the file, in bytes.
        model: The graph, and what its inputs and outputs are.
        stored: Weights by their names in the module.
        constants: Other tensors by theirs.
    """

    path: Path
    size: int
    model: schema.GraphModule
    stored: dict[str, Tensor]
    constants: dict[str, Tensor]

    def weight(self, spec: schema.InputSpec) -> tuple[str, bool, Tensor]:
        """A weight's name in the module, whether it lies among the weights, and the weight."""
        name, persistent = _target(spec)
        source = self.stored if persistent else self.constants
        if name not in source:
            raise CaptureError(f"{self.path} names the weight {name!r}, which it does not hold")
        return _safe(name, self.path), persistent, source[name]


def open_saved(path: Path) -> SavedProgram:
    """Read a file, and see that one tensor goes in, one comes out, and nothing is changed.

    Raises:
        CaptureError: If the file is damaged, or holds anything but a graph and dense tensors.
    """
    with open_archive(path) as archive:
        model = schema.parse(schema.Model, archive.read(MODEL), f"{path}:{MODEL}").graph_module
        budget = Budget(allowance(archive.size), "bytes", CaptureError)
        stored = read_tensors(archive, WEIGHTS, WEIGHTS_INDEX, budget)
        constants = read_tensors(archive, CONSTANTS, CONSTANTS_INDEX, budget)
    _check_structure(model, path)
    return SavedProgram(path, archive.size, model, stored, constants)


def _check_structure(model: schema.GraphModule, path: Path) -> None:
    """One tensor goes in, one comes out, and nothing is changed on the way."""
    specs = model.signature.input_specs
    users = [spec for spec in specs if spec.tag in ("user_input", "constant_input")]
    if len(users) != 1 or users[0].user_input is None or users[0].user_input.arg.as_tensor is None:
        raise CaptureError(
            f"the model in {path} takes {len(users)} inputs; farfield follows one tensor of rows. "
            "Wrap the model so that forward() takes a single tensor."
        )
    if any(spec.user_output is None for spec in model.signature.output_specs):
        raise CaptureError(
            f"the model in {path} changes its own buffers; export it in evaluation mode: "
            "model.eval()"
        )
    kind = _returned(model.module_call_graph)
    count = len(model.graph.outputs)
    if count != 1 or len(model.signature.output_specs) != 1 or kind is not None:
        raise CaptureError(
            f"the model in {path} returns a {kind or 'tuple'} with {count} tensors; farfield "
            "needs one tensor of logits. Wrap the model so that forward() returns the logits alone."
        )


def _returned(calls: list[schema.CallEntry]) -> str | None:
    """The type that forward() returns; ``None`` for a tensor alone."""
    for call in calls:
        if call.fqn == "" and call.signature is not None:
            try:
                kind = json.loads(call.signature.out_spec)[1]["type"]
            except (ValueError, LookupError, TypeError, RecursionError):
                return "structure that cannot be read"
            return None if kind is None else str(kind).rsplit(".", 1)[-1][:50]
    return None


def input_of(
    graph: schema.SavedGraph, argument: schema.Argument, path: Path
) -> tuple[str, torch.dtype, int | None, list[int]]:
    """The input's name, element type, number of rows (``None``: any), and the shape of one."""
    assert argument.as_tensor is not None
    name = argument.as_tensor.name
    if name not in graph.tensor_values:
        raise CaptureError(f"{path} does not say what its input {name!r} is; the file is damaged")
    meta = graph.tensor_values[name]
    dtype = element_type(meta, f"the input {name!r} of {path}")
    sizes = [size.as_int for size in meta.sizes]
    if not dtype.is_floating_point or not sizes:
        raise CaptureError(f"the input of {path} is {dtype} with {len(sizes)} dimensions, not rows")
    shape = [size for size in sizes[1:] if size is not None]
    if len(shape) < len(sizes) - 1:
        raise CaptureError(
            f"only the first dimension of the input may vary, got {sizes} in {path}; export the "
            "model with fixed sizes for the others"
        )
    if any(size is not None and not 0 < size < 2**40 for size in sizes):
        raise CaptureError(f"the input of {path} has sizes {sizes}; the file is damaged")
    return name, dtype, sizes[0], shape


def _target(spec: schema.InputSpec) -> tuple[str, bool]:
    """A weight's name in the module, and whether it lies among the weights or the constants."""
    if spec.parameter is not None:
        return spec.parameter.parameter_name, True
    if spec.buffer is not None:
        return spec.buffer.buffer_name, spec.buffer.persistent
    assert spec.tensor_constant is not None
    return spec.tensor_constant.tensor_constant_name, False


def _safe(fqn: str, path: Path) -> str:
    """Refuse names that would replace parts of PyTorch's modules."""
    if any(part in TAKEN or part.startswith("__") for part in fqn.split(".")):
        raise CaptureError(f"{path} has a weight of the name {fqn!r}, which no module can have")
    return fqn
