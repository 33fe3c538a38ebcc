"""Networks: scikit-learn's multi-layer perceptron, and those of skorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from farfield.errors import CaptureError
from farfield.graph.reading import Writer
from farfield.graph.scikit.registry import ClassScores, Table, classifier
from farfield.graph.skorch import CLASSES, read_net

aten = torch.ops.aten
ACTIVATIONS = {
    "relu": aten.relu.default,
    "logistic": aten.sigmoid.default,
    "tanh": aten.tanh.default,
    "identity": None,
}


@classifier("MLPClassifier")
def perceptron(writer: Writer, table: Table, model: Any) -> ClassScores:
    """Layers of weights with an activation between them."""
    if model.activation not in ACTIVATIONS:
        raise CaptureError(
            f"MLPClassifier has activation {model.activation!r}; known are {', '.join(ACTIVATIONS)}"
        )
    if model.out_activation_ == "logistic" and model.n_outputs_ > 1:
        raise CaptureError(
            f"MLPClassifier has {model.n_outputs_} independent sigmoid outputs (multi-label); "
            "farfield reads classifiers whose classes exclude one another"
        )
    value = table.value
    layers = list(zip(model.coefs_, model.intercepts_, strict=True))
    for index, (weight, bias) in enumerate(layers):
        value = writer.linear(value, np.asarray(weight).T, bias)
        activation = ACTIVATIONS[model.activation]
        if activation is not None and index + 1 < len(layers):
            value = writer.step(activation, value)
    return ClassScores(value, "softmax")


@classifier(*CLASSES)
def net(writer: Writer, table: Table, model: Any) -> ClassScores:
    """Write the module behind the columns that it gets."""
    reading = read_net(model, table.width)
    value = writer.include(table.value, reading.program, reading.constants)
    return ClassScores(value, reading.link)
