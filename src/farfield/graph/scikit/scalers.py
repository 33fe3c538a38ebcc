"""Affine transformers, and pipelines of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from farfield.graph.reading import InputColumn, Writer
from farfield.graph.scikit.registry import (
    Scores,
    Table,
    classifier,
    classify,
    transform,
    transformer,
)

aten = torch.ops.aten


@classifier("Pipeline")
def pipeline(writer: Writer, table: Table, model: Any) -> Scores:
    """Transform step by step, then classify."""
    steps = [(name, part) for name, part in model.steps if part not in (None, "passthrough")]
    for _, part in steps[:-1]:
        table = transform(writer, table, part)
    return classify(writer, table, steps[-1][1])


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


@transformer("PCA")
def _principal_components(writer: Writer, table: Table, scaler: Any) -> Table:
    weight = np.asarray(scaler.components_, dtype=np.float64)
    if scaler.whiten:
        smallest = np.finfo(scaler.explained_variance_.dtype).eps
        scale = np.sqrt(scaler.explained_variance_)
        weight = weight / np.maximum(scale, smallest)[:, None]
    value = writer.linear(table.value, weight, -weight @ scaler.mean_)
    columns = tuple(InputColumn(f"component {place}") for place in range(value.width))
    return Table(value, columns)
