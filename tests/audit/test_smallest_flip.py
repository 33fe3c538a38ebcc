"""``ff.smallest_flip``: changes that do flip the model's own prediction, and none smaller does."""

import warnings

import numpy as np
import pandas
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from torch import nn

import farfield as ff
from farfield.errors import InputError, UnsupportedOperation

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(300, 3)) * [1.0, 10.0, 0.1] + [0.0, 50.0, 3.0], 2)
Y = ((X[:, 0] + (X[:, 1] - 50) / 10 > 0.2) ^ (X[:, 2] > 3.05)).astype(int)
SOME = X[:25]


def models():
    yield LogisticRegression()
    yield make_pipeline(StandardScaler(), MLPClassifier((8, 8), max_iter=60, random_state=0))
    yield DecisionTreeClassifier(max_depth=5)
    yield RandomForestClassifier(9, max_depth=4, random_state=0)
    yield HistGradientBoostingClassifier(max_iter=10)


@pytest.fixture(scope="module", params=list(models()), ids=lambda m: type(m).__name__)
def fitted(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return request.param.fit(X, Y)


@pytest.fixture(scope="module")
def flip(fitted):
    return ff.smallest_flip(fitted, SOME)


def moved(rows, change, column, share=1.0):
    out = rows.copy()
    out[:, column] += share * np.where(np.isfinite(change), change, 0.0)
    return out


def test_changes_flip_the_models_own_prediction(fitted, flip):
    assert flip.shape == (25, 3)
    assert flip.exact.all()
    before = fitted.predict(SOME)
    for column in range(3):
        change = flip.change[:, column]
        flips = np.isfinite(change)
        after = fitted.predict(moved(SOME, change, column))
        assert (after != before)[flips].all()
        assert (flip.label[flips, column] == after[flips]).all()
        assert (flip.label[~flips, column] == -1).all()
    assert np.isfinite(flip.change).any()


def towards(reach, column, shares):
    """All rows with one column moved by shares of what is given, ``(shares, rows)`` in one list."""
    rows = np.tile(SOME, (len(shares), 1, 1))
    rows[:, :, column] += shares[:, None] * np.minimum(np.abs(reach), 1e3)
    return rows.reshape(-1, 3)


def test_no_smaller_change_flips(fitted, flip):
    shares = np.linspace(-1, 1, 201)[1:-1] * (1 - 1e-9)
    before = np.tile(fitted.predict(SOME), len(shares))
    for column in range(3):
        after = fitted.predict(towards(flip.change[:, column], column, shares))
        assert (after == before).all()


def test_sure_is_sure_and_nothing_nearer_is(fitted, flip):
    shares = np.linspace(-1, 1, 51)[1:-1] * (1 - 1e-6)
    for column in range(3):
        sure = flip.sure[:, column]
        p = fitted.predict_proba(moved(SOME, sure, column)).max(axis=1)
        assert (p[np.isfinite(sure)] >= 0.999).all()
        p = fitted.predict_proba(towards(sure, column, shares)).max(axis=1)
        assert (p.reshape(len(shares), -1)[:, sure != 0] < 0.999).all()


def test_the_result_is_an_array_of_changes(flip):
    assert np.array_equal(np.asarray(flip), flip.change)
    assert flip[0, 1] == flip.change[0, 1]
    assert len(flip) == 25
    assert "25 rows, 3 columns" in repr(flip)


def test_bounds_are_not_left():
    model = LogisticRegression().fit(X[:, :1], X[:, 0] > 0)
    bounds = ff.data.Schema({"a": ff.data.FeatureSchema(low=-4.0, high=4.0)})
    rows = pandas.DataFrame({"a": [-1.0, 3.0]})
    free = ff.smallest_flip(model, rows.to_numpy())
    assert np.isfinite(free.change).all()
    held = ff.data.Schema({"a": ff.data.FeatureSchema(low=-4.0, high=-0.5)})
    assert ff.smallest_flip(model, rows[:1], schema=held).change.tolist() == [[np.inf]]
    assert np.isfinite(ff.smallest_flip(model, rows, schema=bounds).change).all()


def test_categories_flip_by_another_value():
    city = RNG.integers(0, 3, 200)
    frame = pandas.DataFrame({"a": RNG.normal(size=200), "city": np.array(["x", "y", "z"])[city]})
    steps = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    model = make_pipeline(steps, LogisticRegression(C=100.0)).fit(frame, city == 2)
    flip = ff.smallest_flip(model, frame[:20])
    at = flip.columns.index("city")
    for row in range(20):
        value = flip.values[at][flip.choice[row, at]]
        other = frame[row : row + 1].assign(city=value)
        assert flip.change[row, at] == 1.0
        assert model.predict(other) != model.predict(frame[row : row + 1])


def test_ensembles_flip_by_their_mean():
    torch.manual_seed(0)
    nets = [nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(3)]
    flip = ff.smallest_flip(nets, SOME / [1.0, 10.0, 1.0])
    assert flip.exact.all()
    assert np.isfinite(flip.change).any()


def test_models_that_cannot_be_walked_are_marked_or_refused():
    smooth = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    rows = (SOME - [0.0, 50.0, 3.0]) / [1.0, 10.0, 0.1]
    flip = ff.smallest_flip(smooth, rows)
    assert not flip.exact.any()
    with torch.no_grad():
        before = smooth(torch.from_numpy(rows).float()).argmax(dim=1)
    assert np.isfinite(flip.change).any()
    for column in range(3):
        flips = np.isfinite(flip.change[:, column])
        with torch.no_grad():
            after = smooth(torch.from_numpy(moved(rows, flip.change[:, column], column)).float())
        assert (after.argmax(dim=1) != before).numpy()[flips].all()
    with pytest.raises(UnsupportedOperation):
        ff.smallest_flip(smooth, rows, evidence="exact")
    asked = ff.smallest_flip(lambda x: np.where(x[:, :1] > 1, [[0.1, 0.9]], [[0.8, 0.2]]), rows)
    assert not asked.exact.any()
    assert np.isinf(asked.change[:, 1:]).all()
    assert (rows[:, 0] + asked.change[:, 0] > 1).tolist() == (rows[:, 0] <= 1).tolist()


def test_what_has_no_columns_or_classes_is_refused():
    with pytest.raises(InputError, match="images"):
        ff.smallest_flip(lambda x: np.full((len(x), 2), 0.5), np.zeros((4, 1, 8, 8)))
    with pytest.raises(InputError, match="strictly between"):
        ff.smallest_flip(LogisticRegression().fit(X, Y), X, level=1.0)
