"""Trees walked back all at once, against the same trees walked cell by cell."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import farfield as ff
from farfield.exact.ray import walk_back
from farfield.exact.ray.line import walks
from farfield.exact.ray.tree_back import TreeBack

RNG = np.random.default_rng(0)
# Whole numbers: breaks coincide, rays start on thresholds and pass several at once.
X = RNG.integers(-4, 5, size=(120, 3)).astype(float)
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int) + (X[:, 1] > 2)
WAYS = RNG.integers(-2, 3, size=(60, 3)).astype(float)
WAYS[~WAYS.any(axis=1)] = 1.0
MODELS = {
    "forest": RandomForestClassifier(7, random_state=0),
    "extra": ExtraTreesClassifier(5, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=6, random_state=0),
    "histograms": HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=5),
    "scaled": make_pipeline(StandardScaler(), RandomForestClassifier(4, random_state=1)),
}


def read(name, classes=3):
    return ff.capture(MODELS[name].fit(X, np.minimum(Y, classes - 1)))


# Boosting has one margin for two classes, and one for each of three.
TWO = ("forest", "boosting", "histograms")
LEVELS = (0.35, 0.5, 0.6, 0.75, 0.9)


@pytest.mark.parametrize(
    ("name", "classes"), [*((name, 3) for name in MODELS), *((name, 2) for name in TWO)]
)
def test_both_ways_back_end_at_the_same_place(name, classes, monkeypatch):
    network = read(name, classes)
    far = ff.at_infinity(network, X[:20] + 0.5, WAYS[:20])
    taken = []
    monkeypatch.setattr(TreeBack, "last_loss", _counting(TreeBack.last_loss, taken), raising=True)
    quick = [far.sure_from(level) for level in LEVELS] + [far.final_from()]
    assert taken
    monkeypatch.setattr(walk_back.TreeBack, "of", lambda walk: None)
    slow = [far.sure_from(level) for level in LEVELS] + [far.final_from()]
    for one, other in zip(quick, slow, strict=True):
        assert one.exact.all()
        assert other.exact.all()
        assert torch.equal(one.t, other.t)


def _counting(function, taken):
    def count(*args):
        taken.append(len(args[1]))
        return function(*args)

    return count


def test_a_budget_is_kept():
    far = ff.at_infinity(read("forest"), X[:60] + 0.5, WAYS)
    hasty, whole = far.sure_from(0.4, budget=1.0), far.sure_from(0.4)
    assert not hasty.exact.all()
    assert (hasty.t >= whole.t).all()


def test_what_is_no_ensemble_alone_is_left_to_the_other_walk():
    xgboost = pytest.importorskip("xgboost")
    frame = {"c": RNG.integers(0, 4, 120), "x": X[:, 0]}
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame(frame).astype({"c": "category"})
    model = xgboost.XGBClassifier(n_estimators=4, max_cat_to_onehot=1, enable_categorical=True)
    network = ff.capture(model.fit(rows, (frame["c"] % 2 == (X[:, 0] > 0)).astype(int)))
    ((_, walk),) = walks(network, None, 1 << 20)
    assert TreeBack.of(walk) is None
