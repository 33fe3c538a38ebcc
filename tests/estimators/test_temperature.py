"""Calibration on held-out rows."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs, make_moons
from sklearn.linear_model import LogisticRegression

from farfield.errors import InputError
from farfield.estimators import (
    CalibrationWarning,
    EnsembleClassifier,
    RBFClassifier,
    ReLUClassifier,
    TemperatureScaling,
)
from farfield.estimators.prediction import probabilities_of
from farfield.evaluate import calibration


@pytest.fixture(scope="module")
def noisy() -> Any:
    X, y = make_moons(1100, noise=0.35, random_state=0)
    return X[:100], y[:100], X[100:600], y[100:600], X[600:], y[600:]


@pytest.fixture(scope="module")
def overfitted(noisy: Any) -> ReLUClassifier:
    model = ReLUClassifier(hidden=(60, 60), epochs=200, learning_rate=0.01, random_state=0)
    return model.fit(noisy[0], noisy[1])


@pytest.mark.parametrize("method", ["temperature", "platt"])
def test_calibration_helps_on_rows_it_has_not_seen(
    method: Any, noisy: Any, overfitted: ReLUClassifier
) -> None:
    _, _, X, y, fresh, labels = noisy
    model = TemperatureScaling(overfitted, method=method, prefit=True).fit(X, y)
    report = model.report_
    assert report.applied
    assert report.rows == 500
    assert report.nll_after < report.nll_before
    assert model.temperature_ == pytest.approx(1 / report.factor)
    assert model.temperature_ > 1.5
    before = calibration(overfitted.predict_proba(fresh), labels)
    after = calibration(model.predict_proba(fresh), labels)
    assert after.nll < before.nll
    assert after.ece < before.ece
    held = calibration(model.predict_proba(X), y)
    assert held.nll == pytest.approx(report.nll_after, abs=1e-6)
    assert held.ece == pytest.approx(report.ece_after, abs=1e-6)
    if method == "temperature":
        assert model.bias_ == 0
        np.testing.assert_array_equal(model.predict(fresh), overfitted.predict(fresh))


def test_the_temperature_is_the_minimum(noisy: Any, overfitted: ReLUClassifier) -> None:
    X, y = noisy[2], noisy[3]
    model = TemperatureScaling(overfitted, prefit=True).fit(X, y)
    logits = np.log(overfitted.predict_proba(X))

    def nll(factor: float) -> float:
        scaled = logits * factor
        scaled -= np.logaddexp(scaled[:, 0], scaled[:, 1])[:, None]
        return float(-scaled[np.arange(len(y)), y].mean())

    best = min(np.linspace(0.01, 2, 2000), key=nll)
    assert model.report_.factor == pytest.approx(best, abs=2e-3)


def test_one_and_two_logits_and_ensembles_agree_with_their_instances(noisy: Any) -> None:
    X, y = noisy[0], noisy[1]
    for logits in ("one", "two"):
        for method in ("temperature", "platt"):
            base = EnsembleClassifier(members=2, logits=logits, epochs=40, random_state=0)
            model = TemperatureScaling(base, method=method, random_state=0).fit(X, y)
            assert model.report_.nll_after <= model.report_.nll_before
            assert not hasattr(base, "instances_")
            outputs = np.stack([m(torch.from_numpy(X).float()).numpy() for m in model.instances_])
            np.testing.assert_allclose(
                probabilities_of(outputs.astype(float)), model.predict_instances(X), atol=1e-5
            )


def test_a_fit_that_fails_is_not_applied_and_says_so(
    noisy: Any, overfitted: ReLUClassifier, monkeypatch: Any
) -> None:
    X, y = noisy[2], noisy[3]
    monkeypatch.setattr("farfield.estimators.temperature._fit_map", lambda *_: (50.0, 0.0))
    with pytest.warns(CalibrationWarning, match="held-out rows from .* stay as they are"):
        model = TemperatureScaling(overfitted, prefit=True).fit(X, y)
    assert not model.report_.applied
    assert model.report_.nll_after > model.report_.nll_before
    assert model.temperature_ == 1
    np.testing.assert_array_equal(model.predict_proba(X), overfitted.predict_proba(X))


def test_more_than_two_classes() -> None:
    X, y = make_blobs(300, centers=4, cluster_std=3.0, random_state=0)
    base = ReLUClassifier(epochs=150, learning_rate=0.02, random_state=0)
    model = TemperatureScaling(base, random_state=0).fit(X, y)
    assert model.predict_proba(X).shape == (300, 4)
    assert model.temperature_ > 1
    with pytest.raises(InputError, match="two classes, got 4"):
        TemperatureScaling(base, method="platt", random_state=0).fit(X, y)


def test_separable_data_keeps_the_temperature_within_bounds() -> None:
    X = np.repeat([[-1.0], [1.0]], 50, axis=0)
    y = np.repeat([0, 1], 50)
    base = ReLUClassifier(hidden=(4,), epochs=20, random_state=0)
    model = TemperatureScaling(base, random_state=0).fit(X, y)
    assert 0.01 <= model.temperature_ <= 100
    assert np.isfinite(model.predict_proba(X)).all()


def test_calibrating_twice_and_other_networks(noisy: Any) -> None:
    X, y = noisy[0], noisy[1]
    # A network that always has one logit per class, whatever ``logits`` says.
    base = RBFClassifier(logits="one", centres=30, random_state=0)
    once = TemperatureScaling(base, method="platt", random_state=0)
    twice = TemperatureScaling(once, random_state=0, holdout=0.4).fit(X, y)
    outputs = twice.module_(torch.from_numpy(X).float()).double().numpy()
    np.testing.assert_allclose(probabilities_of(outputs), twice.predict_proba(X), atol=1e-5)


def test_bad_use_is_refused(noisy: Any, overfitted: ReLUClassifier) -> None:
    X, y = noisy[0], noisy[1]
    with pytest.raises(InputError, match="method must be"):
        TemperatureScaling(method="isotonic").fit(X, y)
    with pytest.raises(InputError, match="holdout"):
        TemperatureScaling(holdout=1.5).fit(X, y)
    with pytest.raises(InputError, match="got None"):
        TemperatureScaling(prefit=True).fit(X, y)
    with pytest.raises(InputError, match="LogisticRegression"):
        TemperatureScaling(LogisticRegression()).fit(X, y)
    with pytest.raises(InputError, match=r"labels \[5\]"):
        TemperatureScaling(overfitted, prefit=True).fit(X, np.full(len(X), 5))
