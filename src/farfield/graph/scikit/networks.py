"""Networks: scikit-learn's multi-layer perceptron, those of skorch, and farfield's own."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from farfield.errors import CaptureError
from farfield.graph.radial import is_radial, read_radial
from farfield.graph.reading import Reading, Wire, Writer
from farfield.graph.scikit.registry import ClassScores, Table, as_probabilities, classifier
from farfield.graph.skorch import CLASSES, read_module, read_net

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


@classifier(
    "ReLUClassifier",
    "EnsembleClassifier",
    "AnchoredEnsembleClassifier",
    "BayesByBackpropClassifier",
    "MCDropoutClassifier",
    "RBFClassifier",
    "TemperatureScaling",
)
def own(writer: Writer, table: Table, model: Any) -> ClassScores:
    """Write the instances behind the columns that they get; of several, their mean."""
    scores = [_instance(writer, table, module) for module in model.instances_]
    if len(scores) == 1:
        return scores[0]
    shares = [as_probabilities(writer, each) for each in scores]
    width = shares[0].width
    total = writer.linear(shares[0], np.eye(width) / len(shares))
    for each in shares[1:]:
        part: Wire = writer.linear(each, np.eye(width) / len(shares))
        total = writer.step(aten.add.Tensor, total, part)
    return ClassScores(total, "identity")


def _instance(writer: Writer, table: Table, module: Any) -> ClassScores:
    reading: Reading = (
        read_radial(module) if is_radial(module) else read_module(module, table.width)
    )
    value = writer.include(table.value, reading.program, reading.constants)
    return ClassScores(value, reading.link)


def single_instances(model: Any) -> list[Any]:
    """A pipeline that ends in several instances, once for each of them; itself for any other."""
    steps: list[Any] = list(getattr(model, "steps", ()))
    modules = getattr(steps[-1][1], "instances_", ()) if steps else ()
    if len(modules) < 2:
        return [model]
    found = []
    for module in modules:
        name, last = steps[-1]
        one, whole = copy.copy(last), copy.copy(model)
        one.instances_ = [module]
        whole.steps = [*steps[:-1], (name, one)]
        found.append(whole)
    return found
