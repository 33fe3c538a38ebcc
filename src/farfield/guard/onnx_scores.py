"""Which value of an ONNX file holds the scores of the classes, and what they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.data.columns import Columns
from farfield.errors import InputError, MissingDependency
from farfield.graph.onnx.heads import SQUASHED, Graph, find_scores
from farfield.guard.covered import Covered

if TYPE_CHECKING:
    from onnx import ModelProto

Element = Literal[1, 10, 11]
ELEMENTS: dict[str, Element] = {"float32": 1, "float16": 10, "float64": 11}
REGRESSORS = ("TreeEnsembleRegressor", "LinearRegressor", "SVMRegressor")
# What may lie between a last layer and the scores.
AFTER_LAYER = (
    *SQUASHED,
    *("Identity", "Cast", "Dropout", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Concat", "Add"),
)
KINDS = {
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}


@dataclass(frozen=True)
class FoundScores:
    """The scores of a file: their name, what they are, and their type."""

    name: str
    kind: Literal["probabilities", "logits"]
    single: bool
    element: Element


def scores_name(graph: Graph, *, envelope: bool) -> str:
    """Name the scores that are to be guarded.

    An envelope takes them as the file gives them out. A guard takes logits where those are given
    out too, or where only their logarithms are: whatever is made of them follows.
    """
    scores = find_scores(graph)
    if not envelope:
        outputs = {output.name for output in graph.file.model.graph.output}
        behind = graph.below(scores, SQUASHED)
        logs = scores in graph.makers and graph.makers[scores].op_type == "LogSoftmax"
        if behind != scores and (behind in outputs or logs):
            return behind
    return scores


def examine_scores(
    source: str | os.PathLike[str], graph: Graph, columns: Columns, classes: int, *, envelope: bool
) -> FoundScores:
    """Find the scores of a file, and run it to see what they are.

    Raises:
        InputError: If they are no scores of so many classes.
    """
    where = os.fspath(source)
    name = scores_name(graph, envelope=envelope)
    if name not in graph.makers:
        raise InputError(f"{where!r} gives out its inputs; there is nothing to guard")
    if graph.makers[graph.below(name, ("Identity", "Cast", "Reshape"))].op_type in REGRESSORS:
        raise InputError(f"{where!r} is a regressor: it gives out numbers, no scores of classes")
    (values,) = run(graph.file.model, trial_rows(columns), columns.shape, where, name)
    width = 1 if values.ndim == 1 else values.shape[1]
    single = envelope and values.ndim == 1
    if (values.ndim != 2 and not single) or width not in (1, classes) or (width == 1 < classes - 1):
        raise InputError(
            f"{where!r} gives scores of shape {values.shape}, not one for each of {classes} classes"
        )
    kind = str(values.dtype)
    if kind not in ELEMENTS or (kind == "float16" and not envelope):
        raise InputError(f"{where!r} gives scores in {kind}; float32 is needed")
    answers = _are_probabilities(graph, name, values.reshape(len(values), width))
    return FoundScores(name, "probabilities" if answers else "logits", width == 1, ELEMENTS[kind])


def find_features(
    source: str | os.PathLike[str], graph: Graph, covered: Covered, columns: Columns, scores: str
) -> str | None:
    """Name what the last layer of a file reads, if it is what a view of the guard looks at.

    The nearest ``Gemm`` or ``MatMul`` behind the scores is the last layer; the file is run to see
    that it reads the features of the guard's own network.
    """
    if covered.inner is None:
        return None
    where, rows = os.fspath(source), trial_rows(columns)
    with torch.no_grad():
        expected = np.asarray(covered.features(torch.from_numpy(rows)))
    for name in _read_by_layers(graph, scores):
        (found,) = run(graph.file.model, rows, columns.shape, where, name)
        near = 1e-3 * float(np.abs(expected).max())
        if found.shape == expected.shape and np.allclose(found, expected, rtol=1e-3, atol=near):
            return name
    return None


def _read_by_layers(graph: Graph, scores: str) -> Iterator[str]:
    """What linear layers read that nothing but shapes, sums and squashing follows."""
    pending, seen = [scores], {scores}
    while pending:
        maker = graph.makers.get(pending.pop(0))
        if maker is None:
            continue
        if maker.op_type in ("Gemm", "MatMul"):
            yield maker.input[0]
        elif maker.op_type in AFTER_LAYER:
            pending += [name for name in maker.input if name and name not in seen]
            seen.update(maker.input)


def _are_probabilities(graph: Graph, scores: str, values: NDArray[Any]) -> bool:
    maker = graph.makers[graph.below(scores, ("Identity", "Cast", "Dropout"))]
    if maker.op_type in ("Softmax", "Sigmoid"):
        return True
    if maker.op_type in ("Gemm", "MatMul", "Add", "LogSoftmax") or values.shape[1] == 1:
        return False
    sums = values.astype(np.float64).sum(axis=1)
    return bool((values >= 0).all() and (np.abs(sums - 1) <= 1e-3).all())


def trial_rows(columns: Columns) -> NDArray[np.float64]:
    """A few random rows."""
    return np.random.default_rng(0).normal(size=(16, columns.width))


def run(
    model: ModelProto,
    rows: NDArray[np.float64],
    shape: tuple[int, ...],
    where: str,
    only: str | None = None,
) -> list[Any]:
    """Evaluate the outputs of a model, or one value of it, by onnxruntime."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingDependency(
            "guarding an ONNX file needs onnxruntime: pip install 'farfield[onnx]'"
        ) from error
    from onnx import TensorProto, helper

    kinds = {each.name: each.type.tensor_type.elem_type for each in model.graph.input}
    words = [name for name, kind in kinds.items() if kind == TensorProto.STRING]
    if words:
        raise InputError(
            f"{where!r} takes words in {', '.join(words[:5])}, and a guard in an ONNX file reads "
            "numbers; guard the model in Python, where columns of words are categories"
        )
    if only is not None:
        whole: Any = model
        model = type(whole)()
        model.CopyFrom(whole)
        del model.graph.output[:]
        model.graph.output.append(helper.make_empty_tensor_value_info(only))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        found: list[Any] = session.run(None, _fed(session, rows, shape))
    except Exception as error:  # onnxruntime's own exceptions share no base
        first = str(error).splitlines()[0][:200]
        raise InputError(f"onnxruntime cannot run {where!r}: {first}") from error
    return found


def _fed(session: Any, rows: NDArray[np.float64], shape: tuple[int, ...]) -> dict[str, Any]:
    """Rows as the inputs of a session."""
    inputs = session.get_inputs()
    with np.errstate(all="ignore"):  # rows may be beyond the type of an input
        if len(inputs) == 1:
            kind = KINDS.get(inputs[0].type, np.float32)
            return {inputs[0].name: rows.reshape(-1, *shape).astype(kind)}
        fed, start = {}, 0
        for item in inputs:
            width = item.shape[1]
            values = rows[:, start : start + width].astype(KINDS.get(item.type, np.float32))
            fed[item.name], start = values, start + width
    return fed
