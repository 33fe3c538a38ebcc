"""Models that cannot be what their maker saw are doubted before anything else is said."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import farfield as ff
from audit_subjects import affine
from farfield.audit.conclusions import OVERCONFIDENT, cautions
from farfield.audit.fields.quality import Health
from farfield.evaluate import Estimate


def health(accuracy, baseline, mmc, nll=0.5):
    number = Estimate(accuracy, accuracy, accuracy, 0.95, "given")
    return Health(
        100,
        {"accuracy": number, "nll": Estimate(nll, nll, nll, 0.95, "given")},
        mmc=mmc,
        baseline=baseline,
    )


def test_a_model_that_is_no_better_than_none_is_doubted():
    (text,) = cautions(health(0.37, 0.63, 0.9), "classification")
    assert all(part in text for part in ("37.0%", "63.0%", "columns in the model's order"))


def test_a_model_far_surer_than_right_is_doubted():
    (text,) = cautions(health(0.64, 0.63, 0.99), "classification")
    assert "99.0% sure" in text


def test_ruling_out_the_truth_is_doubted():
    (text,) = cautions(health(0.9, 0.5, 0.9, nll=float("inf")), "classification")
    assert "exactly 0" in text


@pytest.mark.parametrize(("reported", "doubted"), [(None, 0), (0.89, 0), (0.95, 1), (0.8, 1)])
def test_an_accuracy_far_from_the_reported_one_is_doubted(reported, doubted):
    found = cautions(health(0.9, 0.5, 0.9), "classification", reported)
    assert len(found) == doubted
    assert all("90.0%" in text and f"{reported:.1%} was reported" in text for text in found)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_good_models_are_left_alone(accuracy, baseline, mmc):
    doubted = bool(cautions(health(accuracy, baseline, mmc), "classification"))
    assert doubted == (accuracy < baseline or mmc - accuracy > OVERCONFIDENT)


def test_without_labels_nothing_is_doubted():
    assert cautions(None, "classification") == ()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_columns_in_another_order_are_a_warning_of_the_audit(order):
    """An array has no names to be compared: the numbers themselves give the mistake away."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2)) * [1.0, 50.0] + [0.0, 200.0]
    y = (X[:, 0] > 0).astype(int)
    model = affine([[-200.0, 0.0], [200.0, 0.0]], [0.0, 0.0])
    few = {"directions": 5, "samples": 40}
    found = ff.audit(model, X[:, order], y, **few)
    if order == (0, 1):
        assert found.warnings == ()
        assert found.health.baseline == max(y.mean(), 1 - y.mean())
    else:
        assert len(found.warnings) == 2
        assert found.warnings == ff.audit(model, X[:, order], y, **few).warnings


def test_a_regressor_worse_than_the_mean_is_doubted():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 2))
    y = 3 * X[:, 0]
    model = ff.EnsembleRegressor(members=2, hidden=(8,), epochs=20, random_state=0).fit(X, y)
    assert ff.audit(model, X, y, directions=10).warnings == ()
    (text,) = ff.audit(model, -X, y, directions=10).warnings
    assert f"{y.std():.3g}" in text


def test_a_model_that_falls_silent_far_out_is_a_warning():
    X = np.random.default_rng(0).standard_normal((60, 2))

    def silent(rows):
        p = np.full((len(rows), 2), 0.5)
        p[np.abs(rows).max(axis=1) > 1e4] = np.nan
        return p

    found = ff.audit(silent, X, directions=5, samples=20)
    (text,) = found.warnings
    assert all(part in text for part in ("NaN", "100.0% of the directions"))
    assert {each.unanswered for each in found.families} == {1.0}


def test_a_model_that_falls_silent_near_the_data_is_a_warning():
    X = np.random.default_rng(0).standard_normal((60, 2))

    def silent(rows):
        p = np.full((len(rows), 2), 0.5)
        p[np.abs(rows).max(axis=1) > np.abs(X).max()] = np.nan
        return p

    found = ff.audit(silent, X, directions=5, samples=20)
    assert any("not drawn" in text for text in found.warnings)
    assert found.surfaces == ()
    assert all(np.isfinite(ray.scores["confidence"]).all() for ray in found.rays)
