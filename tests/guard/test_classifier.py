from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from farfield.errors import InputError
from farfield.estimators import ReLUClassifier
from farfield.guard import GuardedClassifier, load
from farfield.guard.files import open_guard

pytestmark = pytest.mark.usefixtures("few_folds")

SMALL = ReLUClassifier(hidden=(8,), epochs=30, learning_rate=0.03, batch_size=32, random_state=0)
# Quick to fit, a hundred times; thresholds of few folds and rows keep less than they would.
QUICK = GuardedClassifier(LogisticRegression(), keep=0.9)


@pytest.mark.whole
@parametrize_with_checks([QUICK])
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


def test_labels_are_those_of_the_estimator(moons):
    X, y = moons[0], np.array(["no", "yes"])[moons[1]]
    model = GuardedClassifier(SMALL).fit(X, y)
    far = np.vstack([X, X * 1e5])
    assert (model.predict(far) == model.estimator_.predict(far)).all()
    assert model.predict_proba(X * 1e5).max() <= 0.51
    assert model.certificate_.verify(model.guard_)


def test_views_are_saved_without_the_estimator(moons, classifier, tmp_path):
    model = GuardedClassifier(classifier, prefit=True).fit(moons[0])
    model.save_views(tmp_path / "views.safetensors")
    certificate, proof = open_guard(tmp_path / "views.safetensors")
    assert certificate == model.certificate_
    assert proof
    with pytest.raises(InputError, match="no model"):
        load(tmp_path / "views.safetensors")
    with pytest.raises(NotFittedError):
        GuardedClassifier().save_views(tmp_path / "nothing.safetensors")


def test_prefit(moons, classifier):
    model = GuardedClassifier(classifier, prefit=True).fit(moons[0])
    assert model.estimator_ is classifier
    inside = model.is_inside(moons[0])
    own = classifier.predict_proba(moons[0])
    assert np.array_equal(model.predict_proba(moons[0])[inside], own[inside])


@pytest.mark.parametrize("kind", [RandomForestClassifier, HistGradientBoostingClassifier])
def test_any_classifier(moons, kind):
    model = GuardedClassifier(kind(random_state=0)).fit(*moons)
    own = model.estimator_.predict_proba(moons[0])
    inside = model.is_inside(moons[0])
    assert inside.mean() >= 0.99
    assert np.array_equal(model.predict_proba(moons[0])[inside], own[inside])
    far = moons[0] * 1e6
    assert model.predict_proba(far).max() <= 0.51
    assert (model.predict(far) == model.estimator_.predict(far)).all()
    assert (model.classes_[model.predict_proba(far).argmax(axis=1)] == model.predict(far)).all()
    assert not model.explain(far[0]).inside


def test_labels_are_required_unless_prefit(moons):
    with pytest.raises(InputError, match="y"):
        GuardedClassifier(SMALL).fit(moons[0])


def test_an_envelope_leaves_the_estimator_alone(moons):
    """In a pipeline and as a clone: its own probabilities, and where rows are beside them."""
    from sklearn.base import clone
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = moons
    model = make_pipeline(StandardScaler(), GuardedClassifier(LogisticRegression(), envelope=True))
    model = clone(model).fit(X, y)
    plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    rows = np.vstack([X, 100 * X])
    assert np.array_equal(model.predict_proba(rows), plain.predict_proba(rows))
    assert np.array_equal(model.predict(rows), plain.predict(rows))
    seen, units = model[-1], model[0].transform(rows)
    assert seen.is_inside(units[:400]).mean() > 0.97
    assert np.array_equal(seen.is_inside(units), seen.distance(units) <= 0)
    assert not seen.explain(units[400]).inside
