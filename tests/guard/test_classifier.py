from typing import Any

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from farfield.errors import InputError
from farfield.estimators import ReLUClassifier
from farfield.guard import GuardedClassifier, load

SMALL = ReLUClassifier(hidden=(8,), epochs=30, learning_rate=0.03, batch_size=32, random_state=0)
# Read without tracing, so that a hundred fits take seconds.
QUICK = MLPClassifier((8,), solver="lbfgs", max_iter=200, random_state=0)


WEIGHTS = "weights train the classifier; the covered set counts every row that was given once"


def expected_failures(_: Any) -> dict[str, str]:
    return {"check_sample_weight_equivalence_on_dense_data": WEIGHTS}


@parametrize_with_checks(
    [GuardedClassifier(QUICK, prototypes=16)], expected_failed_checks=expected_failures
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


def test_labels_are_those_of_the_estimator(moons):
    X, y = moons[0], np.array(["no", "yes"])[moons[1]]
    model = GuardedClassifier(SMALL).fit(X, y)
    far = np.vstack([X, X * 1e5])
    assert (model.predict(far) == model.estimator_.predict(far)).all()
    assert model.predict_proba(X * 1e5).max() <= 0.51
    assert model.certificate_.verify(model.module_)


def test_prefit_and_saving(moons, classifier, tmp_path):
    model = GuardedClassifier(classifier, prefit=True).fit(moons[0])
    assert model.estimator_ is classifier
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(moons[0]), model.predict_proba(moons[0]))


def test_labels_are_required_unless_prefit(moons):
    with pytest.raises(InputError, match="y"):
        GuardedClassifier(SMALL).fit(moons[0])
