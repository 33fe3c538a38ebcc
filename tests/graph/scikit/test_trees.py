"""Trees and what is made of them: scikit-learn's own numbers near, at thresholds and far away."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import farfield as ff
from farfield.errors import CaptureError, NotFollowed

FEATURES = 4


def mlp():
    return MLPClassifier((4,), max_iter=300, tol=1e-2, random_state=0)


def small():
    return DecisionTreeClassifier(max_depth=2, random_state=0)


def members():
    return [("forest", RandomForestClassifier(3, random_state=0)), ("tree", small())]


MODELS = {
    "tree": lambda: DecisionTreeClassifier(random_state=0),
    "extra-tree": lambda: ExtraTreeClassifier(random_state=0),
    "forest": lambda: RandomForestClassifier(5, random_state=0),
    "extra-trees": lambda: ExtraTreesClassifier(5, random_state=0),
    "boosted": lambda: GradientBoostingClassifier(n_estimators=4, random_state=0),
    "boosted-zero": lambda: GradientBoostingClassifier(n_estimators=3, init="zero"),
    "boosted-forest": lambda: GradientBoostingClassifier(
        n_estimators=3, init=RandomForestClassifier(3, random_state=0)
    ),
    "boosted-frequent": lambda: GradientBoostingClassifier(
        n_estimators=3, init=DummyClassifier(strategy="most_frequent")
    ),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=3),
    "ada": lambda: AdaBoostClassifier(n_estimators=4, random_state=0),
    "ada-deep": lambda: AdaBoostClassifier(small(), n_estimators=3, random_state=0),
    "ada-forest": lambda: AdaBoostClassifier(
        RandomForestClassifier(2, max_depth=2, random_state=0), n_estimators=3, random_state=0
    ),
    "bagging": lambda: BaggingClassifier(small(), 4, max_features=2, random_state=0),
    "bagging-mlp": lambda: BaggingClassifier(mlp(), 2, max_features=3, random_state=0),
    "voting": lambda: VotingClassifier(members(), voting="soft", weights=[1, 2.5]),
    "voting-mlp": lambda: VotingClassifier([*members(), ("mlp", mlp())], voting="soft"),
    "stacking": lambda: StackingClassifier(members(), mlp(), cv=2),
    "stacking-through": lambda: StackingClassifier(
        members(), RandomForestClassifier(3, random_state=0), cv=2, passthrough=True
    ),
    "bagging-votes": lambda: BaggingClassifier(LinearSVC(), 3, max_features=3, random_state=0),
    "ada-lines": lambda: AdaBoostClassifier(LogisticRegression(), n_estimators=3, random_state=0),
    "stacking-decisions": lambda: StackingClassifier(
        [
            ("ada", AdaBoostClassifier(n_estimators=3, random_state=0)),
            ("boosted", GradientBoostingClassifier(n_estimators=3)),
            ("line", LogisticRegression()),
        ],
        LogisticRegression(),
        cv=2,
        stack_method="decision_function",
    ),
    "stacking-votes": lambda: StackingClassifier(members(), small(), cv=2, stack_method="predict"),
    "rest": lambda: OneVsRestClassifier(RandomForestClassifier(3, random_state=0)),
    "rest-boosted": lambda: OneVsRestClassifier(GradientBoostingClassifier(n_estimators=3)),
}
WITH_GAPS = ("tree", "extra-tree", "forest", "extra-trees", "histogram")


def data(classes, gaps=False):
    x, y = make_classification(
        90, FEATURES, n_informative=4, n_redundant=0, n_classes=classes, random_state=1
    )
    if gaps:
        x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    return x, y


def ours(network, x):
    """Probabilities of rows that may hold NaN."""
    outputs = network.groups[0].forward(torch.as_tensor(x, dtype=torch.float64))
    outputs = network.as_classes(outputs)[0]
    return (outputs if network.link == "identity" else outputs.softmax(dim=1)).numpy()


def all_thresholds(model):
    """Columns and thresholds of every tree inside of a model."""
    if hasattr(model, "tree_"):
        inner = model.tree_.feature >= 0
        yield from zip(model.tree_.feature[inner], model.tree_.threshold[inner], strict=True)
    for stage in getattr(model, "_predictors", ()):
        for each in stage:
            inner = each.nodes[~each.nodes["is_leaf"].astype(bool)]
            yield from zip(inner["feature_idx"], inner["num_threshold"], strict=True)
    for each in np.ravel(np.asarray(getattr(model, "estimators_", ()), dtype=object)):
        yield from all_thresholds(each)


def beside_thresholds(model, x, most=120):
    """Rows exactly at thresholds, and one unit in the last place of either type beside them."""
    rows = []
    found = [each for each in all_thresholds(model) if abs(each[1]) < 1e30]
    for column, threshold in found[:: max(1, len(found) // most)]:
        wide, narrow = np.float64(threshold), np.float32(threshold)
        for value in (
            *(wide, narrow, np.nextafter(wide, 9e9), np.nextafter(wide, -9e9)),
            *(np.nextafter(narrow, np.float32(9e9)), np.nextafter(narrow, np.float32(-9e9))),
        ):
            row = np.nan_to_num(x[len(rows) % len(x)])
            row[column % x.shape[1]] = value
            rows.append(row)
    return np.array(rows).reshape(-1, x.shape[1])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_every_model_says_what_scikit_learn_says(name, classes):
    x, y = data(classes, name in WITH_GAPS)
    model = MODELS[name]().fit(x, y)
    network = ff.capture(model)
    far = 1e30 * np.sign(np.nan_to_num(x[:20]))
    rows = np.concatenate([x, far, beside_thresholds(model, x)])
    np.testing.assert_allclose(ours(network, rows), model.predict_proba(rows), atol=1e-12)
    assert network.labels == tuple(range(classes))

    directions = np.concatenate(
        [np.eye(FEATURES), -np.eye(FEATURES), np.random.default_rng(0).normal(size=(8, FEATURES))]
    )
    start = np.nan_to_num(x[0])
    limits = ff.at_infinity(network, torch.tensor(start), torch.tensor(directions))
    reach = float(limits.reach.max())
    rests = np.isfinite(reach) and not bool(limits.slope.any())
    beyond = 10 ** np.ceil(np.log10(max(reach, 1.0))) if rests else 1e12
    for t in (beyond, 1e6 * beyond):
        expected = model.predict_proba(start + t * directions)
        np.testing.assert_allclose(limits.probabilities[0], expected, atol=1e-6)


def test_the_exponential_loss_halves_its_logit():
    x, y = data(2)
    model = GradientBoostingClassifier(n_estimators=3, loss="exponential").fit(x, y)
    np.testing.assert_allclose(ours(ff.capture(model), x), model.predict_proba(x), atol=1e-12)


def test_members_that_miss_a_class_keep_their_places():
    x, y = data(3)
    model = BaggingClassifier(small(), 3, max_features=2, random_state=0).fit(x, y)
    some = y != 1
    model.estimators_[0].fit(x[some][:, model.estimators_features_[0]], y[some])
    np.testing.assert_allclose(ours(ff.capture(model), x), model.predict_proba(x), atol=1e-12)


def test_far_away_one_against_the_rest_has_the_limit_that_floats_lose():
    x, y = data(3)
    network = ff.capture(OneVsRestClassifier(mlp()).fit(x, y))
    directions = np.random.default_rng(0).normal(size=(50, FEATURES))
    limits = ff.at_infinity(network, torch.zeros(FEATURES), torch.tensor(directions))
    np.testing.assert_allclose(limits.probabilities[0].sum(dim=-1), 1.0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["tree", "forest", "boosted", "histogram"]))
def test_random_trees_on_crowded_numbers(seed, name):
    rng = np.random.default_rng(seed)
    # Few values, some of them neighbours in single precision: thresholds that fall on data.
    values = np.float32(rng.normal(size=3)) * np.float32(10.0) ** rng.integers(-3, 6)
    values = np.concatenate([values, np.nextafter(values, np.float32(np.inf)), -values, [0.0]])
    x = rng.choice(values, size=(40, 3)).astype(np.float64)
    y = rng.integers(0, 2, len(x))
    y[:2] = 0, 1
    model = MODELS[name]().fit(x, y)
    rows = np.concatenate([x, beside_thresholds(model, x, 20)])
    np.testing.assert_allclose(ours(ff.capture(model), rows), model.predict_proba(rows), atol=1e-12)


def many_outputs(x, y):
    return RandomForestClassifier(2).fit(x, np.stack([y, y], axis=1))


def without_trees(x, y):
    model = RandomForestClassifier(1).fit(x, y)
    model.estimators_ = []
    return model


def fewer_members(x, y):
    model = BaggingClassifier(small(), 3, random_state=0).fit(x, y)
    return model.set_params(n_estimators=2)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda x, y: RandomForestClassifier(), "not fitted"),
        (lambda x, y: HistGradientBoostingClassifier(), "not fitted"),
        (many_outputs, "several outputs"),
        (without_trees, "no trees"),
        (fewer_members, "n_estimators=2"),
        (lambda x, y: DecisionTreeClassifier().fit(x, 0 * y), "class"),
        (lambda x, y: VotingClassifier(members()).fit(x, y), "voting='soft'"),
        (lambda x, y: OneVsOneClassifier(small()).fit(x, y), "no probabilities"),
        (lambda x, y: OneVsRestClassifier(small()).fit(x, np.stack([y, 1 - y], 1)), "multi-label"),
        (
            lambda x, y: MultiOutputClassifier(small()).fit(x, np.stack([y, y], 1)),
            "several out",
        ),
    ],
)
def test_what_has_no_distribution_is_refused_in_one_line(make, said):
    with pytest.raises(CaptureError, match=said) as caught:
        ff.capture(make(*data(2)))
    assert "\n" not in str(caught.value)


def test_a_start_that_is_drawn_at_random_is_not_followed():
    x, y = data(2)
    first = DummyClassifier(strategy="stratified", random_state=0)
    with pytest.raises(NotFollowed, match="random"):
        ff.capture(GradientBoostingClassifier(n_estimators=2, init=first).fit(x, y))
