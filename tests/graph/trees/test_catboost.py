"""CatBoost, read and compared with CatBoost."""

import json

import catboost
import numpy as np
import pandas as pd
import pytest

import farfield as ff
from boosted import CATBOOST
from farfield.errors import CaptureError, NotFollowed

FEW = CATBOOST.few
table, fitted, agree = CATBOOST.table, CATBOOST.fitted, CATBOOST.agree


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
