"""CatBoost, read and compared with CatBoost."""

import json

import catboost
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import farfield as ff
from farfield.errors import CaptureError, NotFollowed
from tree_rows import far_differences, probabilities, telling_rows

CLOSE = 1e-9
FEW = {
    "iterations": 6,
    "depth": 3,
    "verbose": 0,
    "allow_writing_files": False,
    "thread_count": 1,
    "random_seed": 0,
}


def table(seed=0, rows=240, columns=4, classes=3, missing=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns)) * [1, 100, 1e-3, 1][:columns]
    X[:, -1] = rng.integers(-2, 3, rows)
    score = np.sin(3 * X[:, 0]) + X[:, 1] / 80 + 0.3 * rng.normal(size=rows)
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    if missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    return X, y


def fitted(classes=3, X=None, y=None, missing=True, **options):
    if X is None:
        X, y = table(classes=classes, missing=missing)
    return catboost.CatBoostClassifier(**{**FEW, **options}).fit(X, y), X


def agree(model, X, network=None, **options):
    network = network or ff.capture(model)
    rows = telling_rows(network, X, **options)
    found = probabilities(network, rows)
    assert np.abs(found - model.predict_proba(rows)).max() < CLOSE
    return network


OPTIONS = {
    "plain": {},
    "none missing": {"missing": False},
    "large missing": {"nan_mode": "Max"},
    "depthwise": {"grow_policy": "Depthwise"},
    "by loss": {"grow_policy": "Lossguide", "max_leaves": 7},
    "deep": {"depth": 6, "iterations": 2},
    "constant": {"iterations": 1, "l2_leaf_reg": 1e9},
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", OPTIONS)
def test_probabilities_are_the_models_own(name, classes):
    model, X = fitted(classes, **OPTIONS[name])
    network = agree(model, X)
    assert network.labels == tuple(range(classes))
    assert network.features is None


@pytest.mark.parametrize(
    "loss", ["CrossEntropy", "MultiClass", "Focal:focal_alpha=0.4;focal_gamma=1"]
)
def test_losses_of_two_classes(loss):
    agree(*fitted(2, loss_function=loss))


def test_scale_and_bias():
    model, X = fitted(2, boost_from_average=True)
    agree(model, X)
    model.set_scale_and_bias(1.7, -0.3)
    agree(model, X)


def test_names_of_columns_and_classes(tmp_path):
    X, y = table(classes=3)
    frame = pd.DataFrame(X, columns=["age", "town's", "ö", "size"])
    model = catboost.CatBoostClassifier(**FEW).fit(frame, np.array(["no", "maybe", "yes"])[y])
    model.save_model(str(tmp_path / "model.json"), format="json")
    for network in (ff.capture(model), ff.capture(tmp_path / "model.json")):
        assert network.labels == ("maybe", "no", "yes")
        assert network.features == ("age", "town's", "ö", "size")
    agree(model, X, ff.capture(tmp_path / "model.json"))


def test_the_best_model_is_what_was_kept():
    X, y = table(classes=2)
    model = catboost.CatBoostClassifier(**{**FEW, "iterations": 20})
    model.fit(X, y, eval_set=(X, np.random.default_rng(1).permutation(y)), use_best_model=True)
    assert model.tree_count_ < 20
    agree(model, X)


def test_columns_that_are_ignored():
    agree(*fitted(3, ignored_features=[1]))


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_any_small_model(data):
    classes = data.draw(st.integers(2, 4))
    columns = data.draw(st.integers(2, 4))
    X, y = table(data.draw(st.integers(0, 10**6)), 60, columns, classes, data.draw(st.booleans()))
    model, X = fitted(
        X=X,
        y=y,
        iterations=data.draw(st.integers(1, 4)),
        depth=data.draw(st.integers(1, 5)),
        grow_policy=data.draw(st.sampled_from(["SymmetricTree", "Depthwise"])),
        nan_mode=data.draw(st.sampled_from(["Min", "Max"])),
        border_count=data.draw(st.sampled_from([1, 5, 254])),
    )
    agree(model, X, most=200)


def test_at_infinity():
    rng = np.random.default_rng(5)
    for classes in (2, 3):
        model, _ = fitted(classes)
        rays = np.concatenate([np.eye(4), -np.eye(4), rng.normal(size=(40, 4))])
        assert max(far_differences(ff.capture(model), model.predict_proba, rays)) < CLOSE


class TestRefusals:
    def test_categories_are_refused_by_name(self, tmp_path):
        X, y = table(classes=2, missing=False)
        frame = pd.DataFrame(
            {"age": X[:, 0], "town": np.array(["a", "b", "c"])[y % 3], "z": X[:, 1]}
        )
        model = catboost.CatBoostClassifier(**FEW, cat_features=["town"]).fit(frame, y)
        with pytest.raises(NotFollowed, match=r"categorical features \(town\)"):
            ff.capture(model)
        model.save_model(str(tmp_path / "model.json"), format="json")
        with pytest.raises(NotFollowed, match=r"categorical features \(town\)"):
            ff.capture(tmp_path / "model.json")

    def test_losses(self):
        with pytest.raises(CaptureError, match="do not add up to one"):
            ff.capture(fitted(3, loss_function="MultiClassOneVsAll")[0])
        X, y = table(classes=2)
        with pytest.raises(CaptureError, match="'RMSE' with 1 outputs, which gives no prob"):
            ff.capture(catboost.CatBoost({**FEW, "loss_function": "RMSE"}).fit(X, y))

    def test_other_estimators(self):
        X, y = table(classes=2)
        with pytest.raises(CaptureError, match="CatBoostRegressor of CatBoost is no classifier"):
            ff.capture(catboost.CatBoostRegressor(**FEW).fit(X, y))
        with pytest.raises(CaptureError, match="not fitted"):
            ff.capture(catboost.CatBoostClassifier())

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda tree: tree.update(new_trees=[]), "newer CatBoost"),
            (lambda tree: tree.pop("scale_and_bias"), "no field 'scale_and_bias'"),
            (lambda tree: tree.update(scale_and_bias=[1, [float("nan")]]), "a list of numbers"),
            (lambda tree: tree.update(scale_and_bias=[1, [0, 0]]), "with 2 outputs"),
            (lambda tree: one(tree)["leaf_values"].pop(), "splits and 7 values"),
            (lambda tree: one(tree)["splits"].extend(one(tree)["splits"] * 50), "splits and 8"),
            (lambda tree: one(tree)["splits"][0].update(border=None), "not a number"),
            (lambda tree: one(tree)["splits"][0].update(float_feature_index=9), "a feature of the"),
            (lambda tree: one(tree)["splits"][0].update(split_type="OnlineCtr"), "OnlineCtr"),
            (lambda tree: column(tree).update(flat_feature_index=7), "not columns 0, 1, 2"),
            (lambda tree: column(tree).update(nan_value_treatment="x"), "AsIs or AsFalse"),
        ],
    )
    def test_damaged_files(self, tmp_path, change, message):
        model, _ = fitted(2)
        path = tmp_path / "model.json"
        model.save_model(str(path), format="json")
        tree = json.loads(path.read_text())
        change(tree)
        path.write_text(json.dumps(tree))
        with pytest.raises(CaptureError, match=message) as caught:
            ff.capture(path)
        assert "\n" not in str(caught.value)


def one(tree):
    return tree["oblivious_trees"][0]


def column(tree):
    return tree["features_info"]["float_features"][0]
