"""A model and its data, each opened with what the other says about itself."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from torch import nn

from farfield.audit.evaluators import black_box, can_be_asked, own_imputation, told
from farfield.audit.fields.kinds import Task
from farfield.audit.models import LoadedModel, call_factories, load_model
from farfield.audit.raw_columns import behind_one_hot, coded_columns, refusing_columns, with_model
from farfield.data import Expected, Impute, Source, open_data
from farfield.errors import CaptureError, InputError, NotFollowed
from farfield.exact import at_infinity
from farfield.exact.series.walk import grows
from farfield.graph.network import Network
from farfield.graph.reading import TAKES_MISSING, InputColumn
from farfield.graph.skorch import is_skorch

Evidence = Literal["auto", "exact", "sampled"]
Floats = NDArray[np.float64]
# How many features, and how many directions across all, are tried for a limit.
TRIED = 16
ASKED_FOR = "sampling was asked for"


def open_both(
    model: Any,
    data: Any,
    labels: Any = None,
    *,
    task: Task | None = None,
    evidence: Evidence = "auto",
    because: str = ASKED_FOR,
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
        because: Why, if it is only asked.
        allow_code: Whether a factory may run.
        **reading: Options of :func:`farfield.data.open_data`.

    Returns:
        The model, the data in its layout with labels as indices of its outputs, and the task.

    Raises:
        InputError: Columns that are missing, or too many; labels that the model does not know.
    """
    if evidence not in get_args(Evidence):
        options = ", ".join(map(repr, get_args(Evidence)))
        raise InputError(f"evidence must be one of {options}, got {evidence!r}")
    made = call_factories(model, allow_code)
    loaded = made if isinstance(made, LoadedModel) else _load_alone(made, evidence)
    regression = _task(made, loaded, task) == "regression"
    if loaded is not None and (coded := coded_columns(loaded.network)):
        reading["categorical"] = (*dict.fromkeys([*reading.get("categorical", ()), *coded]),)
    source = open_data(
        data,
        labels,
        label_kind="number" if regression else "class",
        expected=told(made) if loaded is None else _expected(loaded, regression=regression),
        **reading,
    )
    if loaded is None:
        loaded = _load_with(made, source, data, evidence, because)
    loaded = _with_limits(loaded, made, source, data, evidence)
    if isinstance(model, str) and made is not model:
        loaded = replace(loaded, kind="factory", where=model)
    task = _task(made, loaded, task)
    source = with_model(loaded.network, source)
    loaded = replace(
        loaded,
        network=behind_one_hot(loaded.network, source),
        refusing=refusing_columns(loaded.network, source),
    )
    return loaded, _fitted(source, loaded, task), task


def _fitted(source: Source, loaded: LoadedModel, task: Task) -> Source:
    """Data in a model's layout, its labels as the indices of the model's outputs."""
    takes = loaded.network.input_shape
    found = source.fitted(_expected(loaded, regression=task == "regression"))
    if tuple(found.shape) != tuple(takes):
        raise InputError(
            f"the model takes rows of shape {tuple(takes)}, the data has {tuple(found.shape)}; "
            "pass data in the model's own layout"
        )
    return found


def _expected(loaded: LoadedModel, *, regression: bool) -> Expected:
    """What a model says about the data that it takes."""
    network = loaded.network
    return Expected(
        math.prod(network.input_shape),
        network.features,
        None if regression else network.classes,
        None if regression else network.labels,
        _imputation(loaded),
    )


def _imputation(loaded: LoadedModel) -> Impute | None:
    """How gaps in the data are filled: as the model does it, if it can be told; else somehow."""
    if found := own_imputation(loaded.estimator):
        return found
    takes = any(column.missing for column in getattr(loaded.network, "columns", None) or ())
    return "median" if takes or TAKES_MISSING in loaded.network.notes else None


def _load_alone(model: Any, evidence: Evidence) -> LoadedModel | None:
    """Load a model that knows its input's shape; others wait for a row of the data."""
    members = model if isinstance(model, (list, tuple)) else [model]
    if evidence == "sampled" or any(isinstance(m, nn.Module) or is_skorch(m) for m in members):
        return None
    try:
        return load_model(model)
    except NotFollowed:
        return None
    except CaptureError:
        if hasattr(model, "fit") or isinstance(model, (str, os.PathLike)):
            raise
        # Perhaps it only lacks an example; if not, the same error comes again with one.
        return None


def _load_with(
    model: Any, source: Source, data: Any, evidence: Evidence, reason: str
) -> LoadedModel:
    """Load a model with the help of the data; what cannot be followed can perhaps be asked."""
    if evidence != "sampled":
        try:
            return load_model(model, example=source.sample(1).X)
        except NotFollowed as error:
            if evidence == "exact" or not can_be_asked(model):
                raise
            reason = " ".join(error.reason.split())
    elif not can_be_asked(model):
        raise InputError(
            f"evidence='sampled' needs a model that gives probabilities when asked: a classifier "
            f"with predict_proba, a function, a module or an .onnx file; got {type(model).__name__}"
        )
    return _asked(model, source, data, reason)


def _asked(model: Any, source: Source, data: Any, reason: str) -> LoadedModel:
    """A model that is asked for its probabilities, and why."""
    is_path = isinstance(model, (str, os.PathLike))
    where = str(model) if is_path else type(model).__name__
    box = black_box(model, source, data, reason)
    estimator = model if hasattr(model, "fit") else None
    return LoadedModel(box, "onnx" if is_path else "object", where, estimator)


def _with_limits(
    loaded: LoadedModel, model: Any, source: Source, data: Any, evidence: Evidence
) -> LoadedModel:
    """Ask a model instead of following it, if it has no limit on some rays."""
    network = loaded.network
    if not isinstance(network, Network) or not any(grows(g.program) for g in network.groups):
        return loaded
    try:
        for origin, directions in _tried_rays(network):
            at_infinity(network, origin, directions, undecided="mark")
    except NotFollowed as error:
        if evidence == "exact" or not can_be_asked(model):
            raise
        return _asked(model, source, data, " ".join(error.reason.split()))
    return loaded


def _tried_rays(network: Network) -> Iterator[tuple[Floats, Floats]]:
    """Directions along some features and across all that move, from two places.

    From the origin some values, such as rows divided by their norm, do not change at all.
    """
    shape, size = network.input_shape, math.prod(network.input_shape)
    axes = np.eye(size)[np.unique(np.linspace(0, size - 1, TRIED).astype(int))]
    drawn = np.random.default_rng(0).standard_normal((TRIED, size))
    directions = np.concatenate([axes, -axes, drawn])
    origins: list[Any] = [np.zeros(size), drawn[0].copy()]
    for place, column in enumerate(network.columns or ()):
        if column.categories is not None:
            directions[:, place] = 0.0
            origins = [each.astype(object) for each in origins]
        elif np.isfinite(column.low):
            directions[:, place] = np.abs(directions[:, place])
        for each in origins:
            each[place] = _usual(column, each[place])
    moving = directions[(directions != 0).any(axis=1)].reshape(-1, *shape)
    for each in origins[: 1 if network.differentiable else 2]:
        yield each.reshape(shape), moving


def _usual(column: InputColumn, number: float) -> Any:
    """A value that a column may have: a number where it takes any."""
    if column.categories is not None:
        return column.categories[0]
    return number if np.isneginf(column.low) else column.low + 1 + abs(number)


def _task(model: Any, loaded: LoadedModel | None, task: Task | None) -> Task:
    if task is not None:
        if task not in get_args(Task):
            raise InputError(f"task must be 'classification' or 'regression', got {task!r}")
        return task
    estimator = loaded.estimator if loaded is not None else model
    return "regression" if _is_regressor(estimator) else "classification"


def _is_regressor(estimator: Any) -> bool:
    if not hasattr(estimator, "__sklearn_tags__"):
        return False
    from sklearn.base import is_regressor  # whoever has such an estimator has loaded it already

    return bool(is_regressor(estimator))
