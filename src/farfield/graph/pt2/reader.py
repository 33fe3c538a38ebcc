"""Read ``.pt2`` files without PyTorch's loader, and so without executing anything in them.

``torch.export.load`` unpickles parts of an archive and evaluates size expressions as Python. Here
the graph's JSON is validated, its operations are looked up in a fixed table, the weights are
taken as raw bytes, and an exported program is made of them anew. Shapes are worked out by running
the operations on tensors without data, under the budget of the file; what the file says about
the shapes of anything but its input and its weights is not needed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from farfield.budget import Budget, allowance
from farfield.errors import CaptureError
from farfield.graph.export import first_line, quiet_export
from farfield.graph.pt2 import schema
from farfield.graph.pt2.archive import (
    CONSTANTS,
    CONSTANTS_INDEX,
    MODEL,
    WEIGHTS,
    WEIGHTS_INDEX,
    Archive,
    open_archive,
)
from farfield.graph.pt2.tracing import Tracing
from farfield.graph.pt2.weights import element_type, read_tensors

KINDS = {
    "parameter": InputKind.PARAMETER,
    "buffer": InputKind.BUFFER,
    "tensor_constant": InputKind.CONSTANT_TENSOR,
}
# Parts of a weight's name that PyTorch needs for itself.
TAKEN = frozenset(dir(nn.Module()))


def load_pt2(path: Path) -> ExportedProgram:
    """Read an exported program.

    Raises:
        CaptureError: If the file is damaged, or holds anything but a graph of known operations
            and dense tensors; :class:`~farfield.errors.UnsupportedOperation` lists operations
            that are not known.
    """
    with open_archive(path) as archive:
        model = schema.parse(schema.Model, archive.read(MODEL), f"{path}:{MODEL}").graph_module
        budget = Budget(allowance(archive.size), "bytes", CaptureError)
        stored = read_tensors(archive, WEIGHTS, WEIGHTS_INDEX, budget)
        constants = read_tensors(archive, CONSTANTS, CONSTANTS_INDEX, budget)
    try:
        with quiet_export(), torch.no_grad():
            return _program(model, stored, constants, archive)
    except CaptureError:
        raise
    except Exception as error:  # torch documents no common base of what its tracing raises
        raise CaptureError(f"{path} holds a broken program: {first_line(error)}") from error


def _program(
    model: schema.GraphModule,
    stored: dict[str, Tensor],
    constants: dict[str, Tensor],
    archive: Archive,
) -> ExportedProgram:
    path = archive.path
    _check_structure(model, path)
    tracing = Tracing(str(path), archive.size)
    inputs: list[InputSpec] = []
    weights: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    for spec in model.signature.input_specs:
        if spec.user_input is not None:
            name = tracing.input(*_input(model.graph, spec.user_input.arg, path))
            inputs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(name), None))
            continue
        fqn, persistent = _target(spec)
        source, sink = (stored, weights) if persistent else (constants, kept)
        if fqn not in source:
            raise CaptureError(f"{path} names the weight {fqn!r}, which it does not hold")
        target = f"weights.{_safe(fqn, path)}"
        value = source[fqn]
        sink[target] = nn.Parameter(value, requires_grad=False) if spec.parameter else value
        name = tracing.constant(spec.value.arg.name, value)
        flag = persistent if spec.buffer is not None else None
        inputs.append(InputSpec(KINDS[spec.tag], TensorArgument(name), target, flag))
    tracing.check_known(model.graph.nodes)
    for node in model.graph.nodes:
        tracing.step(node)
    result = tracing.output(model.graph.outputs[0])
    outputs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(result), None)]
    return ExportedProgram(
        root=nn.Module(),
        graph=tracing.graph,
        graph_signature=ExportGraphSignature(inputs, outputs),
        state_dict=weights,
        range_constraints=tracing.ranges(),
        module_call_graph=[_call(tracing.input_name)],
        constants=kept,
        verifiers=[tracing.verifier()],
    )


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


def _input(
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


def _call(name: str) -> ModuleCallEntry:
    """How the program is called: with one tensor, giving one."""
    signature = ModuleCallSignature(
        inputs=[],
        outputs=[],
        in_spec=pytree.tree_flatten(((0,), {}))[1],
        out_spec=pytree.tree_flatten(0)[1],
        forward_arg_names=[name],
    )
    return ModuleCallEntry("", signature)
