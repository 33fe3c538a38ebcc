"""Guarded ONNX files, read back: every node is made again from the numbers in the file.

A guard whose nodes are not exactly those is not one of ours.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import ValidationError

from farfield.data.columns import Columns
from farfield.errors import CaptureError, InputError, MissingDependency
from farfield.graph.onnx.files import ModelFile, load_file
from farfield.graph.onnx.heads import FLOATS, SAME_SCORES, SQUASHED, Graph
from farfield.guard.certificate import Certificate
from farfield.guard.covered import Covered
from farfield.guard.onnx_envelope import DERIVED, OUTPUTS
from farfield.guard.onnx_nodes import DOUBLE, FLOAT, PREFIX, Nodes
from farfield.guard.onnx_record import CERTIFICATE, GUARD, OWN, GuardRecord, guard_nodes, opset_of
from farfield.guard.onnx_scores import scores_name
from farfield.guard.records import failing_as_damage, restore_covered
from farfield.guard.verify import Verification, verify

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

# What may lie between the guarded scores and an output.
FOLLOWING = (*SAME_SCORES, *SQUASHED, "Cast")


@dataclass(frozen=True, eq=False)
class GuardedFile:
    """A guarded ONNX file, read back.

    Attributes:
        covered: The covered set.
        columns: What the columns are.
        certificate: The promise.
        inside: The model without its guard.
    """

    covered: Covered
    columns: Columns
    certificate: Certificate
    inside: ModelProto

    def verify(self) -> Verification:
        """Prove the certificate again, from the file's numbers."""
        return verify(self.certificate, self.covered)


def is_guarded(path: str | os.PathLike[str]) -> bool:
    """Whether an ONNX file says that it has a guard."""
    try:
        model = load_file(path).model
    except (CaptureError, MissingDependency):
        return False
    return any(entry.key == GUARD for entry in model.metadata_props)


def read_guarded(path: str | os.PathLike[str]) -> GuardedFile:
    """Read a guarded file back, and see that its guard is the one its numbers make.

    Raises:
        InputError: If it has no guard, or one that was changed.
    """
    where = os.fspath(path)
    if not Path(path).is_file():
        raise InputError(f"no file at {where!r}")
    try:
        model = load_file(path).model
    except CaptureError as error:
        raise InputError(f"{where!r} is not an ONNX file: {error}") from error
    said = {entry.key: entry.value for entry in model.metadata_props}
    if GUARD not in said or CERTIFICATE not in said:
        raise InputError(f"{where!r} holds no certificate of a guard")
    try:
        record = GuardRecord.model_validate(json.loads(said[GUARD]))
    except (ValueError, ValidationError, RecursionError) as error:
        raise InputError(f"the guard of {where!r} is damaged: {error}") from error
    certificate = Certificate.from_json(said[CERTIFICATE])
    return failing_as_damage(where, lambda: _read(model, record, certificate))


def _read(model: ModelProto, record: GuardRecord, certificate: Certificate) -> GuardedFile:
    from onnx import numpy_helper

    graph = model.graph
    prefix = f"{PREFIX}covered."
    tensors = {
        tensor.name.removeprefix(PREFIX): torch.from_numpy(numpy_helper.to_array(tensor).copy())
        for tensor in graph.initializer
        if tensor.name.startswith(prefix)
    }
    tensors.pop("covered.numeric", None)
    for index, name in enumerate(record.covered.views):
        if name == "categories":
            tensors.setdefault(f"covered.views.{index}.binary", torch.zeros(0, dtype=torch.long))
    if len(record.covered.other) == len(tensors["covered.fill"]):
        for name in ("mean", "unit"):
            tensors[f"covered.whitened.{name}"] = torch.zeros(0, dtype=torch.float64)
    if record.covered.reduced is not None:
        for name in ("mean", "unit"):
            tensors[f"covered.reduced.{name}"] = tensors[f"covered.whitened.{name}"]
    covered = restore_covered(record.covered, tensors)
    columns = record.columns.columns()
    if columns.width != covered.columns or certificate.classes != record.classes:
        raise InputError("its columns or classes are not those of its guard")
    if (record.features is None) != (covered.inner is None):
        raise InputError("its features are not those that its guard looks at")
    expected = guard_nodes(record, covered, opset_of(model))
    _check_nodes(graph, expected)
    _check_inputs(graph, record)
    if not record.outputs:
        _check_outputs(graph, record)
        return GuardedFile(covered, columns, certificate, _stripped(model, record))
    inside = _stripped(model, record)
    _check_envelope(graph, record, inside)
    return GuardedFile(covered, columns, certificate, inside)


def _check_nodes(graph: GraphProto, expected: Nodes) -> None:
    """See that the file holds exactly the nodes and numbers of its guard."""
    nodes = [node for node in graph.node if node.name.startswith(PREFIX)]
    if [n.SerializeToString() for n in nodes] != [n.SerializeToString() for n in expected.nodes]:
        raise InputError("the nodes of its guard are not those that its numbers make")
    tensors = {each.name: each for each in graph.initializer if each.name.startswith(PREFIX)}
    if tensors.keys() != expected.tensors.keys() or not all(
        _same_numbers(each, expected.tensors[name]) for name, each in tensors.items()
    ):
        raise InputError("the numbers of its guard are not those that its nodes need")
    taken = {name for node in expected.nodes for name in node.output}
    for node in graph.node:
        if node.name.startswith(PREFIX):
            continue
        if taken & set(node.output) or (OWN in node.input):
            raise InputError(f"node {node.name!r} goes around the guard")


def _same_numbers(own: TensorProto, expected: TensorProto) -> bool:
    """Whether two tensors are the same, to the bit wherever a promise depends on it."""
    from onnx import numpy_helper

    if own.SerializeToString() == expected.SerializeToString():
        return True
    if not own.name.startswith(PREFIX + DERIVED) or own.data_type != expected.data_type:
        return False
    first, second = numpy_helper.to_array(own), numpy_helper.to_array(expected)
    return first.shape == second.shape and np.allclose(first, second, rtol=1e-6, atol=1e-6)


def _check_outputs(graph: GraphProto, record: GuardRecord) -> None:
    """See that all scores that are given out come from the guard."""
    makers = {name: node for node in graph.node for name in node.output}
    for output in graph.output:
        kind = output.type.WhichOneof("value")
        if kind == "tensor_type" and output.type.tensor_type.elem_type not in FLOATS:
            continue
        name = output.name
        while name in makers and makers[name].op_type in FOLLOWING and name != record.scores:
            name = makers[name].input[0]
        if name != record.scores:
            raise InputError(f"its output {output.name!r} does not come from the guard")


def _check_inputs(graph: GraphProto, record: GuardRecord) -> None:
    """See that inputs are those of the guard, and that nobody can feed its numbers."""
    known = {each.name for each in graph.initializer if not each.name.startswith(PREFIX)}
    if tuple(item.name for item in graph.input if item.name not in known) != record.inputs:
        raise InputError("its inputs are not those of its guard")


def _check_envelope(graph: GraphProto, record: GuardRecord, inside: ModelProto) -> None:
    """See that an envelope's outputs are there, and that it guards the model's scores."""
    added = list(graph.output)[-len(record.outputs) :]
    if [each.SerializeToString() for each in added] != [
        each.SerializeToString() for each in added_outputs(record)
    ]:
        raise InputError("its last outputs are not those of an envelope")
    plain = Graph(ModelFile(Path("the model inside"), inside))
    if scores_name(plain, envelope=True) != record.scores:
        raise InputError(f"{record.scores!r} are not the scores of the model inside")


def added_outputs(record: GuardRecord) -> list[ValueInfoProto]:
    """The outputs that an envelope adds."""
    from onnx import helper

    guarded = DOUBLE if record.element == DOUBLE else FLOAT
    return [
        helper.make_tensor_value_info(
            name, kind or guarded, [None] if kind else [None, record.classes]
        )
        for name, kind in zip(record.outputs, OUTPUTS.values(), strict=True)
    ]


def _stripped(model: ModelProto, record: GuardRecord) -> ModelProto:
    """The model without its guard."""
    inner: Any = type(model)()
    inner.CopyFrom(model)
    graph = inner.graph
    kept = [node for node in model.graph.node if not node.name.startswith(PREFIX)]
    del graph.node[:]
    for node in kept:
        copied = graph.node.add()
        copied.CopyFrom(node)
        for place, name in enumerate(copied.output):
            if name == OWN:
                copied.output[place] = record.scores
    weights = [each for each in model.graph.initializer if not each.name.startswith(PREFIX)]
    del graph.initializer[:]
    graph.initializer.extend(weights)
    outputs = [each for each in model.graph.output if each.name not in record.outputs]
    del graph.output[:]
    graph.output.extend(outputs)
    own = [entry for entry in model.metadata_props if entry.key not in (GUARD, CERTIFICATE)]
    del inner.metadata_props[:]
    inner.metadata_props.extend(own)
    return inner  # type: ignore[no-any-return]
