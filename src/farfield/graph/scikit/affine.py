"""Transformers that scale, mix and choose columns: affine functions of a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from farfield.graph.reading import InputColumn, Writer
from farfield.graph.scikit.foreign import dense
from farfield.graph.scikit.registry import ClassScores, Table, classifier, classify, transformer

aten = torch.ops.aten


@transformer("StandardScaler")
def _standard(writer: Writer, table: Table, scaler: Any) -> Table:
    value = table.value
    if scaler.mean_ is not None and scaler.with_mean:
        value = writer.shift(value, -scaler.mean_)
    if scaler.scale_ is not None:
        value = writer.divide(value, scaler.scale_)
    return Table(value, table.columns)


@transformer("MinMaxScaler")
def _min_max(writer: Writer, table: Table, scaler: Any) -> Table:
    value = writer.shift(writer.scale(table.value, scaler.scale_), scaler.min_)
    if scaler.clip:
        value = writer.step(aten.clamp.default, value, *map(float, scaler.feature_range))
    return Table(value, table.columns)


@transformer("MaxAbsScaler")
def _max_abs(writer: Writer, table: Table, scaler: Any) -> Table:
    value = writer.divide(table.value, scaler.scale_)
    if getattr(scaler, "clip", False):
        value = writer.step(aten.clamp.default, value, -1.0, 1.0)
    return Table(value, table.columns)


@transformer("RobustScaler")
def _robust(writer: Writer, table: Table, scaler: Any) -> Table:
    value = table.value
    if scaler.center_ is not None:
        value = writer.shift(value, -scaler.center_)
    if scaler.scale_ is not None:
        value = writer.divide(value, scaler.scale_)
    return Table(value, table.columns)


def _project(writer: Writer, table: Table, weight: Any, bias: Any = None) -> Table:
    value = writer.linear(table.value, weight, bias)
    columns = tuple(InputColumn(f"component {place}") for place in range(value.width))
    return Table(value, columns)


@transformer("PCA", "IncrementalPCA")
def _principal_components(writer: Writer, table: Table, model: Any) -> Table:
    weight = np.asarray(model.components_, dtype=np.float64)
    if model.whiten:
        smallest = np.finfo(model.explained_variance_.dtype).eps
        scale = np.sqrt(model.explained_variance_)
        weight = weight / np.maximum(scale, smallest)[:, None]
    bias = None if model.mean_ is None else -weight @ model.mean_
    return _project(writer, table, weight, bias)


@transformer("TruncatedSVD", "NeighborhoodComponentsAnalysis")
def _components(writer: Writer, table: Table, model: Any) -> Table:
    return _project(writer, table, model.components_)


@transformer("GaussianRandomProjection", "SparseRandomProjection")
def _random(writer: Writer, table: Table, model: Any) -> Table:
    return _project(writer, table, dense(model.components_))


@transformer("FastICA")
def _independent(writer: Writer, table: Table, model: Any) -> Table:
    weight = np.asarray(model.components_, dtype=np.float64)
    return _project(writer, table, weight, -weight @ model.mean_ if model.whiten else None)


@transformer("LinearDiscriminantAnalysis")
def _discriminants(writer: Writer, table: Table, model: Any) -> Table:
    weight = np.asarray(model.scalings_, dtype=np.float64)[:, : model._max_components].T
    return _project(writer, table, weight, -weight @ model.xbar_ if model.solver == "svd" else None)


def select(writer: Writer, table: Table, places: Any) -> Table:
    """Keep some columns of a table, as they are."""
    chosen = [int(place) for place in places]
    held = writer.select(table.held, chosen)
    return Table(held, tuple(table.columns[place] for place in chosen))


@transformer(
    "VarianceThreshold",
    "SelectKBest",
    "SelectPercentile",
    "SelectFpr",
    "SelectFdr",
    "SelectFwe",
    "GenericUnivariateSelect",
    "SelectFromModel",
    "SequentialFeatureSelector",
    "RFE",
    "RFECV",
)
def _kept(writer: Writer, table: Table, model: Any) -> Table:
    # Selectors see numbers in all columns, also in those that they drop.
    return select(writer, Table(table.value, table.columns), model.get_support(indices=True))


@classifier("RFE", "RFECV")
def _eliminated(writer: Writer, table: Table, model: Any) -> ClassScores:
    """The columns that are left, then the model fitted on them."""
    return classify(writer, _kept(writer, table, model), model.estimator_, "estimator")
