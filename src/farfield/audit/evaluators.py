"""Anything that gives probabilities as a black box: estimators, modules, ONNX files, functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, softmax
from torch import nn

from farfield.audit.black_box import BlackBox, Floats, ask
from farfield.data import Expected, Impute, RawColumns, Source, TableColumn
from farfield.data.stream import value_text
from farfield.distributions import TOLERANCE, as_distributions
from farfield.errors import FarfieldError, InputError, MissingDependency
from farfield.formats import is_named
from farfield.graph.export import evaluation_mode, module_device, module_dtype
from farfield.graph.network import Label

Evaluate = Callable[[Floats], Any]
# Rows that a model is asked about before anything is believed of it.
TRIED = 64
NUMBERS = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}


def can_be_asked(model: Any) -> bool:
    """Whether something gives probabilities when asked."""
    if isinstance(model, (str, os.PathLike)):
        return is_named(model, "onnx")
    return hasattr(model, "predict_proba") or callable(model)


def told(model: Any) -> Expected | None:
    """What a model that can be asked says about its data by itself, if anything."""
    if isinstance(model, (str, os.PathLike)):
        return _told_by_file(Path(model)) if can_be_asked(model) else None
    width = getattr(model, "n_features_in_", None)
    if width is None:
        return None
    names = getattr(model, "feature_names_in_", None)
    labels = _classes(model)
    return Expected(
        int(width),
        None if names is None else tuple(map(str, names)),
        None if labels is None else len(labels),
        labels,
        own_imputation(model),
    )


def own_imputation(model: Any) -> Impute | None:
    """How missing values are to be filled for a model that takes them; ``None`` if it does not.

    As its own imputer does, where it has one that fills with a mean, a median or the most frequent
    value.
    """
    for part in _parts(model):
        if type(part).__name__.endswith("Imputer"):
            strategy = getattr(part, "strategy", None)
            return cast(Impute, strategy) if strategy in get_args(Impute) else "median"
    tags = getattr(model, "__sklearn_tags__", None)
    takes_them = tags is not None and tags().input_tags.allow_nan
    return "median" if takes_them else None


def _parts(model: Any) -> Iterator[Any]:
    """The steps of a pipeline, the parts of its column transformers, and what searches found."""
    named = (*getattr(model, "steps", ()), *getattr(model, "transformers_", ()))
    found = getattr(model, "best_estimator_", None)
    for part in (*(each[1] for each in named), *(() if found is None else (found,))):
        yield part
        yield from _parts(part)


def black_box(model: Any, source: Source, data: Any, reason: str) -> BlackBox:
    """Make a black box of a model that cannot be followed.

    Args:
        model: A fitted classifier with ``predict_proba``, a ``torch.nn.Module``, a path to an
            ``.onnx`` file, or a function from rows to probabilities.
        source: The data it will be asked about.
        data: The same as the user gave it; a frame tells the types of its values.
        reason: Why the model cannot be followed.

    Raises:
        InputError: If the model does not answer with probabilities.
    """
    if isinstance(model, (str, os.PathLike)):
        made = _of_file(Path(model), source, data)
    elif isinstance(model, nn.Module):
        made = _Made(partial(_ask_module, model))
    elif hasattr(model, "predict_proba"):
        made = _of_estimator(model, source, data)
    else:
        made = _Made(_with_frames(model, source, data))
    features = made.features
    rows = np.asarray(source.sample(TRIED).X, dtype=float)
    if features is not None:
        fitted = source.fit_to(len(features), feature_names=features)
        rows = np.asarray(fitted.sample(TRIED).X, dtype=float)
    evaluate, notes = _settled(made.evaluate, rows)
    p = as_distributions(ask(evaluate, rows), len(rows))
    return BlackBox(
        evaluate,
        rows.shape[1:],
        p.shape[1],
        made.labels if made.labels is None or len(made.labels) == p.shape[1] else None,
        features,
        (f"sampled, because no exact answer is known: {reason}", *notes),
    )


def own_answers(original: Any, source: Source, data: Any) -> Evaluate | None:
    """The probabilities that a captured model's original gives itself, averaged over members.

    ``data`` is that of the source as the user gave it, as for :func:`black_box`. ``None`` if the
    original cannot be asked. What is returned may fail where the original does.
    """
    members: Sequence[Any] = original if isinstance(original, (list, tuple)) else [original]
    if not all(can_be_asked(each) for each in members):
        return None
    try:
        boxes = [black_box(each, source, data, "") for each in members]
    except FarfieldError:
        return None
    if len({box.classes for box in boxes}) != 1:
        return None

    def mean(rows: Floats) -> Floats:
        each = [as_distributions(ask(box.evaluate, rows), len(rows), box.classes) for box in boxes]
        return np.asarray(np.mean(each, axis=0))

    return mean


def precision_of(original: Any) -> str:
    """The floating-point type of a model's inputs; empty if it is not known."""
    first = original[0] if isinstance(original, (list, tuple)) and original else original
    if isinstance(first, nn.Module):
        return str(module_dtype(first, torch.float32)).removeprefix("torch.")
    if isinstance(first, (str, os.PathLike)) and is_named(first, "onnx"):
        kinds = {each.type for each in _session(Path(first)).get_inputs()}
        numbers = [np.dtype(NUMBERS[kind]).name for kind in sorted(kinds) if kind in NUMBERS]
        return numbers[0] if len(numbers) == 1 else ""
    return ""


class _Made(NamedTuple):
    evaluate: Evaluate
    labels: tuple[Label, ...] | None = None
    features: tuple[str, ...] | None = None


def _settled(evaluate: Evaluate, rows: Floats) -> tuple[Evaluate, tuple[str, ...]]:
    """Turn logits into probabilities, where logits are what a model gives on the data."""
    given = ask(evaluate, rows)
    if given.ndim == 1 or given.shape[1:] == (1,):
        if given.min() >= 0 and given.max() <= 1:
            return evaluate, ("its one output is taken as the probability of the second class",)
        return partial(_sigmoid, evaluate), (
            "its one output is taken as a logit: a sigmoid was applied",
        )
    if given.min() >= -TOLERANCE and np.allclose(given.sum(axis=-1), 1.0, atol=TOLERANCE):
        return evaluate, ()
    return partial(_softmax, evaluate), ("its outputs are taken as logits: a softmax was applied",)


def _sigmoid(evaluate: Evaluate, rows: Floats) -> Any:
    return expit(np.asarray(evaluate(rows), dtype=float).reshape(-1))


def _softmax(evaluate: Evaluate, rows: Floats) -> Any:
    return softmax(np.asarray(evaluate(rows), dtype=float), axis=-1)


def _ask_module(module: nn.Module, rows: Floats) -> Any:
    """What a module returns as it is, in evaluation mode."""
    kind = module_dtype(module, torch.float32)
    own = torch.from_numpy(rows).to(module_device(module), kind)
    with torch.no_grad(), evaluation_mode(module):
        out = module(own)
    if not isinstance(out, torch.Tensor):
        raise InputError(
            f"{type(module).__name__} returns {type(out).__name__}; farfield needs one array of "
            "logits or probabilities, (rows, classes)"
        )
    return out.double().cpu().numpy()


def _of_estimator(model: Any, source: Source, data: Any) -> _Made:
    """A fitted classifier: by its raw columns, by encoded names, or by place."""
    known, predict, held = _classes(model), model.predict_proba, _known_values(model)
    names = getattr(model, "feature_names_in_", None)
    columns = {column.name: column for column in source.columns}
    if names is not None:
        wanted = [str(name) for name in names]
        own = all(name in columns for name in wanted)
        described = [columns[name] if own else TableColumn(name, (0,)) for name in wanted]
        described = [_as_known(column, held, data) for column in described]
        raw = RawColumns.of(wanted, described, data)
        return _Made(lambda rows: predict(raw.as_frame(rows)), known, raw.features)
    if getattr(model, "n_features_in_", None) == len(columns) != int(np.prod(source.shape)):
        told = [_as_known(column, held, data) for column in columns.values()]
        raw = RawColumns.of(list(columns), told, data)
        return _Made(lambda rows: predict(raw.as_objects(rows)), known, raw.features)
    return _Made(predict, known)


# Words, and how other values read.
_Known = tuple[frozenset[str], frozenset[str]]


def _known_values(model: Any) -> _Known:
    """The words that encoders in a model know, and how the other values that they know read."""
    listed = [values for part in _parts(model) for values in getattr(part, "categories_", ())]
    words = frozenset(each for values in listed for each in values if isinstance(each, str))
    others = (each for values in listed for each in values if not isinstance(each, str))
    return words, frozenset(map(value_text, others))


def _as_known(column: TableColumn, known: _Known, data: Any) -> TableColumn:
    """Values as a model knows them: with or without spaces around them, and digits as words.

    A file does not tell words of digits from numbers, a frame does.
    """
    words, others = known
    kept = [(word, way) for word, way in column.spaced if way in words or word not in words]
    if not _is_frame(data):
        kept += [(each, each) for each in column.values if each in words and each not in others]
    return replace(column, spaced=tuple(kept))


def _is_frame(data: Any) -> bool:
    return hasattr(data, "dtypes") and hasattr(data, "columns")


def _classes(model: Any) -> tuple[Label, ...] | None:
    """The classes of a fitted classifier, in the order of its probabilities."""
    labels = np.asarray(getattr(model, "classes_", ()))
    return tuple(labels.tolist()) if labels.ndim == 1 and len(labels) else None


def _with_frames(function: Evaluate, source: Source, data: Any) -> Evaluate:
    """A function as one of encoded rows; it takes frames if the user's own data is one."""
    if not _is_frame(data):
        return function
    raw = RawColumns.of([column.name for column in source.columns], source.columns, data)
    return lambda rows: function(raw.as_frame(rows))


class _OnnxRun:
    """An ``.onnx`` file run by onnxruntime; the session is opened where it is needed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.raw: RawColumns | None = None
        self.output: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "raw": self.raw, "output": self.output}

    @cached_property
    def session(self) -> Any:
        """The session, opened once."""
        return _session(self.path)

    def __call__(self, rows: Floats) -> Any:
        found = [_as_array(each) for each in self.session.run(None, self._feed(rows))]
        if self.output is None:
            self.output = _scores(found, len(rows), self.path)
        return found[self.output]

    def _feed(self, rows: Floats) -> dict[str, NDArray[Any]]:
        inputs = self.session.get_inputs()
        if self.raw is None:
            kind = NUMBERS.get(inputs[0].type, np.float32)
            return {inputs[0].name: rows.astype(kind)}
        given = self.raw.as_mapping(rows)
        feed = {}
        for item in inputs:
            values = given[item.name]
            if item.type == "tensor(string)":
                feed[item.name] = values.astype(str).astype(object)[:, None]
            else:
                feed[item.name] = values.astype(NUMBERS.get(item.type, np.float32))[:, None]
        return feed


def _session(path: Path) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingDependency(
            f"evaluating {path} needs onnxruntime: pip install 'farfield[onnx]'"
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        return onnxruntime.InferenceSession(
            path.read_bytes(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime's own exceptions share no base
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"onnxruntime cannot run {path}: {first[:300]}") from error


def _of_file(path: Path, source: Source, data: Any) -> _Made:
    _, labels = _outline(path)
    run = _OnnxRun(path)
    names = [item.name for item in run.session.get_inputs()]
    if len(names) == 1:
        return _Made(run, labels)
    columns = {column.name: column for column in source.columns}
    missing = [name for name in names if name not in columns]
    if missing:
        raise InputError(
            f"{path} takes the columns {', '.join(names)}; the data has no {', '.join(missing)}"
        )
    run.raw = RawColumns.of(names, [columns[name] for name in names], data)
    return _Made(run, labels, run.raw.features)


def _told_by_file(path: Path) -> Expected | None:
    """The columns of an ``.onnx`` file: one input as wide as a row, or one for every column."""
    inputs, labels = _outline(path)
    classes = None if labels is None else len(labels)
    if len(inputs) > 1:
        return Expected(len(inputs), tuple(inputs), classes, labels)
    for shape in inputs.values():
        if len(shape) == 2 and shape[1] > 0:
            return Expected(shape[1], None, classes, labels)
    return None


def _outline(path: Path) -> tuple[dict[str, list[int]], tuple[Label, ...] | None]:
    """The inputs of an ``.onnx`` file with their shapes, and the labels of its classes."""
    from farfield.graph.onnx.files import load_file
    from farfield.graph.onnx.heads import Graph, find_labels

    graph = Graph(load_file(path))
    inputs = [each for each in graph.file.model.graph.input if each.name not in graph.initializers]
    shapes = {each.name: [d.dim_value for d in each.type.tensor_type.shape.dim] for each in inputs}
    return shapes, find_labels(graph)


def _as_array(given: Any) -> NDArray[Any]:
    """An output as an array; a list of maps from class to probability becomes its values."""
    if isinstance(given, list) and given and isinstance(given[0], dict):
        return np.array([list(row.values()) for row in given])
    return np.asarray(given)


def _scores(found: Sequence[NDArray[Any]], rows: int, path: Path) -> int:
    """Which output holds the classes' scores: one that is a distribution, or else the last."""
    fitting = [
        place
        for place, values in enumerate(found)
        if values.dtype.kind == "f" and values.ndim in (1, 2) and len(values) == rows
    ]
    if not fitting:
        shapes = ", ".join(f"{values.dtype} {values.shape}" for values in found)
        raise InputError(f"{path} returns no probabilities: for {rows} rows it gives {shapes}")
    for place in fitting:
        values = found[place]
        if values.ndim == 2 and np.allclose(values.sum(axis=1), 1.0, atol=TOLERANCE):
            return place
    return fitting[-1]
