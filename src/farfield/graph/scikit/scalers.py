"""Scalers: affine functions of single columns."""

from __future__ import annotations

from typing import Any

import torch

from farfield.graph.reading import Writer
from farfield.graph.scikit.registry import Table, transformer

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
