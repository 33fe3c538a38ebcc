"""A guard inside of an ONNX file: the file is extended, its interface stays as it was.

The scores of the classes are given another name, and nodes that mix them with the uniform answer
give out what had their name before. Labels, dictionaries and whatever else is made of the scores
follow. Reading a file back undoes this, and makes every node again from the numbers in the file: a
guard whose nodes are not exactly those is not one of ours.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from farfield.errors import CaptureError, InputError, MissingDependency
from farfield.files import replacing
from farfield.graph.onnx.files import load_file
from farfield.graph.onnx.heads import FLOATS, SAME_SCORES, SQUASHED, Graph, find_scores
from farfield.guard.archive import (
    ColumnsRecord,
    CoveredRecord,
    covered_record,
    failing_as_damage,
    restore_covered,
)
from farfield.guard.certificate import Certificate
from farfield.guard.columns import Columns
from farfield.guard.covered import Covered
from farfield.guard.onnx_nodes import (
    PREFIX,
    Nodes,
    Scores,
    add_covered,
    add_mixture,
    add_rows,
)
from farfield.guard.verify import Verification, verify

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

CERTIFICATE, GUARD = "farfield.certificate", "farfield.guard"
OWN = f"{PREFIX}own"
# For files that use nothing but other operator sets.
DEFAULT_OPSET = 15
# What may lie between the guarded scores and an output.
FOLLOWING = (*SAME_SCORES, *SQUASHED, "Cast")


class GuardRecord(BaseModel):
    """What a file says about its guard, beside the numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[2] = 2
    scores: str
    kind: Literal["probabilities", "logits"]
    single: bool
    element: Literal[1, 11]
    classes: int = Field(ge=2)
    inputs: tuple[str, ...] = Field(min_length=1)
    columns: ColumnsRecord
    covered: CoveredRecord


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


def extend(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    covered: Covered,
    columns: Columns,
    certificate: Certificate,
) -> None:
    """Write a model's file again, with a guard in it.

    Args:
        source: The model's file.
        path: The file to write.
        covered: The covered set.
        columns: What the columns are.
        certificate: The promise.

    Raises:
        InputError: If the model's outputs are no scores of the certificate's classes.
    """
    file = load_file(source)
    model: Any = type(file.model)()
    model.CopyFrom(file.model)
    record = _record(source, Graph(file), covered, columns, certificate.classes)
    _insert(model, record, covered)
    from onnx import helper

    kept = {entry.key: entry.value for entry in model.metadata_props}
    kept |= {CERTIFICATE: certificate.to_json(), GUARD: record.model_dump_json()}
    helper.set_model_props(model, kept)
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(model.SerializeToString())


def _record(
    source: Any, graph: Graph, covered: Covered, columns: Columns, classes: int
) -> GuardRecord:
    """Find the scores, and what they are."""
    scores = find_scores(graph)
    outputs = {output.name for output in graph.file.model.graph.output}
    behind = graph.below(scores, SQUASHED)
    logs = scores in graph.makers and graph.makers[scores].op_type == "LogSoftmax"
    if behind != scores and (behind in outputs or logs):
        # What is behind is guarded, and what is made of it follows.
        scores = behind
    if scores not in graph.makers:
        raise InputError(f"{os.fspath(source)!r} gives out its inputs; there is nothing to guard")
    values, element = _evaluated(source, graph, scores, columns)
    width = 1 if values.ndim == 1 else values.shape[1]
    if values.ndim != 2 or width not in (1, classes) or (width == 1 and classes != 2):
        raise InputError(
            f"{os.fspath(source)!r} gives scores of shape {values.shape}, not one for each of "
            f"{classes} classes"
        )
    return GuardRecord(
        scores=scores,
        kind="probabilities" if _are_probabilities(graph, scores, values) else "logits",
        single=width == 1,
        element=element,
        classes=classes,
        inputs=tuple(
            item.name
            for item in graph.file.model.graph.input
            if item.name not in graph.initializers
        ),
        columns=ColumnsRecord(
            shape=columns.shape,
            names=columns.names,
            blocks=columns.blocks,
            words=dict(columns.words),
        ),
        covered=covered_record(covered),
    )


def _are_probabilities(graph: Graph, scores: str, values: np.ndarray[Any, Any]) -> bool:
    maker = graph.makers[graph.below(scores, ("Identity", "Cast", "Dropout"))]
    if maker.op_type in ("Softmax", "Sigmoid"):
        return True
    if maker.op_type in ("Gemm", "MatMul", "Add", "LogSoftmax") or values.shape[1] == 1:
        return False
    sums = values.astype(np.float64).sum(axis=1)
    return bool((values >= 0).all() and (np.abs(sums - 1) <= 1e-3).all())


def _evaluated(
    source: Any, graph: Graph, scores: str, columns: Columns
) -> tuple[np.ndarray[Any, Any], Literal[1, 11]]:
    """The scores at a few random rows, by onnxruntime."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingDependency(
            "guarding an ONNX file needs onnxruntime: pip install 'farfield[onnx]'"
        ) from error
    from onnx import helper

    model: Any = type(graph.file.model)()
    model.CopyFrom(graph.file.model)
    del model.graph.output[:]
    model.graph.output.append(helper.make_empty_tensor_value_info(scores))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    rows = np.random.default_rng(0).normal(size=(16, columns.width))
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        (found,) = session.run(None, _fed(session, rows, columns.shape))
    except Exception as error:  # onnxruntime's own exceptions share no base
        first = str(error).splitlines()[0][:200]
        raise InputError(f"onnxruntime cannot run {os.fspath(source)!r}: {first}") from error
    kinds: dict[str, Literal[1, 11]] = {"float32": 1, "float64": 11}
    if str(found.dtype) not in kinds:
        raise InputError(f"{os.fspath(source)!r} gives scores in {found.dtype}; float32 is needed")
    return found, kinds[str(found.dtype)]


def _fed(session: Any, rows: np.ndarray[Any, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """Rows as the inputs of a session."""
    kinds = {"tensor(double)": np.float64, "tensor(int64)": np.int64}
    inputs = session.get_inputs()
    if len(inputs) == 1:
        kind = kinds.get(inputs[0].type, np.float32)
        return {inputs[0].name: rows.reshape(-1, *shape).astype(kind)}
    fed, start = {}, 0
    for item in inputs:
        width = item.shape[1]
        values = rows[:, start : start + width].astype(kinds.get(item.type, np.float32))
        fed[item.name], start = values, start + width
    return fed


def _insert(model: ModelProto, record: GuardRecord, covered: Covered) -> None:
    """Give the scores another name, and their name to the mixture."""
    graph: Any = model.graph
    place = next(i for i, node in enumerate(graph.node) if record.scores in node.output)
    maker = graph.node[place]
    outputs = [OWN if name == record.scores else name for name in maker.output]
    del maker.output[:]
    maker.output.extend(outputs)
    made = _made(record, covered, _opset(model))
    if not any(entry.domain in ("", "ai.onnx") for entry in model.opset_import):
        model.opset_import.add(domain="", version=DEFAULT_OPSET)
    after = [graph.node[i] for i in range(place + 1, len(graph.node))]
    following = [type(node).FromString(node.SerializeToString()) for node in after]
    del graph.node[place + 1 :]
    graph.node.extend(made.nodes)
    graph.node.extend(following)
    graph.initializer.extend(made.tensors.values())


def _made(record: GuardRecord, covered: Covered, opset: int) -> Nodes:
    """The nodes of a guard."""
    nodes = Nodes(opset)
    rows = add_rows(nodes, record.inputs, covered.columns)
    _, hot = add_covered(nodes, covered, rows)
    scores = Scores(record.kind, record.single, record.classes, record.element)
    add_mixture(nodes, OWN, hot, scores, record.scores)
    return nodes


def _opset(model: ModelProto) -> int:
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx"):
            return int(entry.version)
    return DEFAULT_OPSET


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
    found: GuardedFile = failing_as_damage(where, lambda: _read(model, record, certificate))
    return found


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
    _check_same(graph, record, _made(record, covered, _opset(model)))
    columns = Columns(
        record.columns.shape, record.columns.names, record.columns.blocks, record.columns.words
    )
    if columns.width != covered.columns or certificate.classes != record.classes:
        raise InputError("its columns or classes are not those of its guard")
    return GuardedFile(covered, columns, certificate, _stripped(model, record))


def _check_same(graph: GraphProto, record: GuardRecord, expected: Nodes) -> None:
    """See that the file holds exactly the nodes and numbers of its guard, and uses them."""
    nodes = [node for node in graph.node if node.name.startswith(PREFIX)]
    if [n.SerializeToString() for n in nodes] != [n.SerializeToString() for n in expected.nodes]:
        raise InputError("the nodes of its guard are not those that its numbers make")
    tensors = {each.name: each for each in graph.initializer if each.name.startswith(PREFIX)}
    if {name: each.SerializeToString() for name, each in tensors.items()} != {
        name: each.SerializeToString() for name, each in expected.tensors.items()
    }:
        raise InputError("the numbers of its guard are not those that its nodes need")
    taken = {name for node in expected.nodes for name in node.output}
    for node in graph.node:
        if node.name.startswith(PREFIX):
            continue
        if taken & set(node.output) or (OWN in node.input):
            raise InputError(f"node {node.name!r} goes around the guard")
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
    inputs = [item.name for item in graph.input if item.name not in tensors]
    known = {each.name for each in graph.initializer}
    if tuple(name for name in inputs if name not in known) != record.inputs:
        raise InputError("its inputs are not those of its guard")


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
    own = [entry for entry in model.metadata_props if entry.key not in (GUARD, CERTIFICATE)]
    del inner.metadata_props[:]
    inner.metadata_props.extend(own)
    return inner  # type: ignore[no-any-return]
