"""scikit-learn's multi-layer perceptron, alone or behind affine scalers, as a :class:`Program`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.errors import CaptureError, NotFollowed
from farfield.graph.program import CodePlace, Program, Ref, Step

aten = torch.ops.aten
ACTIVATIONS = {
    "relu": aten.relu.default,
    "logistic": aten.sigmoid.default,
    "tanh": aten.tanh.default,
    "identity": None,
}


class _Writer:
    """Collects steps and constants one after another."""

    def __init__(self, features: int) -> None:
        self.steps: list[Step] = []
        self.constants: dict[str, Tensor] = {}
        self.last = Ref("x")
        self.features = features
        self.width = features
        self.source = CodePlace()

    def constant(self, values: Any) -> Ref:
        name = f"c{len(self.constants)}"
        self.constants[name] = torch.from_numpy(np.array(values, dtype=np.float64))
        return Ref(name)

    def step(self, target: Any, *args: Any) -> None:
        name = f"v{len(self.steps)}"
        self.steps.append(Step(name, target, (self.last, *args), source=self.source))
        self.last = Ref(name)

    def linear(self, weight: Any, bias: Any) -> None:
        self.features = weight.shape[0]
        self.width = max(self.width, self.features)
        self.step(aten.linear.default, self.constant(weight), self.constant(bias))


def is_scikit(model: Any) -> bool:
    """Whether a model is one of scikit-learn's own classes."""
    return type(model).__module__.split(".")[0] == "sklearn"


def read_scikit(model: Any) -> tuple[Program, dict[str, Tensor]]:
    """Read a fitted ``MLPClassifier`` or a ``Pipeline`` that ends in one."""
    named = model.steps if type(model).__name__ == "Pipeline" else [("model", model)]
    parts = [(name, part) for name, part in named if part is not None and part != "passthrough"]
    problems = [
        f"  step {name!r} is {type(part).__name__}"
        for name, part in parts[:-1]
        if type(part).__name__ not in SCALERS or not is_scikit(part)
    ]
    name, classifier = parts[-1]
    if type(classifier).__name__ != "MLPClassifier":
        problems.append(
            f"  the last step {name!r} is {type(classifier).__name__}, not MLPClassifier"
        )
    if problems:
        raise NotFollowed(
            f"{type(model).__name__} has no exact far field here yet:\n"
            + "\n".join(problems)
            + "\nFollowed exactly are MLPClassifier, alone or in a Pipeline behind "
            + f"{', '.join(SCALERS)}."
        )
    for name, part in parts:
        if not any(key.endswith("_") and not key.startswith("_") for key in vars(part)):
            raise CaptureError(
                f"step {name!r} ({type(part).__name__}) is not fitted; call fit first"
            )
    writer = _Writer(int(parts[0][1].n_features_in_))
    inputs = writer.features
    for name, part in parts[:-1]:
        writer.source = CodePlace(f"{name} ({type(part).__name__})")
        SCALERS[type(part).__name__](writer, part)
    writer.source = CodePlace(f"{parts[-1][0]} (MLPClassifier)")
    _perceptron(writer, classifier)
    program = Program(
        steps=tuple(writer.steps),
        input="x",
        output=writer.last.name,
        input_shape=(inputs,),
        output_shape=(writer.features,),
        width=writer.width,
    )
    return program, writer.constants


def _perceptron(writer: _Writer, model: Any) -> None:
    if model.activation not in ACTIVATIONS:
        raise CaptureError(
            f"MLPClassifier has activation {model.activation!r}; known are {', '.join(ACTIVATIONS)}"
        )
    if model.out_activation_ == "logistic" and model.n_outputs_ > 1:
        raise CaptureError(
            f"MLPClassifier has {model.n_outputs_} independent sigmoid outputs (multi-label); "
            "farfield reads classifiers whose classes exclude one another"
        )
    layers = list(zip(model.coefs_, model.intercepts_, strict=True))
    for index, (weight, bias) in enumerate(layers):
        writer.linear(np.asarray(weight).T, bias)
        activation = ACTIVATIONS[model.activation]
        if activation is not None and index + 1 < len(layers):
            writer.step(activation)


def _standard(writer: _Writer, scaler: Any) -> None:
    if scaler.mean_ is not None and scaler.with_mean:
        writer.step(aten.sub.Tensor, writer.constant(scaler.mean_))
    if scaler.scale_ is not None:
        writer.step(aten.mul.Tensor, writer.constant(1.0 / scaler.scale_))


def _min_max(writer: _Writer, scaler: Any) -> None:
    writer.step(aten.mul.Tensor, writer.constant(scaler.scale_))
    writer.step(aten.add.Tensor, writer.constant(scaler.min_))
    if scaler.clip:
        writer.step(aten.clamp.default, *map(float, scaler.feature_range))


def _max_abs(writer: _Writer, scaler: Any) -> None:
    writer.step(aten.mul.Tensor, writer.constant(1.0 / scaler.scale_))
    if getattr(scaler, "clip", False):
        writer.step(aten.clamp.default, -1.0, 1.0)


def _robust(writer: _Writer, scaler: Any) -> None:
    if scaler.center_ is not None:
        writer.step(aten.sub.Tensor, writer.constant(scaler.center_))
    if scaler.scale_ is not None:
        writer.step(aten.mul.Tensor, writer.constant(1.0 / scaler.scale_))


def _principal_components(writer: _Writer, scaler: Any) -> None:
    weight = np.asarray(scaler.components_, dtype=np.float64)
    if scaler.whiten:
        smallest = np.finfo(scaler.explained_variance_.dtype).eps
        scale = np.sqrt(scaler.explained_variance_)
        weight = weight / np.maximum(scale, smallest)[:, None]
    writer.linear(weight, -weight @ scaler.mean_)


SCALERS = {
    "StandardScaler": _standard,
    "MinMaxScaler": _min_max,
    "MaxAbsScaler": _max_abs,
    "RobustScaler": _robust,
    "PCA": _principal_components,
}
