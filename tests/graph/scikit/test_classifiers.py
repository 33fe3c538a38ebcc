"""Every classical classifier against its own ``predict_proba``: near, far and at infinity."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.special import log_expit, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_selection import RFE
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier
from sklearn.naive_bayes import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    GaussianNB,
    MultinomialNB,
)
from sklearn.neighbors import (
    KNeighborsClassifier,
    NearestCentroid,
    RadiusNeighborsClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, MinMaxScaler, SplineTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC, NuSVC

import farfield as ff
from farfield.errors import NotFollowed, UndecidedLimit
from scikit_referee import check_limits, check_values, directions, own, referee

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture(scope="module")
def flowers():
    """Some irises, no two of them alike."""
    rows, labels = load_iris(return_X_y=True)
    rows = rows + np.random.default_rng(0).normal(0, 1e-3, rows.shape)
    return rows[::3], labels[::3]


KERNELS = {
    "rbf": 1.0 * RBF(1.0) + WhiteKernel(0.1),
    "matern": 2.0 * Matern([1.0, 2.0, 1.0, 3.0], nu=1.5) + ConstantKernel(0.3),
    "rational": RationalQuadratic(alpha=2.0) ** 2,
    "rough": Matern(nu=0.5),
    "smooth": Matern(nu=math.inf),
}
MODELS = {
    "logistic": LogisticRegression(),
    "logistic by folds": LogisticRegressionCV(cv=2, Cs=2, use_legacy_attributes=False),
    "descent": SGDClassifier(loss="modified_huber", random_state=0),
    "linear discriminant": LinearDiscriminantAnalysis(),
    "quadratic discriminant": QuadraticDiscriminantAnalysis(),
    "gaussian bayes": GaussianNB(),
    "multinomial bayes": MultinomialNB(),
    "complement bayes": ComplementNB(),
    "bernoulli bayes": BernoulliNB(binarize=2.0),
    "linear vectors": SVC(kernel="linear", probability=True, random_state=0),
    "radial vectors": SVC(probability=True, random_state=0),
    "sigmoid vectors": make_pipeline(
        StandardScaler(), SVC(kernel="sigmoid", probability=True, random_state=0)
    ),
    "some vectors": NuSVC(probability=True, random_state=0),
    **{f"process {n}": GaussianProcessClassifier(k, optimizer=None) for n, k in KERNELS.items()},
    "radius": RadiusNeighborsClassifier(1.5, outlier_label="most_frequent"),
    "prior": DummyClassifier(),
    "most frequent": DummyClassifier(strategy="most_frequent"),
    "always one": DummyClassifier(strategy="constant", constant=1),
    "sigmoid": CalibratedClassifierCV(LinearSVC(), cv=2),
    "isotonic": CalibratedClassifierCV(LinearSVC(), method="isotonic", cv=2),
    "isotonic bayes": CalibratedClassifierCV(GaussianNB(), method="isotonic", cv=2),
    "isotonic ridge": CalibratedClassifierCV(
        make_pipeline(StandardScaler(), RidgeClassifier()), method="isotonic", cv=2
    ),
    "calibrated vectors": CalibratedClassifierCV(
        SVC(kernel="linear", decision_function_shape="ovo"), cv=2
    ),
    "votes of vectors": CalibratedClassifierCV(SVC(), ensemble=False, cv=2),
    "votes of straight vectors": CalibratedClassifierCV(
        make_pipeline(StandardScaler(), SVC(kernel="linear")), method="isotonic", cv=2
    ),
    "votes of pairs": CalibratedClassifierCV(OneVsOneClassifier(LogisticRegression()), cv=2),
    "tempered": CalibratedClassifierCV(LogisticRegression(), method="temperature", cv=2),
    "tempered bayes": CalibratedClassifierCV(GaussianNB(), method="temperature", cv=2),
    "calibrated boosting": CalibratedClassifierCV(GradientBoostingClassifier(n_estimators=3), cv=2),
    "calibrated histograms": CalibratedClassifierCV(
        HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5), cv=2, method="isotonic"
    ),
    "bins": make_pipeline(
        KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf"),
        CategoricalNB(min_categories=4),
    ),
    "cut to whole numbers": make_pipeline(MinMaxScaler((0, 2.5), clip=True), CategoricalNB()),
    "elimination": RFE(LogisticRegression(), n_features_to_select=2),
    "search": GridSearchCV(LogisticRegression(), {"C": [1.0, 2.0]}, cv=2),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("classes", [2, 3])
def test_models_say_what_they_say(name, classes, flowers):
    rows, labels = flowers
    model = MODELS[name].fit(rows, labels if classes == 3 else labels == 2)
    network = referee(model, rows, tolerance=1e-5 if name == "process rational" else 1e-6)
    assert network.labels == tuple(model.classes_.tolist())


def test_the_nearest_centre_is_a_linear_choice(flowers):
    model = NearestCentroid(shrink_threshold=0.1, priors="empirical").fit(*flowers)
    referee(model, flowers[0], far=1e6, size=0)  # squares of larger numbers drown the differences


@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("count", [1, 4])
def test_neighbours_are_the_farthest_in_the_direction(weights, count, flowers):
    rows, labels = flowers
    model = KNeighborsClassifier(count, weights=weights).fit(rows, labels)
    referee(model, rows, far=3e6, tolerance=1e-5)


def test_neighbours_by_hand():
    rows = np.array([[0.0, 0.0], [1.0, 5.0], [1.0, -5.0], [3.0, 0.0]])
    model = KNeighborsClassifier(2).fit(rows, [0, 1, 2, 0])
    network = ff.capture(model)
    # The second place on the way east is between two points; the one nearer to the ray gets it.
    north, south = (ff.at_infinity(network, [0.0, y], [1.0, 0.0]) for y in (0.1, -0.1))
    assert north.probabilities.flatten().tolist() == [0.5, 0.5, 0.0]
    assert south.probabilities.flatten().tolist() == [0.5, 0.0, 0.5]
    # From the middle it is anybody's: that is said, not guessed.
    with pytest.raises(UndecidedLimit):
        ff.at_infinity(network, [0.0, 0.0], [1.0, 0.0])
    # Unless the two agree.
    agreeing = ff.capture(KNeighborsClassifier(2).fit(rows, [0, 1, 1, 0]))
    far = ff.at_infinity(agreeing, [0.0, 0.0], [1.0, 0.0])
    assert far.probabilities.flatten().tolist() == [0.5, 0.5]


def test_projections_that_differ_by_less_than_rounding_are_undecided():
    tiny = 2.0**-52
    rows = np.array([[1.0, 1.0], [1.0 + tiny, 1.0 - tiny / 2], [0.0, 0.0]])
    model = KNeighborsClassifier(1).fit(rows, [0, 1, 2])
    ways = [[1.0, 1.0], [1.0, 4.0], [-1.0, -2.0], [1.0, 0.0]]
    far = ff.at_infinity(ff.capture(model), [0.0, 0.0], ways, undecided="mark")
    assert far.undecided[0].tolist() == [True, True, False, False]
    assert far.probabilities[0, 2:].argmax(dim=-1).tolist() == [2, 1]


def test_neighbours_that_lie_level_behind_splines_are_undecided_or_right():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(24, 2)).round(2)
    splines = [SplineTransformer(4, degree=2, extrapolation="linear") for _ in range(2)]
    model = make_pipeline(*splines, KNeighborsClassifier(3)).fit(rows, np.arange(24) % 2)
    network = ff.capture(model)
    up, down = (
        ff.at_infinity(network, rows, way, undecided="mark") for way in ([1.0, 0.0], [-1.0, 0.0])
    )
    assert up.undecided.all()
    assert not down.undecided.any()
    said = own(model, rows - np.array([1e4, 0.0]))
    np.testing.assert_allclose(down.probabilities[0].numpy(), said)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_neighbours_on_a_grid_tie_and_are_ordered_exactly(count):
    rng = np.random.default_rng(count)
    rows, labels = rng.integers(-2, 3, (40, 3)) / 3, rng.integers(0, 3, 40)
    votes = ff.capture(KNeighborsClassifier(count).fit(rows, labels))
    for start, way in zip(
        rng.integers(-9, 9, (60, 3)) / 7, rng.integers(-1, 2, (60, 3)), strict=True
    ):
        if not way.any():
            continue
        # In exact numbers: the largest projections, of those the nearest, of those anybody's.
        keys = [
            (
                -sum(int(s) * Fraction(p) for s, p in zip(way, row, strict=True)),
                sum((Fraction(p) - Fraction(b)) ** 2 for p, b in zip(row, start, strict=True)),
            )
            for row in rows
        ]
        last = sorted(keys)[count - 1]
        before = [label for key, label in zip(keys, labels, strict=True) if key < last]
        tied = [label for key, label in zip(keys, labels, strict=True) if key == last]
        if len(before) + len(tied) > count and len(set(tied)) > 1:
            with pytest.raises(UndecidedLimit, match=r"1 of 1 rays.*tie for the last place"):
                ff.at_infinity(votes, start, way.astype(float))
            # Beside another ray, and marked: those that tie share the places that are left.
            ways = np.stack([way, [1.0, np.pi, np.e]])
            far = ff.at_infinity(votes, start, ways, undecided="mark")
            assert far.undecided.tolist() == [[True, False]]
            parts = np.bincount(before, minlength=3) + np.bincount(tied, minlength=3) * (
                (count - len(before)) / len(tied)
            )
            assert np.allclose(far.probabilities[0, 0], parts / count, atol=1e-12)
            continue
        chosen = [*before, *tied][:count]
        far = ff.at_infinity(votes, start, way.astype(float)).probabilities.flatten()
        assert np.allclose(far, np.bincount(chosen, minlength=3) / count, atol=1e-12)


@pytest.mark.parametrize("kind", [GaussianNB, QuadraticDiscriminantAnalysis])
def test_powers_decide_one_after_the_other(kind):
    rng = np.random.default_rng(1)
    shape = rng.normal(size=(40, 2))
    rows = np.concatenate([shape, shape + np.array([2.0, 0.0]), 3 * shape])
    model = kind().fit(rows, np.repeat([0, 1, 2], 40))
    if kind is GaussianNB:
        model.var_[1] = model.var_[0]  # to the last digit
    else:
        model.rotations_[1], model.scalings_[1] = model.rotations_[0], model.scalings_[0]
    network = ff.capture(model)
    # The widest class wins everywhere; without it the first power tells the others apart.
    far = ff.at_infinity(network, [0.0, 0.0], [[1.0, 0.0], [0.0, 1.0], [-1.0, 2.0]])
    assert far.probabilities[0, :, 2].tolist() == [1.0, 1.0, 1.0]
    two = kind().fit(rows[:80], np.repeat([0, 1], 40))
    if kind is GaussianNB:
        two.var_[1] = two.var_[0]
        two.theta_[:, 1] = 0.0
    else:
        two.rotations_[1], two.scalings_[1] = two.rotations_[0], two.scalings_[0]
    network = ff.capture(two)
    far = ff.at_infinity(network, [0.5, 0.0], [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    if kind is GaussianNB:
        # Neither square nor slope differs along the second column: the confidence stays.
        np.testing.assert_allclose(
            far.probabilities[0].numpy(),
            [[0.0, 1.0], [1.0, 0.0], own(two, [[0.5, 0.0]])[0]],
            atol=1e-9,
        )
    else:
        assert far.probabilities[0, :2].argmax(dim=-1).tolist() == [1, 0]


def test_one_against_the_rest_keeps_the_ratio_of_vanishing_sigmoids(flowers):
    rows, labels = flowers
    model = make_pipeline(
        StandardScaler(), SGDClassifier(loss="log_loss", alpha=0.1, random_state=0)
    ).fit(rows, labels)
    model[-1].coef_ = -np.abs(model[-1].coef_)
    network = ff.capture(model)
    check_values(model, network, rows)
    # Far out scikit-learn's sigmoids underflow; their logarithms do not.
    ways = directions(4)
    limit = ff.at_infinity(network, rows[0], ways).probabilities[0].numpy()
    far = log_expit(model.decision_function(rows[0] + 1e6 * ways))
    np.testing.assert_allclose(limit, softmax(far, axis=1), atol=1e-6)
    assert (far.max(axis=1) < -1e3).any()


def test_kernels_rest_where_nothing_moves_for_them(flowers):
    from sklearn.compose import make_column_transformer

    rows, labels = flowers
    model = make_pipeline(
        make_column_transformer((StandardScaler(), [0, 1])), SVC(probability=True, random_state=0)
    ).fit(rows, labels)
    network = ff.capture(model)
    far = ff.at_infinity(network, rows[:5], np.array([0.0, 0.0, 1.0, -2.0]))
    np.testing.assert_allclose(far.probabilities[0].numpy(), own(model, rows[:5]), atol=1e-6)
    assert not network.columns[2].used


@pytest.mark.parametrize(
    ("model", "word"),
    [
        (Perceptron(), "CalibratedClassifierCV"),
        (RidgeClassifier(), "CalibratedClassifierCV"),
        (LinearSVC(), "CalibratedClassifierCV"),
        (SGDClassifier(), "CalibratedClassifierCV"),
        (NearestCentroid(metric="manhattan"), "euclidean"),
        (SVC(), "probability=True"),
        (SVC(kernel="poly", probability=True), "'poly'"),
        (GaussianProcessClassifier(DotProduct(), optimizer=None), "DotProduct"),
        (GaussianProcessClassifier(Matern(nu=0.7), optimizer=None), "nu"),
        (GaussianProcessClassifier(multi_class="one_vs_one", optimizer=None), "one_vs_rest"),
        (KNeighborsClassifier(metric="manhattan"), "euclidean"),
        (KNeighborsClassifier(weights=lambda d: d + 1), "'uniform'"),
        (RadiusNeighborsClassifier(10.0), "outlier_label"),
        (DummyClassifier(strategy="stratified"), "random"),
        (CalibratedClassifierCV(QuadraticDiscriminantAnalysis(), cv=2), "decision_function"),
    ],
)
def test_refusals_say_what_would_help(model, word, flowers):
    rows, labels = flowers
    with pytest.raises(NotFollowed, match=type(model).__name__) as caught:
        ff.capture(model.fit(rows, labels))
    assert word in str(caught.value)
    assert ("ff.audit can still" in str(caught.value)) == _answers(model, rows)


def _answers(model, rows):
    try:
        return bool(len(model.predict_proba(rows)))
    except (AttributeError, ValueError):
        return False


def test_columns_that_cancel_among_support_vectors_have_no_slope(flowers):
    rows, labels = flowers
    rows = np.column_stack([rows, np.full(len(rows), 1 / 3)])
    model = SVC(kernel="linear", probability=True, random_state=0).fit(rows, labels)
    network = ff.capture(model)
    assert any("zero up to rounding" in note for note in network.notes)
    check_limits(model, network, rows[0], far=1e4, along=np.array([[0, 0, 0, 0, 1.0]]))


def test_a_fold_that_never_saw_a_class(flowers):
    rows, labels = flowers
    folds = [(np.flatnonzero(labels < 2), np.arange(len(rows)))] * 2
    model = CalibratedClassifierCV(GaussianNB(), cv=folds).fit(rows, labels)
    check_values(model, ff.capture(model), rows)


def test_calibrators_that_all_say_zero_share_alike():
    rows = np.linspace(-1, 1, 30)[:, None]
    labels = np.repeat([0, 1, 2], 10)
    model = CalibratedClassifierCV(LinearSVC(), method="isotonic", cv=2).fit(rows, labels)
    for fold in model.calibrated_classifiers_:
        for curve in fold.calibrators:
            curve.y_thresholds_ = np.zeros_like(curve.y_thresholds_)
            curve.f_.y = np.zeros_like(curve.f_.y)
    network = ff.capture(model)
    assert torch.allclose(network.probabilities(rows), torch.tensor(1 / 3, dtype=torch.float64))


def test_isotonic_curves_that_are_all_zero_share_alike():
    """Zero but for rounding is zero: scikit-learn gives each class the same there."""
    rng = np.random.default_rng(9)
    rows = rng.normal(size=(200, 3))
    forest = RandomForestClassifier(10, max_depth=4, random_state=9)
    model = CalibratedClassifierCV(forest, cv=3, method="isotonic")
    model.fit(rows, np.digitize(rows[:, 0], [-0.6, 0.6]))
    others = 2 * rng.normal(size=(1500, 3))
    found = ff.capture(model).probabilities(others)[0].numpy()
    np.testing.assert_allclose(found, model.predict_proba(others), atol=1e-9)
