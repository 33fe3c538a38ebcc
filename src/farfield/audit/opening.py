"""A model and its data, each opened with what the other says about itself."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from sklearn.base import is_regressor
from torch import nn

from farfield.audit.evaluators import black_box, can_be_asked, own_imputation, told
from farfield.audit.findings import Task
from farfield.audit.models import FACTORY, Kind, LoadedModel, call_factory, load_model
from farfield.data import Expected, Source, open_data
from farfield.errors import CaptureError, InputError, NotFollowed
from farfield.graph.onnx.reader import TAKES_MISSING

Evidence = Literal["auto", "exact", "sampled"]


def open_both(
    model: Any,
    data: Any,
    labels: Any = None,
    *,
    task: Task | None = None,
    evidence: Evidence = "auto",
    allow_code: bool = False,
    **reading: Any,
) -> tuple[LoadedModel, Source, Task]:
    """Open a model and its data; the model says what its columns are, the data what its shape is.

    Args:
        model: Whatever :func:`farfield.audit` takes.
        data: Its data.
        labels: Of the data, unless it holds them.
        task: What the model does; told from it if ``None``.
        evidence: Whether the model is followed, or only asked.
        allow_code: Whether a factory may run.
        **reading: Options of :func:`farfield.data.open_data`.

    Returns:
        The model, the data in its own layout (see `fitted`), and the task.
    """
    loaded = model if isinstance(model, LoadedModel) else _load_alone(model, evidence)
    regression = _task(model, loaded, task) == "regression"
    source = open_data(
        data,
        labels,
        label_kind="number" if regression else "class",
        expected=told(model) if loaded is None else _expected(loaded, regression=regression),
        **reading,
    )
    if loaded is None:
        loaded = _load_with(model, source, data, evidence, allow_code)
    return loaded, source, _task(model, loaded, task)


def fitted(source: Source, loaded: LoadedModel, task: Task) -> Source:
    """Return data in a model's layout, its labels as the indices of the model's outputs.

    Raises:
        InputError: Columns that are missing, or too many; labels that the model does not know.
    """
    network, known = loaded.network, _expected(loaded, regression=task == "regression")
    found = source.fit_to(
        known.features,
        n_classes=known.classes,
        feature_names=known.names,
        class_labels=known.labels,
    )
    if tuple(found.shape) != tuple(network.input_shape):
        raise InputError(
            f"the model takes rows of shape {tuple(network.input_shape)}, the data has "
            f"{tuple(found.shape)}; pass data in the model's own layout"
        )
    return found


def _expected(loaded: LoadedModel, *, regression: bool) -> Expected:
    """What a model says about the data that it takes."""
    network = loaded.network
    return Expected(
        math.prod(network.input_shape),
        loaded.feature_names,
        None if regression else network.classes,
        None if regression else loaded.class_labels,
        "median" if TAKES_MISSING in network.notes else own_imputation(loaded.estimator),
    )


def _load_alone(model: Any, evidence: Evidence) -> LoadedModel | None:
    """Load a model that knows its input's shape; others wait for a row of the data."""
    if evidence not in get_args(Evidence):
        options = ", ".join(map(repr, get_args(Evidence)))
        raise InputError(f"evidence must be one of {options}, got {evidence!r}")
    members = model if isinstance(model, (list, tuple)) else [model]
    if evidence == "sampled" or any(isinstance(member, nn.Module) for member in members):
        return None
    if isinstance(model, str) and FACTORY.fullmatch(model):
        return None
    try:
        return load_model(model)
    except CaptureError:
        # Perhaps it only lacks an example; if not, the same error comes again with one.
        return None


def _load_with(
    model: Any, source: Source, data: Any, evidence: Evidence, allow_code: bool
) -> LoadedModel:
    """Load a model with the help of the data; what cannot be followed can perhaps be asked."""
    is_factory = isinstance(model, str) and FACTORY.fullmatch(model) and not Path(model).exists()
    made = call_factory(model, allow_code) if is_factory else model
    kind: Kind = "factory" if is_factory else "object"
    where = str(model) if isinstance(model, (str, os.PathLike)) else type(model).__name__
    reason = "sampling was asked for"
    if evidence != "sampled":
        try:
            loaded = load_model(made, example=source.sample(1).X)
            return replace(loaded, kind=kind, where=where) if is_factory else loaded
        except NotFollowed as error:
            if evidence == "exact" or not can_be_asked(made):
                raise
            reason = " ".join(error.reason.split())
    elif not can_be_asked(made):
        raise InputError(
            f"evidence='sampled' needs a model that gives probabilities when asked: a classifier "
            f"with predict_proba, a function, a module or an .onnx file; got {where}"
        )
    if isinstance(made, (str, os.PathLike)):
        kind = "onnx"
    box = black_box(made, source, data, reason)
    estimator = made if hasattr(made, "fit") else None
    return LoadedModel(box, kind, where, box.labels, box.features, estimator)


def _task(model: Any, loaded: LoadedModel | None, task: Task | None) -> Task:
    if task is not None:
        if task not in ("classification", "regression"):
            raise InputError(f"task must be 'classification' or 'regression', got {task!r}")
        return task
    estimator = loaded.estimator if loaded is not None else model
    known = hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator)
    return "regression" if known else "classification"
