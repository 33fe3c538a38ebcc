"""Read ``.pt2`` files without PyTorch's loader, and so without executing anything in them.

``torch.export.load`` unpickles parts of an archive and evaluates size expressions as Python. Here
the graph's JSON is validated, its operations are looked up in a fixed table, the weights are
taken as raw bytes, and an exported program is made of them anew. Shapes are worked out by running
the operations on tensors without data, under the budget of the file; what the file says about
the shapes of anything but its input and its weights is not needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
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

from farfield.errors import CaptureError
from farfield.graph.export import first_line, quiet_export
from farfield.graph.pt2.saved import SavedProgram, input_of, open_saved
from farfield.graph.pt2.tracing import Tracing

KINDS = {
    "parameter": InputKind.PARAMETER,
    "buffer": InputKind.BUFFER,
    "tensor_constant": InputKind.CONSTANT_TENSOR,
}


def load_pt2(path: Path) -> ExportedProgram:
    """Read an exported program.

    Raises:
        CaptureError: If the file is damaged, or holds anything but a graph of known operations
            and dense tensors; :class:`~farfield.errors.UnsupportedOperation` lists operations
            that are not known.
    """
    return exported(open_saved(path))


def exported(saved: SavedProgram) -> ExportedProgram:
    """Make an exported program of what a file says; errors are those of :func:`load_pt2`."""
    try:
        with quiet_export(), torch.no_grad():
            return _program(saved)
    except CaptureError:
        raise
    except Exception as error:  # torch documents no common base of what its tracing raises
        raise CaptureError(f"{saved.path} holds a broken program: {first_line(error)}") from error


def _program(saved: SavedProgram) -> ExportedProgram:
    model = saved.model
    tracing = Tracing(str(saved.path), saved.size)
    inputs: list[InputSpec] = []
    weights: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    for spec in model.signature.input_specs:
        if spec.user_input is not None:
            name = tracing.input(*input_of(model.graph, spec.user_input.arg, saved.path))
            inputs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(name), None))
            continue
        fqn, persistent, value = saved.weight(spec)
        target = f"weights.{fqn}"
        sink = weights if persistent else kept
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
