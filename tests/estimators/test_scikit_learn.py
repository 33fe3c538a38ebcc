"""scikit-learn's own checks, for every estimator."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from farfield.estimators import (
    AnchoredEnsembleClassifier,
    BayesByBackpropClassifier,
    EnsembleClassifier,
    EnsembleRegressor,
    MCDropoutClassifier,
    RBFClassifier,
    ReLUClassifier,
    TemperatureScaling,
)
from farfield.objectives import ACET

pytestmark = pytest.mark.whole

SMALL: dict[str, Any] = {
    "hidden": (8,),
    "epochs": 5,
    "learning_rate": 0.1,
    "batch_size": 128,
    "random_state": 0,
}

ESTIMATORS = [
    ReLUClassifier(**SMALL),
    # An ensemble is a network with members, and ACET is CEDA with an attack: both at once.
    EnsembleClassifier(members=2, objective=ACET(steps=1), **SMALL),
    AnchoredEnsembleClassifier(members=2, **SMALL),
    MCDropoutClassifier(samples=3, dropout=0.1, **SMALL),
    BayesByBackpropClassifier(samples=3, elbo_samples=1, **SMALL),
    RBFClassifier(centres=10, **SMALL),
    TemperatureScaling(ReLUClassifier(**SMALL), random_state=0),
    EnsembleRegressor(members=2, **SMALL),
]

# Rows are drawn into batches at random, so a row of weight two and the same row twice give
# different batches; both minimise the same expected loss.
REPETITION = "check_sample_weight_equivalence_on_dense_data"

CHECKS = parametrize_with_checks(ESTIMATORS)


def named(value: Any) -> Any:
    """Estimators by their class: scikit-learn prints every setting, once for every check."""
    return type(value).__name__ if value in ESTIMATORS else CHECKS.kwargs["ids"](value)


@pytest.mark.parametrize(*CHECKS.args, ids=named)
@pytest.mark.filterwarnings("ignore:calibration would move:UserWarning")
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    if check.func.__name__ == REPETITION:
        with pytest.raises(AssertionError):
            check(estimator)
    else:
        check(estimator)
