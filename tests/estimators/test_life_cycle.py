"""One contract for all of them: fit, predict, instances, reproducibility, saving."""

import functools
import pickle
import random
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from farfield import capture
from farfield.errors import InputError
from farfield.estimators import (
    AnchoredEnsembleClassifier,
    BayesByBackpropClassifier,
    EnsembleClassifier,
    EnsembleRegressor,
    MCDropoutClassifier,
    RBFClassifier,
    ReLUClassifier,
    TemperatureScaling,
    load,
)
from farfield.objectives import ACET

QUICK: dict[str, Any] = {
    "hidden": (12, 8), "epochs": 10, "batch_size": 80, "learning_rate": 0.06, "random_state": 3
}  # fmt: skip
# Noise that is attacked is learned in smaller steps.
SLOW: dict[str, Any] = {**QUICK, "epochs": 15, "learning_rate": 0.03}

CLASSIFIERS: dict[str, tuple[Any, int]] = {
    "relu": (ReLUClassifier(**QUICK), 1),
    "relu one logit": (ReLUClassifier(logits="one", **QUICK), 1),
    "leaky, batch norm": (ReLUClassifier(activation="leaky_relu", batch_norm=True, **QUICK), 1),
    "ensemble": (EnsembleClassifier(members=3, **QUICK), 3),
    "ensemble adversarial": (EnsembleClassifier(members=2, objective="adversarial", **QUICK), 2),
    "virtual-adversarial": (ReLUClassifier(objective="virtual-adversarial", **QUICK), 1),
    "ceda": (EnsembleClassifier(members=2, objective="ceda", **QUICK), 2),
    "acet": (ReLUClassifier(objective=ACET(steps=2, step_size=0.1), **SLOW), 1),
    "anchored": (AnchoredEnsembleClassifier(members=3, **QUICK), 3),
    "mc dropout": (MCDropoutClassifier(samples=5, dropout=0.1, **QUICK), 5),
    "bayes by backprop": (BayesByBackpropClassifier(samples=4, **QUICK), 4),
    "rbf": (RBFClassifier(centres=20, epochs=10, learning_rate=0.05, random_state=3), 1),
    "temperature": (TemperatureScaling(ReLUClassifier(**QUICK), random_state=3), 1),
    "platt": (
        TemperatureScaling(
            EnsembleClassifier(members=2, logits="one", **QUICK), method="platt", random_state=3
        ),
        2,
    ),
}
REGRESSORS: dict[str, Any] = {
    "gaussian": EnsembleRegressor(members=3, **QUICK),
    "laplace anchored": EnsembleRegressor(
        members=3, likelihood="laplace", variant="anchored", **QUICK
    ),
    "gaussian adversarial": EnsembleRegressor(members=2, objective="adversarial", **QUICK),
    "laplace virtual-adversarial": EnsembleRegressor(
        members=2, likelihood="laplace", objective="virtual-adversarial", **QUICK
    ),
    "mse": EnsembleRegressor(members=2, likelihood="mse", **QUICK),
    "mae mc dropout": EnsembleRegressor(
        members=4, likelihood="mae", variant="mc-dropout", dropout=0.1, **QUICK
    ),
}


@functools.cache
def fitted(name: str) -> Any:
    """Each classifier, trained once on half-moons; tests leave it as it is."""
    return clone(CLASSIFIERS[name][0]).fit(*make_moons(200, noise=0.125, random_state=0))


@functools.cache
def fitted_to_words(name: str) -> Any:
    """The same with named columns and labels that are words; fitting moves no global state."""
    X, y = make_moons(200, noise=0.125, random_state=0)
    frame = pd.DataFrame(X, columns=["across", "up"])
    model = clone(CLASSIFIERS[name][0])
    before = torch.get_rng_state(), np.random.get_state()[1], random.getstate()  # noqa: NPY002
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    assert model.fit(frame, np.where(y == 1, "yes", "no")) is model
    after = torch.get_rng_state(), np.random.get_state()[1], random.getstate()  # noqa: NPY002
    assert torch.equal(before[0], after[0])
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2] == after[2]
    assert (threads, dtype) == (torch.get_num_threads(), torch.get_default_dtype())
    return model


every_classifier = pytest.mark.parametrize("name", list(CLASSIFIERS))
every_regressor = pytest.mark.parametrize("name", list(REGRESSORS))


def probabilities(instances: list[torch.nn.Module], X: NDArray[Any]) -> NDArray[Any]:
    """Softmax (or sigmoid) of plain modules, by hand."""
    with torch.no_grad():
        logits = torch.stack([instance(torch.from_numpy(X).float()) for instance in instances])
    if logits.shape[-1] == 1:
        logits = torch.cat([torch.zeros_like(logits), logits], dim=-1)
    return logits.double().softmax(-1).numpy()


@every_classifier
def test_fits_and_gives_its_instances(name: str, moons: Any) -> None:
    X, y = moons
    model, instances = fitted(name), CLASSIFIERS[name][1]
    assert model.score(X, y) > 0.8
    assert len(model.instances_) == instances
    assert model.module_ is model.instances_[0]
    assert not any(instance.training for instance in model.instances_)
    each = model.predict_instances(X)
    assert each.shape == (instances, len(X), 2)
    np.testing.assert_allclose(each, probabilities(model.instances_, X), atol=2e-5)
    np.testing.assert_allclose(model.predict_proba(X), each.mean(0), atol=1e-12)
    np.testing.assert_allclose(each.sum(-1), 1, atol=1e-12)


# One of each kind of module: exporting takes a second.
@pytest.mark.parametrize("name", ["relu", "leaky, batch norm", "mc dropout", "rbf", "platt"])
def test_instances_can_be_exported(name: str, moons: Any) -> None:
    X, _ = moons
    model = fitted(name)
    example = torch.from_numpy(X[:4]).float()
    program = torch.export.export(model.instances_[-1], (example,))
    expected = model.instances_[-1](example)
    torch.testing.assert_close(program.module()(example), expected)


@pytest.mark.parametrize(
    "name", ["relu one logit", "leaky, batch norm", "ensemble", "bayes by backprop", "platt"]
)
def test_the_exact_core_reads_what_is_predicted(name: str, moons: Any) -> None:
    X, _ = moons
    model = fitted(name)
    network = capture(model)
    captured = network.probabilities(torch.from_numpy(X))
    np.testing.assert_allclose(captured, model.predict_instances(X), atol=1e-12)


@every_classifier
def test_same_seed_same_model_and_no_global_state_moves(name: str, moons: Any) -> None:
    X, _ = moons
    first = fitted(name).predict_proba(X)
    second = fitted_to_words(name).predict_proba(pd.DataFrame(X, columns=["across", "up"]))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", [n for n in CLASSIFIERS if n not in ("temperature", "platt")])
def test_another_seed_another_model(name: str, moons: Any) -> None:
    X, y = moons
    first = fitted(name).predict_proba(X)
    second = clone(CLASSIFIERS[name][0]).set_params(random_state=4).fit(X, y).predict_proba(X)
    assert np.abs(first - second).max() > 1e-4


@every_classifier
def test_string_labels_pandas_and_uncertainty(name: str, moons: Any) -> None:
    X, _ = moons
    frame, model = pd.DataFrame(X, columns=["across", "up"]), fitted_to_words(name)
    assert model.feature_names_in_.tolist() == ["across", "up"]
    assert model.n_features_in_ == 2
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(frame)) == {"no", "yes"}
    for score in ("predictive_entropy", "mutual_information", "energy"):
        values = model.uncertainty(frame, score)
        assert values.shape == (len(X),)
        assert np.isfinite(values).all()
    with pytest.raises(InputError, match="surprise"):
        model.uncertainty(frame, "surprise")


@every_classifier
def test_saved_and_loaded_is_the_same(name: str, moons: Any, tmp_path: Any) -> None:
    X = pd.DataFrame(moons[0], columns=["across", "up"])
    model = fitted_to_words(name)
    path = tmp_path / "model.farfield"
    model.save(path)
    loaded = load(path)
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.predict_instances(X), model.predict_instances(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.classes_.dtype == model.classes_.dtype
    assert repr(loaded) == repr(model)
    double = load(path, dtype=torch.float64)
    assert next(double.module_.parameters()).dtype == torch.float64
    np.testing.assert_allclose(double.predict_proba(X), model.predict_proba(X), atol=1e-6)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.farfield"]
    assert repr(clone(loaded)) == repr(clone(model))


@every_classifier
def test_pickles(name: str, moons: Any) -> None:
    X, _ = moons
    model = fitted(name)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@every_regressor
def test_regressors(name: str, cubic: Any, tmp_path: Any) -> None:
    X, y = cubic
    model = clone(REGRESSORS[name]).fit(X, y)
    assert model.score(X, y) > 0.5
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(X))
    assert mean.shape == std.shape == (len(X),)
    assert (std > 0).all()
    interval = model.predict_interval(X, 0.8)
    assert (interval[:, 0] < interval[:, 1]).all()
    assert 0.5 < ((y > interval[:, 0]) & (y < interval[:, 1])).mean() <= 1
    assert np.isfinite(model.nll(X, y))
    with torch.no_grad():
        outputs = model.instances_[0](torch.from_numpy(X).float())
    np.testing.assert_allclose(outputs[:, 0], model.predict_instances(X)[0, :, 0], atol=1e-3)
    if outputs.shape[1] == 2:
        scale = model.target_scale_ * (torch.nn.functional.softplus(outputs[:, 1]) + 1e-6)
        np.testing.assert_allclose(scale, model.predict_instances(X)[0, :, 1], rtol=1e-4)
    model.save(tmp_path / "regressor")
    again = load(tmp_path / "regressor")
    np.testing.assert_array_equal(again.predict(X, return_std=True), (mean, std))


@pytest.mark.parametrize(
    "model",
    [
        ReLUClassifier(logits="one"),
        EnsembleClassifier(members=2, dropout=0.1),
        AnchoredEnsembleClassifier(members=2),
        MCDropoutClassifier(samples=3),
        BayesByBackpropClassifier(samples=3),
        RBFClassifier(centres=20),
        TemperatureScaling(ReLUClassifier(), prefit=False, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore:calibration would move:UserWarning")
def test_every_classifier_takes_ceda_and_acet(model: Any, moons: Any) -> None:
    X, y = moons
    far = np.random.default_rng(0).uniform(-3, 4, (200, 2))
    sure = {}
    for name, objective in (("nll", "nll"), ("ceda", "ceda"), ("acet", ACET(steps=2))):
        fresh = clone(model)
        (fresh.estimator if hasattr(fresh, "estimator") else fresh).set_params(
            objective=objective, hidden=(16,), epochs=12, learning_rate=0.06, batch_size=100,
            random_state=0,
        )  # fmt: skip
        sure[name] = float(fresh.fit(X, y).predict_proba(far).max(axis=1).mean())
    # Radial basis functions are unsure there by themselves.
    margin = 0.0 if isinstance(model, RBFClassifier) else 0.03
    assert sure["ceda"] < sure["nll"] - margin
    assert sure["acet"] < sure["nll"] - margin


def test_images_can_be_trained_with_ceda_and_acet() -> None:
    generator = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = generator.uniform(0, 0.4, (40, 1, 6, 6))
    X[y == 1] += 0.6

    def build() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(32, 2)
        )

    for objective in ("ceda", ACET(steps=2)):
        model = EnsembleClassifier(
            members=2, module=build, objective=objective, epochs=20, random_state=0
        )
        assert model.fit(X, y).score(X, y) == 1
        with pytest.raises(InputError, match="divide them by 255"):
            clone(model).fit(255 * X, y)


@pytest.mark.parametrize("objective", ["ceda", "acet"])
def test_regressors_have_no_confidence_to_lower(objective: str, cubic: Any) -> None:
    with pytest.raises(InputError, match="has none; use objective='nll'"):
        EnsembleRegressor(objective=objective, members=1, epochs=1).fit(*cubic)


def test_inside_a_pipeline_a_grid_and_a_cross_validation(moons: Any) -> None:
    X, y = moons
    pipeline = make_pipeline(StandardScaler(), EnsembleClassifier(members=2, **QUICK))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.8
    grid = {"ensembleclassifier__hidden": [(4,), (8,)], "ensembleclassifier__members": [1, 2]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert search.best_score_ > 0.7
    scaling = TemperatureScaling(ReLUClassifier(**QUICK), random_state=0)
    search = GridSearchCV(scaling, {"estimator__hidden": [(4,), (8,)]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.7


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"hidden": (0,)}, "hidden must be positive integers"),
        ({"hidden": 25}, "hidden must be positive integers, got 25"),
        ({"dropout": 1.0}, "dropout must be"),
        ({"optimizer": "lbfgs"}, "optimizer must be 'adam' or 'sgd', got 'lbfgs'"),
        ({"learning_rate": -1, "epochs": 0}, "learning_rate .*; epochs must be"),
        ({"objective": "magic"}, "objective must be one of .*'magic'"),
        ({"logits": "three"}, "logits must be"),
        ({"random_state": "seed"}, "random_state must be"),
        ({"class_weight": "heavy"}, "class_weight"),
        ({"schedule": (0.5, 2)}, "schedule must be shares"),
    ],
)
def test_bad_parameters_are_named(parameters: Any, match: str, moons: Any) -> None:
    with pytest.raises(InputError, match=match):
        ReLUClassifier(**parameters).fit(*moons)


def test_bad_data_is_refused(moons: Any) -> None:
    X, y = moons
    model = ReLUClassifier(**QUICK)
    with pytest.raises(InputError, match="NaN"):
        model.fit(np.where(X > 1, np.nan, X), y)
    with pytest.raises(InputError, match="one class"):
        model.fit(X, np.zeros(len(X)))
    with pytest.raises(InputError, match="inconsistent"):
        model.fit(X, y[:-1])
    with pytest.raises(InputError, match="0 sample"):
        model.fit(X[:0], y[:0])
    with pytest.raises(InputError, match="float32"):
        model.set_params(standardize=False).fit(X * 1e300, y)
    model.set_params(standardize=True).fit(X, y)
    with pytest.raises(InputError, match="3 features"):
        model.predict(np.zeros((2, 3)))
    with pytest.raises(InputError, match=r"labels \[7\]"):
        model.fit(X, y, validation=(X, np.full(len(X), 7)))
    with pytest.raises(InputError, match="pair"):
        model.fit(X, y, validation=3)


def test_a_constant_column_and_a_large_offset_do_no_harm(moons: Any) -> None:
    X, y = moons
    padded = np.column_stack([X + 1000, np.full(len(X), 0.1)])
    assert ReLUClassifier(**QUICK).fit(padded, y).score(padded, y) > 0.9
