"""An ``.onnx`` file as a :class:`Program` of ATen operations.

Every node that the scores of the classes depend on is read in the order of the file: what depends
on weights and shapes alone is computed, the rest becomes steps. Whatever cannot be read is noted
and the reading goes on, so that one error lists everything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

import farfield.graph.onnx.operators  # noqa: F401 - importing it registers the operators
from farfield.errors import CaptureError
from farfield.graph.heads import is_made_of_shares
from farfield.graph.network import Label
from farfield.graph.onnx.constants import can_compute, compute
from farfield.graph.onnx.files import OPSETS, ModelFile, load_file, normal_domain, opsets
from farfield.graph.onnx.heads import Graph, find_labels, find_scores
from farfield.graph.onnx.inputs import Inputs, read_inputs
from farfield.graph.onnx.node import OPERATORS, read_node
from farfield.graph.onnx.trace import ROWS, Known, ProgramBuilder, Refusal, Value
from farfield.graph.program import CodePlace, Program, Step, taint
from farfield.graph.reading import TAKES_MISSING, Link
from farfield.graph.scikit.softmax import SOFTMAX
from farfield.graph.simplify import check
from farfield.graph.stepwise import apply_row

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

aten = torch.ops.aten
CONTROL_FLOW = ("If", "Loop", "Scan", "SequenceMap")
MOST_NODES, MOST_OUTPUTS = 20_000, 1_000


@dataclass(frozen=True)
class OnnxReading:
    """What an ``.onnx`` file holds.

    Attributes:
        program: The model, its head still on.
        constants: Its weights.
        labels: The names of its classes, if the file says them.
        features: The names of its inputs, if every feature has its own.
        notes: What the user may want to know.
        link: What its outputs are: probabilities if trees make them, else what :mod:`heads` finds.
        rows: The batch size that the file fixes, 0 if it is free.
    """

    program: Program
    constants: dict[str, Tensor]
    labels: tuple[Label, ...] | None
    features: tuple[str, ...] | None
    notes: tuple[str, ...]
    link: Link
    rows: int = 0


def read_onnx(
    path: str | os.PathLike[str],
    example_shape: tuple[int, ...] | None = None,
    batch: int | None = None,
) -> OnnxReading:
    """Read an ``.onnx`` file.

    Args:
        path: The file.
        example_shape: The shape of one row, for files that leave it open.
        batch: How many rows to read it for; ``None`` for any number.

    Raises:
        CaptureError: If the file is damaged or the model cannot be read;
            :class:`~farfield.errors.UnsupportedOperation` lists every node that stands in the way.
    """
    file = load_file(path)
    graph = Graph(file)
    _check_graph(graph)
    inputs = read_inputs(graph, example_shape)
    scores = find_scores(graph)
    trace = ProgramBuilder(inputs.shape, inputs.rows, batch)
    output = _translate(trace, graph, inputs, scores)
    program = _program(trace, output, scores, file)
    features = tuple(inputs.widths) if set(inputs.widths.values()) == {1} else None
    if len(inputs.widths) == 1:
        features = None
    notes = inputs.notes
    if any(node.op_type == "Imputer" for node in file.model.graph.node):
        notes = (*notes, TAKES_MISSING)
    link: Link = "softmax"
    if is_made_of_shares(program, trace.constants):
        program, link = _with_limits(program), "identity"
    return OnnxReading(
        program, trace.constants, find_labels(graph), features, notes, link, inputs.rows
    )


def _with_limits(program: Program) -> Program:
    """Write softmaxes that are averaged with trees as functions of rows, which have limits."""

    def read(step: Step) -> Step:
        if step.target is not aten.softmax.int or step.shape is None or len(step.shape) != 2:
            return step
        return replace(step, target=apply_row, args=(step.args[0], SOFTMAX), kwargs={})

    return program.with_steps(tuple(map(read, program.steps)))


def _check_graph(graph: Graph) -> None:
    """Refuse what no straight-line network has."""
    proto, path = graph.file.model.graph, graph.file.path
    if len(proto.node) > MOST_NODES or len(proto.output) > MOST_OUTPUTS:
        raise CaptureError(
            f"{path} has {len(proto.node)} nodes and {len(proto.output)} outputs; farfield reads "
            f"up to {MOST_NODES} and {MOST_OUTPUTS}"
        )
    if proto.sparse_initializer:
        raise CaptureError(f"{path} has sparse weights; export the model with dense ones")
    if not all(isinstance(name, str) for name in _names(proto)):
        raise CaptureError(f"{path} has names that are not text; the file is damaged")
    made = [name for node in proto.node for name in node.output if name]
    given = [*graph.initializers, *(item.name for item in proto.input)]
    if len(set(made)) < len(made) or set(made) & set(given):
        raise CaptureError(f"{path} makes a value twice; the file is damaged")


def _names(proto: GraphProto) -> Iterator[Any]:
    """Every name in a graph; where the bytes are not text, they come as bytes."""
    for item in (*proto.input, *proto.output, *proto.initializer):
        yield item.name
    for node in proto.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


def _translate(trace: ProgramBuilder, graph: Graph, inputs: Inputs, scores: str) -> Value | None:
    """Read the nodes that the scores depend on; ``None`` if some could not be read."""
    versions = opsets(graph.file)
    values: dict[str, Value] = _start(trace, inputs)
    lost: set[str] = set()
    for proto in graph.needed(scores):
        name = proto.name or next(filter(None, proto.output), "")
        trace.source = CodePlace(f"{name} ({proto.op_type})")
        for item in proto.input:
            if item and item not in values and item not in lost:
                if item not in graph.initializers:
                    raise CaptureError(
                        f"node {name!r} of {graph.file.path} reads {item!r}, which nothing makes "
                        "before it; the file is damaged"
                    )
                values[item] = trace.weight(graph.file.tensor(graph.initializers[item]))
        result = _apply(trace, graph.file, proto, values, lost, versions)
        for place, item in enumerate(proto.output):
            made = result[place] if place < len(result) else None
            if made is None:
                lost.add(item)
            else:
                values[item] = made
    return values.get(scores)


def _start(trace: ProgramBuilder, inputs: Inputs) -> dict[str, Value]:
    """The inputs of the file as columns of the program's input."""
    if len(inputs.widths) == 1:
        whole = replace(trace.input, single=not inputs.double)
        return dict.fromkeys(inputs.widths, whole)
    values: dict[str, Value] = {}
    end = 0
    for name, width in inputs.widths.items():
        trace.source = CodePlace(f"{name} (input)")
        source = replace(trace.input, single=name not in inputs.double)
        values[name] = trace.emit(aten.slice.Tensor, source, 1, end, end + width)
        end += width
    return values


def _apply(
    trace: ProgramBuilder,
    file: ModelFile,
    proto: NodeProto,
    values: dict[str, Value],
    lost: set[str],
    versions: dict[str, int],
) -> tuple[Value | None, ...]:
    """Read one node; note why if that is not possible."""
    domain = normal_domain(proto.domain)
    title = f"{domain or 'onnx'}.{proto.op_type}"
    if any(item in lost for item in proto.input):
        if (domain, proto.op_type) not in OPERATORS:
            trace.missing(title, _why_unknown(domain, proto.op_type))
        return ()
    inputs = [values[item] if item else None for item in proto.input]
    count = len(trace.steps)
    try:
        result = _read(trace, file, proto, inputs, versions)
    except Refusal as refusal:
        del trace.steps[count:]
        trace.missing(title, str(refusal))
        return ()
    except CaptureError:
        raise
    except Exception as error:  # PyTorch documents no common base of what it raises
        del trace.steps[count:]
        text = str(error).strip().splitlines() or [type(error).__name__]
        trace.missing(title, f"cannot be read: {text[0][:200]}")
        return ()
    return result if isinstance(result, tuple) else (result,)


def _read(
    trace: ProgramBuilder,
    file: ModelFile,
    proto: NodeProto,
    inputs: list[Value | None],
    versions: dict[str, int],
) -> Value | tuple[Value | None, ...]:
    """Read a node as ATen; compute it where that is not known and everything it reads is."""
    domain = normal_domain(proto.domain)
    read = OPERATORS.get((domain, proto.op_type))
    if not domain and can_compute(proto, inputs):
        return compute(trace, proto, inputs, versions[""])
    if read is None:
        raise Refusal(_why_unknown(domain, proto.op_type))
    return read(trace, read_node(file, proto, inputs, versions))


def _why_unknown(domain: str, name: str) -> str:
    if domain not in OPSETS:
        return f"an operator of its own ({domain})"
    return "control flow" if name in CONTROL_FLOW else ""


def _program(trace: ProgramBuilder, output: Value | None, scores: str, file: ModelFile) -> Program:
    """Put the steps together, or list what could not be read."""
    if isinstance(output, Known):
        raise CaptureError(
            f"the output {scores!r} of {file.path} does not depend on the input; is it a model?"
        )
    if output is not None and 0 in output.shape:
        raise CaptureError(f"the output {scores!r} of {file.path} is empty; is it a model?")
    program = trace.program(output)
    if output is None:
        check(taint(program), fixed_rows=trace.batch != ROWS)
        raise CaptureError(f"the output {scores!r} of {file.path} could not be read")
    return program
