"""Compositions of transformers, and what wraps a fitted model without changing what it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from farfield.errors import CaptureError
from farfield.graph.reading import Wire, Writer
from farfield.graph.scikit.affine import select
from farfield.graph.scikit.polynomials import classify_polynomial, is_polynomial
from farfield.graph.scikit.registry import (
    ClassScores,
    Table,
    classifier,
    classify,
    decide,
    decision,
    transform,
    transformer,
)


def _steps(model: Any) -> list[tuple[str, Any]]:
    """The parts that act at prediction: samplers of imbalanced-learn only act in training."""
    return [
        (name, part)
        for name, part in model.steps
        if not (isinstance(part, str) or part is None) and not _samples(part)
    ]


def _samples(part: Any) -> bool:
    return hasattr(part, "fit_resample") and not hasattr(part, "transform")


def _through(writer: Writer, table: Table, parts: Sequence[tuple[str, Any]]) -> Table:
    for name, part in parts:
        table = transform(writer, table, part, name)
    return table


@classifier("Pipeline")
def pipeline(writer: Writer, table: Table, model: Any) -> ClassScores:
    """Transform step by step, then classify."""
    *parts, (name, last) = _steps(model)
    for place, (part_name, part) in enumerate(parts):
        if is_polynomial(part) and not writer.grows:
            rest = [*parts[place + 1 :], (name, last)]
            scores = classify_polynomial(writer, table, part, rest)
            if scores is not None:
                return scores
        table = transform(writer, table, part, part_name)
    return classify(writer, table, last, name)


@decision("Pipeline")
def _decide_pipeline(writer: Writer, table: Table, model: Any) -> Wire:
    *parts, (name, last) = _steps(model)
    return decide(writer, _through(writer, table, parts), last, name)


@transformer("Pipeline")
def _transforming(writer: Writer, table: Table, model: Any) -> Table:
    return _through(writer, table, _steps(model))


@transformer("ColumnTransformer")
def _columns(writer: Writer, table: Table, model: Any) -> Table:
    """Every part with its own columns, put beside one another."""
    weights = model.transformer_weights or {}
    found = []
    for name, part, _ in model.transformers_:
        places = np.asarray(model._transformer_to_input_indices[name], dtype=np.int64)
        if (isinstance(part, str) and part == "drop") or not len(places):
            continue
        own = select(writer, table, places)
        if not isinstance(part, str):
            own = transform(writer, own, part, name)
        found.append(_weighed(writer, own, weights.get(name)))
    return _beside(writer, table, found)


@transformer("FeatureUnion")
def _union(writer: Writer, table: Table, model: Any) -> Table:
    """Every part with all columns, put beside one another."""
    weights = model.transformer_weights or {}
    found = []
    for name, part in model.transformer_list:
        if part == "drop":
            continue
        own = table if isinstance(part, str) else transform(writer, table, part, name)
        found.append(_weighed(writer, own, weights.get(name)))
    return _beside(writer, table, found)


def _weighed(writer: Writer, table: Table, weight: float | None) -> Table:
    if weight is None:
        return table
    return Table(writer.scale(table.value, np.full(table.width, float(weight))), table.columns)


def _beside(writer: Writer, table: Table, found: list[Table]) -> Table:
    parts = [each for each in found if each.width]
    if not parts:
        raise CaptureError(
            f"{type(table.reader).__name__} leaves no column; a model of nothing has no far field"
        )
    held = writer.concatenate(*(each.held for each in parts))
    return Table(held, tuple(column for each in parts for column in each.columns))


def _inner(model: Any) -> Any:
    """The fitted model that a wrapper asks."""
    for name in ("best_estimator_", "estimator_", "estimator"):
        if hasattr(model, name):
            return getattr(model, name)
    raise CaptureError(f"{type(model).__name__} holds no fitted model; call fit first")


WRAPPERS = (
    "GridSearchCV",
    "RandomizedSearchCV",
    "HalvingGridSearchCV",
    "HalvingRandomSearchCV",
    "FixedThresholdClassifier",
    "TunedThresholdClassifierCV",
    "SelfTrainingClassifier",
    "FrozenEstimator",
)


@classifier(*WRAPPERS)
def _wrapped(writer: Writer, table: Table, model: Any) -> ClassScores:
    return classify(writer, table, _inner(model), "estimator")


@decision(*WRAPPERS)
def _decide_wrapped(writer: Writer, table: Table, model: Any) -> Wire:
    return decide(writer, table, _inner(model), "estimator")


@transformer("GridSearchCV", "RandomizedSearchCV", "FrozenEstimator")
def _wrapped_transformer(writer: Writer, table: Table, model: Any) -> Table:
    return transform(writer, table, _inner(model), "estimator")
