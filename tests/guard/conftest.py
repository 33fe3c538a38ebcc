"""A small trained network and its data, shared by the guard's tests."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons
from sklearn.neural_network import MLPClassifier
from torch import nn

import farfield as ff
from farfield.guard import GuardedModel, fit, guard, pt2_file

torch.set_num_threads(1)
ALL_FOLDS = fit.FOLDS


@pytest.fixture(scope="module")
def few_folds() -> Any:
    """Three folds in place of ten, where it is not the point how thresholds are found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "FOLDS", 3)
        yield


@pytest.fixture
def all_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views are fitted to all folds after all."""
    monkeypatch.setattr(fit, "FOLDS", ALL_FOLDS)


@pytest.fixture(scope="session", autouse=True)
def _quick_files(quick_onnx: None) -> Any:
    """Files are written and read often: what follows from the same numbers is traced once."""
    known: dict[Any, Any] = {}
    trace = pt2_file._reference

    def reference(covered: Any, record: Any) -> Any:
        numbers = {name: value.numpy().tobytes() for name, value in covered.state_dict().items()}
        key = record.model_dump_json(), *numbers.items()
        if key not in known:
            known[key] = trace(covered, record)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pt2_file, "_reference", reference)
        yield


def build_mlp(*sizes: int, seed: int = 0, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layer = nn.Linear(inputs, outputs)
        for parameter in layer.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator) * inputs**-0.5
        layers += [layer, activation()]
    return nn.Sequential(*layers[:-1])


@pytest.fixture(scope="session")
def mlp() -> Any:
    """Builds networks with seeded weights."""
    return build_mlp


def build_quick(*sizes: int, seed: int = 0) -> MLPClassifier:
    """The same as a fitted scikit-learn classifier in float32, which is read without tracing."""
    model = MLPClassifier(sizes[1:-1])
    layers = [layer for layer in build_mlp(*sizes, seed=seed) if isinstance(layer, nn.Linear)]
    model.coefs_ = [layer.weight.detach().numpy().T.copy() for layer in layers]
    model.intercepts_ = [layer.bias.detach().numpy().copy() for layer in layers]
    model.n_features_in_, model.n_outputs_ = sizes[0], sizes[-1]
    model.out_activation_, model.classes_ = "softmax", np.arange(sizes[-1])
    return model


@pytest.fixture(scope="session")
def quick() -> Any:
    """Builds networks that are read at once."""
    return build_quick


@pytest.fixture(scope="session")
def moons() -> tuple[Any, Any]:
    return make_moons(400, noise=0.125, random_state=0)


@pytest.fixture(scope="session")
def classifier(moons: tuple[Any, Any]) -> Any:
    return ff.ReLUClassifier(hidden=(16, 16), epochs=40, random_state=0).fit(*moons)


@pytest.fixture(scope="session")
def safe(classifier: Any, moons: tuple[Any, Any]) -> GuardedModel:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "FOLDS", ALL_FOLDS)
        return guard(classifier, moons[0])


@pytest.fixture(scope="session")
def everywhere() -> torch.Tensor:
    """Inputs from the middle of the data to the ends of float32."""
    generator = torch.Generator().manual_seed(1)
    scales = torch.logspace(-2, 37, 4000)
    return torch.randn(4000, 2, generator=generator) * scales[:, None]


@pytest.fixture(scope="session")
def table() -> Any:
    """Three numeric columns, a one-hot block of four (one of which never occurs), and a code."""
    rng = np.random.default_rng(0)
    number = rng.normal(size=(300, 3)) * [1.0, 10.0, 0.1]
    block = np.eye(4)[rng.integers(0, 3, 300)]
    code = rng.integers(0, 2, (300, 1)).astype(float)
    return np.hstack([number, block, code])
