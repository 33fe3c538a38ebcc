"""LightGBM, read and compared with LightGBM."""

import re

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import farfield as ff
from boosted import LIGHTGBM, coded
from farfield.errors import CaptureError, NotFollowed
from farfield.graph.columns import encode_rows
from tree_rows import probabilities, telling_rows

CLOSE = LIGHTGBM.close
FEW = LIGHTGBM.few
table, fitted, agree = LIGHTGBM.table, LIGHTGBM.fitted, LIGHTGBM.agree


@pytest.mark.parametrize("objective", ["binary", "cross_entropy"])
def test_the_slope_of_the_sigmoid(objective):
    X, y = table(classes=2)
    options = {**FEW, "objective": objective, "sigmoid": 2.5}
    booster = lgb.train(options, lgb.Dataset(X, y.astype(float)), 5)
    network = ff.capture(booster)
    rows = telling_rows(network, X)
    assert np.abs(probabilities(network, rows)[:, 1] - booster.predict(rows)).max() < CLOSE


def test_thresholds_among_numbers_that_count_as_zero():
    """LightGBM puts such thresholds there only where data makes it; a file can hold any."""
    booster = lgb.train({**FEW, "objective": "binary"}, lgb.Dataset(*table(classes=2)), 1)
    # LightGBM aborts the process where sizes of trees are not right, and does without them.
    text = re.sub("tree_sizes=.*\n", "", booster.model_to_string())
    line = next(line for line in text.splitlines() if line.startswith("threshold="))
    for value in ("0", "-0", "5e-36", "-5e-36", "1e-300", "-1e-300", "1.0000000180025095e-35"):
        changed = "threshold=" + " ".join([value] * len(line.split()))
        for kind in (0, 2, 4, 6, 8, 10):
            bits = "decision_type=" + " ".join([str(kind)] * len(line.split()))
            old = next(each for each in text.splitlines() if each.startswith("decision_type="))
            other = lgb.Booster(model_str=text.replace(line, changed).replace(old, bits))
            network = ff.capture(other)
            rows = telling_rows(network, table(classes=2)[0])
            assert np.abs(probabilities(network, rows)[:, 1] - other.predict(rows)).max() < CLOSE


def test_early_stopping():
    X, y = table(classes=2)
    model = lgb.LGBMClassifier(**{**FEW, "n_estimators": 30}).fit(
        X,
        y,
        eval_X=X,
        eval_y=np.random.default_rng(1).permutation(y),
        callbacks=[lgb.early_stopping(2, verbose=False)],
    )
    assert 0 < model.best_iteration_ < 30
    agree(model, X)


def test_files_are_read_as_the_object_is(tmp_path):
    model, X = fitted(3)
    model.booster_.save_model(tmp_path / "model.txt")
    network = ff.capture(tmp_path / "model.txt")
    rows = telling_rows(network, X)
    assert (probabilities(network, rows) == probabilities(ff.capture(model), rows)).all()
    data = (tmp_path / "model.txt").read_bytes().replace(b"\n", b"\r\n")
    (tmp_path / "windows").write_bytes(data)
    assert (
        probabilities(ff.capture(tmp_path / "windows"), rows) == probabilities(network, rows)
    ).all()


def frame(seed=0, rows=300):
    rng = np.random.default_rng(seed)
    held = pd.DataFrame(
        {
            "age": rng.normal(size=rows),
            "town": pd.Categorical(rng.choice(["a", "bé", "d", "e", "f", "g"], rows)),
            "size": pd.Categorical(rng.choice([3, 7, 12], rows)),
        }
    )
    effect = held["town"].cat.codes.isin([0, 3]) ^ (held["size"].cat.codes == 1)
    y = np.where(effect + held["age"] + rng.normal(size=rows) > 0.5, "yes", "no")
    held.loc[::9, "town"] = np.nan
    return held, y


CATEGORIES = {"min_data_per_group": 3, "cat_smooth": 1, "cat_l2": 1}


@pytest.mark.parametrize("one_hot", [1, 10])
def test_categories_of_frames(one_hot):
    held, y = frame()
    model = lgb.LGBMClassifier(**FEW, **CATEGORIES, max_cat_to_onehot=one_hot).fit(held, y)
    network = ff.capture(model)
    assert network.labels == ("no", "yes")
    assert network.features == ("age", "town", "size")
    assert network.columns[1].categories == ("a", "bé", "d", "e", "f", "g")
    assert network.columns[2].categories == (3, 7, 12)
    strange = held.assign(town=held["town"].cat.rename_categories({"d": "never seen"}))
    for rows in (held, strange):
        found = probabilities(network, encode_rows(network.columns, rows))
        assert np.abs(found - model.predict_proba(rows)).max() < CLOSE


def test_categories_by_number_and_what_lies_between_them():
    held, y = frame()
    X = coded(held)
    X[:, 1] *= 13  # across several words of bits
    model = lgb.LGBMClassifier(**FEW, **CATEGORIES).fit(X, y, categorical_feature=[1, 2])
    network = ff.capture(model)
    assert any("go in as codes" in note for note in network.notes)
    rows = telling_rows(network, X)
    extra = rows[:8].copy()
    extra[:, 1] = [-0.5, -0.999, -1.0, 0.999, 1e9, 2.0**31, 2.0**32, -(2.0**33)]
    rows = np.concatenate([rows, extra])
    assert np.abs(probabilities(network, rows) - model.predict_proba(rows)).max() < CLOSE


def test_ordered_categories_are_told_by_their_bounds():
    held, y = frame()
    held["size"] = held["size"].cat.as_ordered()
    model = lgb.LGBMClassifier(**FEW, **CATEGORIES).fit(held, y)
    network = ff.capture(model)
    known = {column.name: column for column in network.columns}
    assert known["size"].categories == tuple(held["size"].cat.categories)
    assert known["town"].categories == tuple(held["town"].cat.categories)
    assert not known["size"].unseen  # LightGBM takes those for missing
    rows = held.copy()
    rows.loc[rows.index[:9], "size"] = np.nan
    assert np.abs(network.probabilities(rows)[0].numpy() - model.predict_proba(rows)).max() < CLOSE


def test_ordered_categories_beside_numbers_like_their_codes_cannot_be_told():
    held, y = frame()
    held["size"] = held["size"].cat.as_ordered()
    few = held["size"].cat.codes.to_numpy().copy()
    np.random.default_rng(0).shuffle(few)
    model = lgb.LGBMClassifier(**FEW, **CATEGORIES).fit(held.assign(few=few), y)
    network = ff.capture(model)
    assert [column.categories for column in network.columns] == [None] * 4
    assert any("town" in note for note in network.notes)


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"objective": "regression"}, "'regression' with 1 classes, which gives no prob"),
            ({"objective": "cross_entropy_lambda"}, "which gives no prob"),
            ({"objective": "multiclassova", "num_class": 3}, "do not add up to one"),
            ({"objective": "binary", "linear_tree": True}, "linear tree"),
            ({"objective": lambda p, d: (p - d.get_label(), np.ones(len(p)))}, "custom"),
        ],
    )
    def test_objectives_and_trees(self, options, message):
        X, y = table(classes=3 if "num_class" in options else 2, missing=False)
        booster = lgb.train({**FEW, **options}, lgb.Dataset(X, y.astype(float)), 2)
        with pytest.raises(CaptureError, match=message):
            ff.capture(booster)

    def test_linear_trees_are_not_followed(self):
        with pytest.raises(NotFollowed, match="linear_tree=False"):
            ff.capture(fitted(2, linear_tree=True)[0])

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("version=v4", "version=v9", "'v9'; farfield reads v3 and v4"),
            ("max_feature_idx=3", "max_feature_idx=99999999999", "from 0 to"),
            ("max_feature_idx=3", "max_feature_idx=7", "names 4 columns, but has 8"),
            ("num_leaves=6", "num_leaves=2000000000", "are needed"),
            ("left_child=", "left_child=0 ", "are needed"),
            ("end of trees", "end", "cut short"),
            ("Tree=1\n", "", "cut short"),
            ("leaf_value=", "leaf_value=inf ", "are needed"),
            ("num_class=1", "num_class=3", "3 classes"),
            ("sigmoid:1", "sigmoid:-1", "a positive number"),
            ("decision_type=", "decision_type=99", "bits that are known"),
        ],
    )
    def test_damaged_files(self, tmp_path, old, new, message):
        model, _ = fitted(2)
        text = model.booster_.model_to_string()
        assert old in text
        path = tmp_path / "model.txt"
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(CaptureError, match=message) as caught:
            ff.capture(path)
        assert "\n" not in str(caught.value)
