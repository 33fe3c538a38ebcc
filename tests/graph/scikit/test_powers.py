"""Powers, roots and logarithms of columns, in front of whatever has a limit of such values."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import RadiusNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC

import farfield as ff
from farfield.errors import NotFollowed, UndecidedLimit, UnsupportedOperation

RNG = np.random.default_rng(4)
ROWS = RNG.lognormal(0.0, 0.6, (90, 4))
LABELS = (ROWS @ [1.0, -1.0, 2.0, -1.5] + RNG.normal(0.0, 1.0, 90) > 0.3).astype(int)
FUNCTIONS = [np.log, np.log1p, np.log2, np.log10, np.sqrt, np.cbrt, np.abs, np.square]


def own(model, rows):
    """What the model says."""
    return model.predict_proba(rows)


@pytest.mark.parametrize("method", ["yeo-johnson", "box-cox"])
@pytest.mark.parametrize("standardize", [True, False])
def test_power_transformers_are_read(method, standardize):
    power = PowerTransformer(method=method, standardize=standardize)
    model = make_pipeline(power, LogisticRegression()).fit(ROWS, LABELS)
    rows = np.concatenate([ROWS, 1e-12 * ROWS, 1e3 * ROWS])
    rows = rows if method == "box-cox" else np.concatenate([rows, -rows])
    network = ff.capture(model)
    np.testing.assert_allclose(network.probabilities(rows)[0], own(model, rows), atol=1e-12)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_functions_are_read(function):
    model = make_pipeline(FunctionTransformer(function), LogisticRegression()).fit(ROWS, LABELS)
    network = ff.capture(model)
    np.testing.assert_allclose(network.probabilities(ROWS)[0], own(model, ROWS), atol=1e-12)
    far = ff.at_infinity(network, ROWS[0], np.eye(4))
    np.testing.assert_allclose(far.confidence, 1.0)
    up = model[-1].coef_[0] > 0
    np.testing.assert_array_equal(far.label, up.astype(int))


def test_rows_at_the_edges_of_bins_stay_there():
    """Quantiles of the data are edges: not a bit may be lost on the way to them."""
    bins = KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf")
    for front in (PowerTransformer(), PowerTransformer("box-cox"), FunctionTransformer(np.log)):
        model = make_pipeline(front, bins, LogisticRegression()).fit(ROWS, LABELS)
        network = ff.capture(model)
        np.testing.assert_allclose(network.probabilities(ROWS)[0], own(model, ROWS), atol=1e-12)


def powered(last, exponents=(0.5, -1.0, 1.5, 2.0)):
    """A model behind given exponents."""
    power = PowerTransformer(standardize=False).fit(ROWS)
    power.lambdas_ = np.array(exponents)
    return Pipeline([("power", power), ("model", last.fit(power.transform(ROWS), LABELS))])


def test_a_negative_exponent_comes_to_rest():
    model = powered(LogisticRegression())
    far = ff.at_infinity(ff.capture(model), ROWS[0], [[0.0, 1.0, 0.0, 0.0]])
    row = model[0].transform(ROWS[:1])[0]
    row[1] = 1.0  # (1 - 1 / (1 + x)) / 1
    expected = expit(row @ model[1].coef_[0] + model[1].intercept_[0])
    assert float(far.probabilities[0, 0, 1]) == pytest.approx(expected, rel=1e-12)
    assert float(far.order) == 0


def test_growth_is_told_by_its_powers():
    model = powered(LogisticRegression())
    far = ff.at_infinity(ff.capture(model), ROWS[0], [[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, -1.0]])
    weight = model[1].coef_[0]
    assert far.powers == (2.0, 1.5, 0.5, 0.0)
    assert far.order.tolist() == [[2.0, 0.0]]
    # The second term of (1 + x + t)^1.5 / 1.5 has the power of the root.
    root = weight[0] / 0.5 + weight[2] * (1 + ROWS[0, 2])
    expected = [weight[3] / 2, weight[2] / 1.5, root]
    np.testing.assert_allclose(far.growth[:3, 0, 0, 1], expected)
    assert float(far.growth[3, 0, 1, 1]) == pytest.approx(-weight[3])
    assert not far.constant.any()


BEHIND = [
    LinearDiscriminantAnalysis(),
    QuadraticDiscriminantAnalysis(reg_param=0.1),
    GaussianNB(),
    SVC(kernel="linear", C=10.0),
    SVC(),
    RandomForestClassifier(5, random_state=0),
    HistGradientBoostingClassifier(max_iter=5),
    MLPClassifier((6,), max_iter=1000, tol=1e-2, random_state=0),
    GaussianProcessClassifier(),
    RadiusNeighborsClassifier(1.0, outlier_label="most_frequent"),
    make_pipeline(PolynomialFeatures(2), StandardScaler(), LogisticRegression()),
    CalibratedClassifierCV(LinearSVC(), cv=2),
    CalibratedClassifierCV(LinearSVC(), cv=2, method="isotonic"),
]


@pytest.mark.parametrize("last", BEHIND, ids=lambda each: type(each).__name__)
def test_limits_are_what_the_model_says_far_out(last):
    """All exponents are a half apart and no logarithm comes up, so that it does so soon."""
    if isinstance(last, SVC):
        last = CalibratedClassifierCV(last, cv=2, ensemble=False)
    model = powered(last, (0.5, 1.0, 1.5, 1.0))
    network = ff.capture(model)
    np.testing.assert_allclose(network.probabilities(ROWS)[0], own(model, ROWS), atol=1e-9)
    directions = np.concatenate([np.eye(4), -np.eye(4), RNG.normal(size=(20, 4))])
    far = ff.at_infinity(network, ROWS[0], directions)
    said = own(model, ROWS[0] + 1e14 * directions)
    np.testing.assert_allclose(far.probabilities[0], said, atol=1e-5)


def test_columns_of_logarithms_are_bounded():
    frame = pd.DataFrame(ROWS, columns=list("abcd")).assign(kind=["x", "y", "y"] * 30)
    frame.loc[::9, "a"] = np.nan
    front = ColumnTransformer(
        [
            ("box", make_pipeline(SimpleImputer(), PowerTransformer("box-cox")), ["a"]),
            ("log", FunctionTransformer(np.log1p), ["b"]),
            ("root", make_pipeline(StandardScaler(), FunctionTransformer(np.cbrt)), ["c"]),
            ("code", OneHotEncoder(), ["kind"]),
        ],
        remainder="passthrough",
    )
    model = make_pipeline(front, LogisticRegression()).fit(frame, LABELS)
    network = ff.capture(model)
    lows = {column.name: column.low for column in network.columns}
    assert 0 < lows["a"] < 1e-200
    assert -1 < lows["b"] < -0.99
    assert lows["c"] == lows["d"] == lows["kind"] == -np.inf
    down = -np.eye(5)[[0, 1]]
    with pytest.raises(UndecidedLimit, match="logarithm"):
        ff.at_infinity(network, frame[1:2], down)
    far = ff.at_infinity(network, frame[1:2], [*down, np.eye(5)[0]], undecided="mark")
    assert far.undecided.tolist() == [[True, True, False]]
    audit = ff.audit(model, frame, LABELS)
    assert isinstance(audit.blindness["axes"], float)  # counted, not sampled
    assert audit.families[0].rays == 6


def test_what_has_no_answer_is_not_made_up():
    network = ff.capture(powered(LogisticRegression()))
    far = ff.at_infinity(network, ROWS[0], np.eye(4)[[0, 1]], certify=True)
    assert not far.certified.any()
    assert torch.isinf(far.settles(0.1)).all()
    assert torch.isnan(far.distance(0.999)[0, 0])
    with pytest.raises(UnsupportedOperation):
        ff.along(network, ROWS[0], np.eye(4)[:1])


def test_exponents_that_are_no_numbers_are_refused():
    model = powered(LogisticRegression())
    model[0].lambdas_ = np.array([np.nan, 1.0, 1.0, 1.0])
    with pytest.raises(NotFollowed, match="no number"):
        ff.capture(model)


def test_a_power_that_underflows_is_not_taken_for_zero():
    network = ff.capture(powered(LogisticRegression()))
    with pytest.raises(ff.errors.NumericalOverflow):
        ff.at_infinity(network, ROWS[0], [[0.0, 0.0, 1e-300, 0.0]])
