"""A guard inside of an ONNX file: the file is extended, its interface stays as it was.

The scores of the classes are given another name, and nodes that mix them with the uniform answer
give out what had their name before. Labels, dictionaries and whatever else is made of the scores
follow. An envelope leaves all of that alone, and adds outputs. Either is read back before anybody
sees it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from farfield.data.columns import Columns
from farfield.errors import InputError
from farfield.files import replacing
from farfield.graph.onnx.files import load_file
from farfield.graph.onnx.heads import Graph
from farfield.guard.certificate import Certificate
from farfield.guard.covered import Covered
from farfield.guard.onnx_envelope import OUTPUTS
from farfield.guard.onnx_read import added_outputs, read_guarded
from farfield.guard.onnx_record import (
    CERTIFICATE,
    DEFAULT_OPSET,
    GUARD,
    OWN,
    GuardRecord,
    guard_nodes,
    opset_of,
)
from farfield.guard.onnx_scores import examine_scores, find_features, run, trial_rows
from farfield.guard.onnx_trees import as_onnx
from farfield.guard.records import ColumnsRecord, covered_record

if TYPE_CHECKING:
    from onnx import ModelProto

NO_FEATURES = (
    "the file has no last layer whose inputs could be looked at, so it has no view of features; "
    "rows inside were counted with it"
)


def extend(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    covered: Covered,
    columns: Columns,
    certificate: Certificate,
    *,
    envelope: bool = False,
) -> None:
    """Write a model's file again, with a guard in it.

    Args:
        source: The model's file: ONNX, or one of boosted trees, which is made ONNX first.
        path: The file to write.
        covered: The covered set.
        columns: What the columns are.
        certificate: The promise.
        envelope: Whether outputs stay as they are, and what the guard says is added to them.

    Raises:
        InputError: If the model's outputs are no scores of the certificate's classes.
    """
    from onnx import helper

    with as_onnx(source) as own:
        plain = load_file(own).model
        record = _record(own, covered, columns, certificate.classes, envelope=envelope)
    model: Any = type(plain)()
    model.CopyFrom(plain)
    if covered.inner is not None and record.features is None:
        covered, certificate = without_features(covered, certificate)
        record = record.model_copy(update={"covered": covered_record(covered)})
    (_add_outputs if envelope else _insert)(model, record, covered)
    if not any(entry.domain in ("", "ai.onnx") for entry in model.opset_import):
        model.opset_import.add(domain="", version=DEFAULT_OPSET)
    kept = {entry.key: entry.value for entry in model.metadata_props}
    kept |= {CERTIFICATE: certificate.to_json(), GUARD: record.model_dump_json()}
    helper.set_model_props(model, kept)
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(model.SerializeToString())
        _check_written(plain, temporary, os.fspath(path), columns, envelope=envelope)


def _check_written(
    plain: ModelProto, written: Path, where: str, columns: Columns, *, envelope: bool
) -> None:
    """Read a file back, prove it, and see that the model's own outputs are what they were."""
    found = read_guarded(written)
    proof = found.verify()
    if not proof:
        raise InputError(f"{where!r} would not keep its promise: {proof.problems[0]}")
    low, high = found.covered.ranges.low.numpy(), found.covered.ranges.high.numpy()
    random = trial_rows(columns)
    rows = np.concatenate([[low, high, (low + high) / 2], random, 1e6 * random])
    after = run(load_file(written).model, rows, columns.shape, where)
    if envelope and not all(map(_same, run(plain, rows, columns.shape, where), after)):
        raise InputError(f"{where!r} would give other outputs than the model; please report it")


def _same(first: Any, second: Any) -> bool:
    """Whether two outputs are bit-identical; NaN is NaN."""
    if isinstance(first, list):
        return bool(first == second)
    same = first.dtype == second.dtype
    return same and np.array_equal(first, second, equal_nan=first.dtype.kind == "f")


def _record(
    source: str | os.PathLike[str],
    covered: Covered,
    columns: Columns,
    classes: int,
    *,
    envelope: bool,
) -> GuardRecord:
    """Find the scores, and what they are."""
    graph = Graph(load_file(source))
    found = examine_scores(source, graph, columns, classes, envelope=envelope)
    own = graph.file.model.graph
    return GuardRecord(
        scores=found.name,
        kind=found.kind,
        single=found.single,
        element=found.element,
        classes=classes,
        inputs=tuple(item.name for item in own.input if item.name not in graph.initializers),
        columns=ColumnsRecord.of(columns),
        covered=covered_record(covered),
        features=find_features(source, graph, covered, columns, found.name),
        outputs=_free_names(graph) if envelope else (),
    )


def without_features(covered: Covered, certificate: Certificate) -> tuple[Covered, Certificate]:
    """The same guard without its view of features, and the same promise: others still hold."""
    views = covered.of_inputs
    units = (covered.whitened, covered.reduced)
    plain = Covered(*units, views, covered.other.tolist(), covered.fill, float(covered.unit))
    kept = tuple(view for view in certificate.views if view.name in plain.names)
    notes = (*certificate.notes, NO_FEATURES)
    changes = {"views": kept, "digest": plain.digest(), "notes": notes}
    return plain, certificate.model_copy(update=changes)


def _free_names(graph: Graph) -> tuple[str, ...]:
    """The names of an envelope's outputs; with a prefix where the file uses one for itself."""
    own = graph.file.model.graph
    taken = {*graph.makers, *graph.initializers, *(item.name for item in own.input)}
    free = not taken & set(OUTPUTS)
    names = tuple(name if free else f"farfield_{name}" for name in OUTPUTS)
    if taken & set(names):
        raise InputError(f"{graph.file.path} uses the names {', '.join(names)} for itself")
    return names


def _add_outputs(model: ModelProto, record: GuardRecord, covered: Covered) -> None:
    """Add an envelope's nodes after all others, and its outputs after all others."""
    graph: Any = model.graph
    made = guard_nodes(record, covered, opset_of(model))
    graph.node.extend(made.nodes)
    graph.initializer.extend(made.tensors.values())
    graph.output.extend(added_outputs(record))


def _insert(model: ModelProto, record: GuardRecord, covered: Covered) -> None:
    """Give the scores another name, and their name to the mixture."""
    graph: Any = model.graph
    place = next(i for i, node in enumerate(graph.node) if record.scores in node.output)
    maker = graph.node[place]
    outputs = [OWN if name == record.scores else name for name in maker.output]
    del maker.output[:]
    maker.output.extend(outputs)
    made = guard_nodes(record, covered, opset_of(model))
    after = [graph.node[i] for i in range(place + 1, len(graph.node))]
    following = [type(node).FromString(node.SerializeToString()) for node in after]
    del graph.node[place + 1 :]
    graph.node.extend(made.nodes)
    graph.node.extend(following)
    graph.initializer.extend(made.tensors.values())
