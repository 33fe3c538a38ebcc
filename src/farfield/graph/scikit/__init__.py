"""Fitted objects of scikit-learn as programs."""

from __future__ import annotations

from typing import Any

import farfield.graph.scikit.boosting
import farfield.graph.scikit.ensembles
import farfield.graph.scikit.histogram
import farfield.graph.scikit.perceptron
import farfield.graph.scikit.scalers
import farfield.graph.scikit.trees  # noqa: F401 - importing registers the readers
from farfield.errors import CaptureError
from farfield.graph.reading import InputColumn, Reading, Writer
from farfield.graph.scikit.registry import Table, classify, is_scikit

__all__ = ["is_scikit", "read_scikit"]


def read_scikit(model: Any) -> Reading:
    """Read a fitted classifier or a pipeline that ends in one."""
    inputs = getattr(model, "n_features_in_", None)
    if inputs is None:
        raise CaptureError(f"{type(model).__name__} is not fitted; call fit first")
    names = getattr(model, "feature_names_in_", [None] * int(inputs))
    columns = tuple(InputColumn(None if name is None else str(name)) for name in names)
    writer = Writer(len(columns))
    scores = classify(writer, Table(writer.input, columns), model)
    labels = tuple(model.classes_.tolist())
    return Reading(writer.program(scores.value), writer.constants, scores.link, labels, columns)
