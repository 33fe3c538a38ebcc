"""XGBoost, read and compared with XGBoost."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import farfield as ff
from boosted import XGBOOST, coded
from farfield.errors import CaptureError, InputError, NotFollowed
from farfield.graph.columns import encode_rows
from tree_rows import probabilities, telling_rows

CLOSE = XGBOOST.close
table, fitted, agree = XGBOOST.table, XGBOOST.fitted, XGBOOST.agree


def test_vector_leaves():
    model, X = fitted(multi_strategy="multi_output_tree", tree_method="hist", n_estimators=6)
    agree(model, X)


def test_softmax_objective():
    agree(*fitted(objective="multi:softmax"))


def test_random_forests():
    X, y = table(classes=2)
    agree(xgb.XGBRFClassifier(n_estimators=4, max_depth=3).fit(X, y), X)


@pytest.mark.parametrize("base", [0.0, 1e-9, 1.0])
def test_base_scores_at_the_ends(base):
    X, y = table(classes=2)
    booster = xgb.train({"objective": "binary:logistic", "base_score": base}, xgb.DMatrix(X, y), 2)
    found = ff.capture(booster).probabilities(np.nan_to_num(X))[0, :, 1]
    assert np.abs(found.numpy() - booster.predict(xgb.DMatrix(np.nan_to_num(X)))).max() < CLOSE


def test_early_stopping_counts_as_it_does_in_the_wrapper(tmp_path):
    X, y = table(classes=2)
    noise = np.random.default_rng(1).permutation(y)
    model = xgb.XGBClassifier(n_estimators=12, early_stopping_rounds=2, learning_rate=1.0)
    model.fit(X, y, eval_set=[(X, noise)], verbose=False)
    assert model.best_iteration < model.get_booster().num_boosted_rounds() - 1
    assert any("early stopping" in note for note in agree(model, X).notes)
    model.save_model(tmp_path / "wrapper.json")
    agree(model, X, ff.capture(tmp_path / "wrapper.json"))
    booster = model.get_booster()
    whole = booster.predict(xgb.DMatrix(X))
    assert np.abs(probabilities(ff.capture(booster), X)[:, 1] - whole).max() < CLOSE
    booster.save_model(tmp_path / "booster.json")
    network = ff.capture(tmp_path / "booster.json")
    assert np.abs(probabilities(network, X)[:, 1] - whole).max() < CLOSE
    assert any("Booster.predict" in note for note in network.notes)


@pytest.mark.parametrize("suffix", ["json", "ubj"])
@pytest.mark.parametrize("classes", [2, 3])
def test_files_are_read_as_the_object_is(tmp_path, suffix, classes):
    model, X = fitted(classes)
    model.save_model(tmp_path / f"model.{suffix}")
    (tmp_path / f"model.{suffix}").rename(tmp_path / "model")  # the content counts, not the name
    network = ff.capture(tmp_path / "model")
    rows = telling_rows(network, X)
    assert (probabilities(network, rows) == probabilities(ff.capture(model), rows)).all()
    assert network.labels is None


def frame(seed=0, rows=300):
    rng = np.random.default_rng(seed)
    held = pd.DataFrame(
        {
            "age": rng.normal(size=rows),
            "town": pd.Categorical(rng.choice(["a", "bc", "d", "e", "f"], rows)),
            "size": pd.Categorical(rng.choice([3, 7, 12], rows)),
        }
    )
    effect = held["town"].cat.codes.isin([1, 3]) ^ (held["size"].cat.codes == 1)
    y = (effect + held["age"] + rng.normal(size=rows) > 0.5).astype(int)
    return held, y


@pytest.mark.parametrize("one_hot", [1, 10])
def test_categories(one_hot):
    held, y = frame()
    held.loc[::9, "town"] = np.nan
    model = xgb.XGBClassifier(
        n_estimators=6, max_depth=3, enable_categorical=True, max_cat_to_onehot=one_hot
    ).fit(held, y)
    network = ff.capture(model)
    assert network.features == ("age", "town", "size")
    assert [column.categories for column in network.columns] == [
        None,
        ("a", "bc", "d", "e", "f"),
        (3, 7, 12),
    ]
    found = probabilities(network, encode_rows(network.columns, held))
    assert np.abs(found - model.predict_proba(held)).max() < CLOSE
    strange = held.assign(town=held["town"].cat.rename_categories({"d": "never seen"}))
    with pytest.raises(xgb.core.XGBoostError, match="not in the training set"):
        model.predict_proba(strange)
    with pytest.raises(InputError, match="'never seen'; the model knows 'a'"):
        encode_rows(network.columns, strange)


def test_codes_between_and_beyond_the_categories():
    held, y = frame()
    X = coded(held)
    model = xgb.XGBClassifier(
        n_estimators=6, max_depth=4, feature_types=["q", "c", "c"], max_cat_to_onehot=1
    ).fit(X, y)
    network = ff.capture(model)
    assert any("go in as codes" in note for note in network.notes)
    rows = telling_rows(network, X)
    # XGBoost refuses codes that are no whole numbers below 2**24 only while it is trained.
    found = probabilities(network, rows)
    assert np.abs(found - model.predict_proba(rows)).max() < CLOSE


def test_names_of_categories_that_xgboost_loses_are_not_guessed():
    held, y = frame()
    held["town"] = held["town"].cat.rename_categories({"a": "éa"})
    model = xgb.XGBClassifier(n_estimators=2, enable_categorical=True).fit(held, y)
    network = ff.capture(model)
    assert network.columns[1].categories is None
    assert any("town" in note for note in network.notes)


def test_scores_without_a_sigmoid_are_logits():
    X, y = table(classes=2)
    booster = xgb.train({"objective": "binary:logitraw", "base_score": 0.3}, xgb.DMatrix(X, y), 4)
    X = np.nan_to_num(X)
    found = ff.capture(booster).logits(X)[0, :, 1].numpy()
    assert np.allclose(found, booster.predict(xgb.DMatrix(X)), atol=1e-5)
    model, _ = fitted(2, objective="binary:logitraw")
    with pytest.raises(CaptureError, match="gives scores"):
        ff.capture(model)


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"objective": "reg:squarederror"}, "gives no probabilities"),
            ({"objective": "binary:hinge"}, "gives no probabilities"),
            ({"objective": "rank:pairwise"}, "gives no probabilities"),
            ({"objective": "count:poisson"}, "gives no probabilities"),
            ({"objective": "binary:logistic", "booster": "gblinear"}, "gblinear"),
        ],
    )
    def test_objectives_and_boosters(self, options, message):
        X, y = table(classes=2)
        booster = xgb.train(options, xgb.DMatrix(X, y), 1)
        with pytest.raises(CaptureError, match=message):
            ff.capture(booster)

    def test_missing_values_by_another_name(self):
        with pytest.raises(NotFollowed, match="takes -999 for missing"):
            ff.capture(fitted(2, missing=-999)[0])

    def test_several_targets(self):
        X, y = table(classes=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = xgb.XGBClassifier(n_estimators=1).fit(X, np.c_[y, 1 - y])
        with pytest.raises(CaptureError, match="2 targets"):
            ff.capture(model)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda tree: tree.update(version=[4, 0, 0]), "XGBoost 4.0.0; farfield reads"),
            (lambda tree: tree["learner"].pop("objective"), "no field 'objective'"),
            (lambda tree: one(tree).update(new_splits=[]), "newer XGBoost"),
            (lambda tree: one(tree)["left_children"].__setitem__(0, 0), "no node of it"),
            (lambda tree: one(tree)["left_children"].__setitem__(0, 10**9), "no node of it"),
            (lambda tree: one(tree)["split_indices"].__setitem__(0, 99), "looks at column 99"),
            (lambda tree: one(tree)["split_conditions"].__setitem__(-1, 1e999), "not finite"),
            (lambda tree: one(tree)["split_conditions"].__setitem__(0, float("nan")), "NaN"),
            (lambda tree: one(tree)["split_conditions"].pop(), "are needed"),
            (lambda tree: shape(tree).update(num_feature=str(10**15)), "from 1 to"),
            (lambda tree: shape(tree).update(num_class="7000000"), "from 0 to"),
            (lambda tree: shape(tree).update(base_score="[1,2,3,4]"), "base_score"),
            (lambda tree: tree.update(learner=[]), "not a record"),
        ],
    )
    def test_damaged_files(self, tmp_path, change, message):
        model, _ = fitted(2, n_estimators=2)
        tree = json.loads(bytes(model.get_booster().save_raw("json")))
        change(tree)
        path = tmp_path / "model.json"
        path.write_text(json.dumps(tree))
        with pytest.raises(CaptureError, match=message) as caught:
            ff.capture(path)
        assert "\n" not in str(caught.value)


def one(tree):
    return tree["learner"]["gradient_booster"]["model"]["trees"][0]


def shape(tree):
    return tree["learner"]["learner_model_param"]
