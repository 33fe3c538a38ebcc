"""Projections: transformers that multiply a row by a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from farfield.graph.reading import InputColumn, Writer
from farfield.graph.scikit.foreign import dense
from farfield.graph.scikit.registry import Table, transformer


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
