"""Every transformer that can be followed, in front of a classifier, against the pipeline itself."""

import numpy as np
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA, FastICA, IncrementalPCA, TruncatedSVD
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.feature_selection import (
    SelectFromModel,
    SelectKBest,
    SelectPercentile,
    VarianceThreshold,
)
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.tree import DecisionTreeClassifier

import farfield as ff
from farfield.errors import NotFollowed, UnsupportedOperation
from farfield.graph.program import forward
from scikit_referee import check_values, own, referee

BINS = {"n_bins": 4, "strategy": "uniform"}
TRANSFORMERS = {
    "clipped": MinMaxScaler(clip=True),
    "standard without mean": StandardScaler(with_mean=False),
    "robust, largest": make_pipeline(RobustScaler(), MaxAbsScaler()),
    "components": PCA(2, whiten=True),
    "components in parts": IncrementalPCA(2, batch_size=20),
    "singular": TruncatedSVD(2),
    "independent": FastICA(2, random_state=0),
    "discriminants": LinearDiscriminantAnalysis(n_components=1),
    "random": GaussianRandomProjection(2, random_state=0),
    "sparse random": SparseRandomProjection(2, density=0.9, random_state=0),
    "varying": make_pipeline(VarianceThreshold(0.1), SelectKBest(k=2)),
    "half": SelectPercentile(percentile=50),
    "weighty": SelectFromModel(LogisticRegression()),
    "bins": KBinsDiscretizer(**BINS),
    "numbered bins": KBinsDiscretizer(**BINS, encode="ordinal"),
    "single bins": KBinsDiscretizer(**BINS, encode="ordinal", dtype=np.float32),
    "binary": Binarizer(threshold=2.0),
    "quantiles": QuantileTransformer(n_quantiles=20),
    "normal": QuantileTransformer(n_quantiles=20, output_distribution="normal"),
    "splines": SplineTransformer(),
    "few splines": SplineTransformer(degree=2, n_knots=3, include_bias=False),
    "straight splines": SplineTransformer(extrapolation="linear", include_bias=False),
    "copy": FunctionTransformer(),
    "absolute": FunctionTransformer(np.abs),
    "turned": FunctionTransformer(np.negative),
    "bent": FunctionTransformer(np.tanh),
    "degree one": PolynomialFeatures(1),
    "beside": FeatureUnion(
        [("a", StandardScaler()), ("b", PCA(2)), ("c", "passthrough"), ("d", "drop")],
        transformer_weights={"b": 0.5, "c": 2.0},
    ),
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    rows = np.stack(
        [rng.normal(size=60), rng.exponential(size=60), rng.integers(0, 4, 60), rng.normal(size=60)]
    ).T
    return rows, (rows[:, 0] + rows[:, 1] > 1).astype(int) + (rows[:, 2] > 1)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_pipelines_say_what_they_say(name, table):
    model = make_pipeline(TRANSFORMERS[name], LogisticRegression()).fit(*table)
    referee(model, table[0], size=1e30 if "straight" not in name else 1e15)


def test_a_threshold_at_the_very_end_of_quantiles_is_met_exactly(table):
    rows, labels = table
    model = make_pipeline(QuantileTransformer(n_quantiles=9), Binarizer(), LogisticRegression())
    referee(model.fit(rows, labels), rows, far=1e6)


@pytest.mark.parametrize("encode", ["ordinal", "onehot-dense"])
def test_bins_at_their_very_edges(encode, table):
    rows, labels = table
    bins = KBinsDiscretizer(**BINS, encode=encode)
    model = make_pipeline(bins, LogisticRegression()).fit(rows, labels)
    edges = np.repeat(rows[:1], 5, axis=0)
    for column in (0, 1):
        edges[:, column] = bins.bin_edges_[column][:5]
    for side in (-np.inf, np.inf):
        check_values(model, ff.capture(model), np.nextafter(edges, side))
    check_values(model, ff.capture(model), edges)


@pytest.mark.parametrize(
    "poly",
    [
        PolynomialFeatures(2),
        PolynomialFeatures((2, 3), include_bias=False),
        PolynomialFeatures(3, interaction_only=True),
    ],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_polynomials_in_front_of_linear_models(poly, classes, table):
    rows, labels = table
    labels = labels if classes == 3 else labels > 0
    model = make_pipeline(StandardScaler(), poly, StandardScaler(), LogisticRegression())
    referee(model.fit(rows, labels), rows, far=1e7)


GROWING = {
    "unit rows": (Normalizer(), LogisticRegression()),
    "shares": (StandardScaler(), Normalizer("l1"), MLPClassifier((6,), random_state=0)),
    "by the largest": (Normalizer("max"), DecisionTreeClassifier(random_state=0)),
    "unit rows of products": (PolynomialFeatures(2), Normalizer(), LogisticRegression()),
    "products bent": (PolynomialFeatures(2), FunctionTransformer(np.abs), LogisticRegression()),
    "products in a net": (PolynomialFeatures(2), StandardScaler(), MLPClassifier((6,))),
    "products in a tree": (
        PolynomialFeatures((2, 3), include_bias=False),
        DecisionTreeClassifier(random_state=0),
    ),
    "products of some": (
        make_column_transformer((PolynomialFeatures(3), [0, 2]), remainder="passthrough"),
        StandardScaler(),
        LogisticRegression(),
    ),
    "squares": (FunctionTransformer(np.square), StandardScaler(), LogisticRegression()),
    "squares of products": (PolynomialFeatures(2), StandardScaler(), GaussianNB()),
    # A part that vanishes, times one that grows, is a constant.
    "vanishing": (
        FeatureUnion([("unit", Normalizer()), ("plain", StandardScaler())]),
        QuadraticDiscriminantAnalysis(reg_param=0.5),
    ),
}


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("name", GROWING)
def test_values_that_grow_otherwise_than_their_columns(name, table):
    model = make_pipeline(*GROWING[name]).fit(*table)
    # Norms come to rest like 1 / t.
    network = referee(model, table[0], far=1e7, tolerance=2e-6, size=1e6)
    nothing = np.vstack([np.zeros(4), np.full(4, 1e-17), np.full(4, 1e-12)])
    check_values(model, network, nothing)


def test_what_has_no_known_limit_is_audited_by_evaluation(table):
    """Where neighbours change, the side from which a row comes to rest decides."""
    model = make_pipeline(Normalizer(), KNeighborsClassifier(5)).fit(*table)
    with pytest.raises(UnsupportedOperation, match="Pipeline >"):
        ff.at_infinity(ff.capture(model), table[0][0], np.eye(4))
    found = ff.audit(model, *table, directions=5, samples=20, guard=False)
    assert found.verdict.seen_to is not None


def test_polynomials_that_cancel_are_told_apart_exactly():
    rows = np.random.default_rng(0).normal(size=(30, 2))
    model = make_pipeline(PolynomialFeatures(2, include_bias=False), LogisticRegression())
    model.fit(rows, rows[:, 0] > 0)
    # x0^2 - x1^2 vanishes on the diagonals; there the linear part decides, then the constant.
    model[-1].coef_ = np.array([[0.0, 0.1, 1.0, 0.0, -1.0]])
    model[-1].intercept_ = np.array([0.3])
    network = ff.capture(model)
    ways = np.array([[1.0, 1.0], [-1.0, -1.0], [3.0, 1.0], [1.0, 3.0]]) / 3
    sure = ff.at_infinity(network, [0.0, 0.0], ways).probabilities[0, :, 1]
    assert sure.tolist() == [1.0, 0.0, 1.0, 0.0]
    model[-1].coef_[0, 1] = 0.0
    stays = ff.at_infinity(ff.capture(model), [0.0, 0.0], ways[:2]).probabilities[0, :, 1]
    np.testing.assert_allclose(stays, 1 / (1 + np.exp(-0.3)), atol=1e-12)


def outputs(network, rows):
    """Probabilities of rows with gaps."""
    group = network.groups[0]
    value = forward(group.program, torch.from_numpy(rows), group.shared)
    if network.one_logit:
        value = torch.cat([torch.zeros_like(value), value], dim=-1)
    return (torch.softmax(value, dim=-1) if network.link == "softmax" else value).numpy()


@pytest.mark.parametrize(
    "imputer",
    [
        SimpleImputer(),
        SimpleImputer(strategy="median", add_indicator=True),
        SimpleImputer(strategy="most_frequent"),
        SimpleImputer(strategy="constant", fill_value=-3.0, add_indicator=True),
        make_pipeline(StandardScaler(), SimpleImputer()),
        make_pipeline(QuantileTransformer(n_quantiles=9), SimpleImputer()),
        FeatureUnion([("a", SimpleImputer()), ("b", MissingIndicator(features="all"))]),
    ],
)
def test_gaps_are_filled(imputer, table):
    rows, labels = table[0].copy(), table[1]
    rows[::5, 0] = np.nan
    rows[::7, 3] = np.nan
    model = make_pipeline(imputer, LogisticRegression()).fit(rows, labels)
    network = ff.capture(model)
    assert all(column.missing for column in network.columns)
    np.testing.assert_allclose(outputs(network, rows), model.predict_proba(rows), atol=1e-9)


def test_gaps_get_through_as_far_as_the_model_lets_them(table):
    rows, labels = table
    plain = ff.capture(make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, labels))
    assert not any(column.missing for column in plain.columns)
    union = FeatureUnion([("a", SimpleImputer()), ("b", PCA(2))])
    both = ff.capture(make_pipeline(union, LogisticRegression()).fit(rows, labels))
    assert not any(column.missing for column in both.columns)


def test_empty_columns_are_dropped_or_kept(table):
    rows, labels = table[0].copy(), table[1]
    rows[:, 1] = np.nan
    for keep in (False, True):
        imputer = SimpleImputer(keep_empty_features=keep)
        model = make_pipeline(imputer, LogisticRegression())
        if not keep:
            with pytest.warns(UserWarning, match="Skipping"):
                model.fit(rows, labels)
        else:
            model.fit(rows, labels)
        np.testing.assert_allclose(outputs(ff.capture(model), rows), own(model, rows), atol=1e-9)


def test_other_marks_of_what_is_missing(table):
    rows, labels = table
    imputer = SimpleImputer(missing_values=2, strategy="mean", add_indicator=True)
    model = make_pipeline(imputer, LogisticRegression()).fit(rows, labels)
    referee(model, rows)


def test_imputers_by_other_columns_take_complete_rows(table):
    rows, labels = table[0].copy(), table[1]
    rows[::5, 0] = np.nan
    model = make_pipeline(KNNImputer(add_indicator=True), GaussianNB()).fit(rows, labels)
    complete = rows[~np.isnan(rows).any(axis=1)]
    network = referee(model, complete)
    assert not any(column.missing for column in network.columns)
    assert any("KNNImputer" in note for note in network.notes)


def test_all_refusals_come_at_once(table):
    model = make_pipeline(
        FeatureUnion([("waves", RBFSampler()), ("sine", FunctionTransformer(np.sin))]),
        MinMaxScaler(),
        FunctionTransformer(np.expm1),
        LogisticRegression(),
    ).fit(*table)
    with pytest.raises(NotFollowed) as caught:
        ff.capture(model)
    said = str(caught.value)
    for word in (
        "3 parts of Pipeline",
        "featureunion (FeatureUnion) > waves (RBFSampler)",
        "sine (FunctionTransformer)",
        "expm1",
        "QuantileTransformer",
    ):
        assert word in said


@pytest.mark.parametrize(
    ("part", "word"),
    [
        (SplineTransformer(extrapolation="continue"), "'constant'"),
        (SplineTransformer(extrapolation="periodic"), "'constant'"),
        (SplineTransformer(degree=1, extrapolation="linear"), "degree"),
        (FunctionTransformer(np.exp), "outgrows"),
        (FunctionTransformer(lambda x: x), "<lambda>"),
    ],
)
def test_refusals_name_the_step(part, word, table):
    rows, labels = np.abs(table[0]), table[1]
    model = make_pipeline(part, LogisticRegression()).fit(rows, labels)
    with pytest.raises(NotFollowed) as caught:
        ff.capture(model)
    assert word in str(caught.value)


def test_classes_of_the_same_name_are_not_taken_for_scikit_learns(table):
    class StandardScaler(MinMaxScaler):
        """Scales otherwise."""

    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(*table)
    with pytest.raises(NotFollowed, match="a class of its own"):
        ff.capture(model)
