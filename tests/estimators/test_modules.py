"""A user's own network in place of the perceptron, images included."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from farfield.errors import InputError
from farfield.estimators import (
    AnchoredEnsembleClassifier,
    BayesByBackpropClassifier,
    EnsembleClassifier,
    EnsembleRegressor,
    MCDropoutClassifier,
    ReLUClassifier,
    TemperatureScaling,
    load,
)


class Convolutional(nn.Module):
    """Not a sequence, with batch norm and two kinds of dropout."""

    def __init__(self, outputs: int = 3) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.channels = nn.Dropout2d(0.1)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(6 * 9, outputs)

    def forward(self, images: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.drop(self.channels(self.features(images)).flatten(1)))
        return outputs


@pytest.fixture(scope="module")
def images() -> tuple[NDArray[Any], NDArray[Any]]:
    """Bright columns, rows and corners."""
    generator = np.random.default_rng(0)
    codes = generator.integers(3, size=120)
    pictures = generator.uniform(0, 0.3, (120, 1, 6, 6))
    pictures[codes == 0, :, :, 2] += 0.7
    pictures[codes == 1, :, 2, :] += 0.7
    pictures[codes == 2, :, :3, :3] += 0.7
    return pictures, np.array(["column", "row", "corner"])[codes]


QUICK: dict[str, Any] = {
    "module": Convolutional,
    "epochs": 10,
    "learning_rate": 0.04,
    "batch_size": 60,
    "random_state": 0,
}

EVERY = pytest.mark.parametrize(
    ("model", "instances"),
    [
        (ReLUClassifier(**QUICK), 1),
        (EnsembleClassifier(members=2, patience=5, **QUICK), 2),
        (EnsembleClassifier(members=2, objective="adversarial", **QUICK), 2),
        (ReLUClassifier(objective="virtual-adversarial", **QUICK), 1),
        (AnchoredEnsembleClassifier(members=2, **QUICK), 2),
        (MCDropoutClassifier(samples=4, **QUICK), 4),
        (BayesByBackpropClassifier(samples=3, elbo_samples=2, rho_init=-5.0, **QUICK), 3),
        (TemperatureScaling(ReLUClassifier(**QUICK), random_state=0), 1),
    ],
    ids=lambda value: type(value).__name__,
)


@EVERY
@pytest.mark.filterwarnings("ignore:calibration would move:UserWarning")
def test_images(model: Any, instances: int, images: Any, tmp_path: Any) -> None:
    X, y = images
    model.fit(X, y)
    assert model.score(X, y) > 0.9
    each = model.predict_instances(X)
    assert each.shape == (instances, len(X), 3)
    inputs = torch.from_numpy(X).float()
    torch.export.export(model.instances_[-1], (inputs[:3],))
    for instance, probabilities in zip(model.instances_, each, strict=True):
        with torch.no_grad():
            np.testing.assert_allclose(instance(inputs).softmax(-1), probabilities, atol=1e-5)
    if isinstance(model, MCDropoutClassifier):
        assert np.abs(each[0] - each[1]).max() > 1e-3
    model.save(tmp_path / "model")
    with pytest.raises(InputError, match="module"):
        load(tmp_path / "model")
    again = load(tmp_path / "model", module=Convolutional)
    np.testing.assert_allclose(again.predict_instances(X), each, atol=1e-6)


def test_two_dimensional_inputs_are_scaled_in_front_of_a_module(moons: Any) -> None:
    X, y = moons
    shifted = X * 1000 + 5000

    def build() -> nn.Module:
        return nn.Sequential(nn.Tanh(), nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))

    model = ReLUClassifier(module=build, epochs=60, random_state=0).fit(shifted, y)
    assert model.score(shifted, y) > 0.8
    logits = model.module_(torch.from_numpy(shifted).float())
    np.testing.assert_allclose(logits.softmax(-1), model.predict_proba(shifted), atol=1e-4)


def test_a_module_for_regression(cubic: Any) -> None:
    X, y = cubic

    def build() -> nn.Module:
        return nn.Sequential(nn.Linear(1, 30), nn.ReLU(), nn.Dropout(0.05), nn.Linear(30, 2))

    model = EnsembleRegressor(
        module=build, members=3, epochs=50, learning_rate=0.02, random_state=0
    ).fit(X, y)
    assert model.score(X, y) > 0.8
    dropped = EnsembleRegressor(
        module=build, variant="mc-dropout", members=3, epochs=5, random_state=0
    )
    assert dropped.fit(X, y).predict_mixture(X).knowledge_variance.min() >= 0


def test_a_module_that_does_not_fit_is_explained(moons: Any) -> None:
    X, y = moons
    with pytest.raises(InputError, match="needs 2 outputs"):
        ReLUClassifier(module=lambda: nn.Linear(2, 5)).fit(X, y)
    with pytest.raises(InputError, match="dropout layers"):
        MCDropoutClassifier(module=lambda: nn.Linear(2, 2)).fit(X, y)
    with pytest.raises(InputError, match="'weights'"):
        BayesByBackpropClassifier(module=lambda: nn.Linear(2, 2), reparameterization="local").fit(
            X, y
        )
