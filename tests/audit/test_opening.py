"""A model and its data opened together: each helps the other, or says what does not fit."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import farfield as ff
from farfield.audit.evaluators import own_answers
from farfield.audit.opening import open_both
from farfield.errors import CaptureError, InputError

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(60, 2)), columns=["age", "dose"])
LABELS = np.where(FRAME["age"] > 0, "yes", "no")


@pytest.fixture(scope="module")
def models():
    return [
        ff.ReLUClassifier(hidden=(4,), epochs=2, random_state=seed).fit(FRAME, LABELS)
        for seed in range(2)
    ]


@pytest.mark.parametrize("members", [1, 2])
def test_the_model_says_what_the_columns_are(models, members, tmp_path):
    paths = [tmp_path / f"{k}.safetensors" for k in range(members)]
    for model, path in zip(models, paths, strict=False):
        model.save(path)
    rows = FRAME.assign(id=range(60), outcome=LABELS)[["id", "dose", "outcome", "age"]]
    loaded, source, task = open_both(paths[0] if members == 1 else paths, rows)
    assert loaded.network.instances == members
    assert (source.feature_names, source.label, task) == (
        ("age", "dose"),
        "outcome",
        "classification",
    )
    np.testing.assert_array_equal(source.read().X, FRAME.to_numpy())
    np.testing.assert_array_equal(source.read().y, LABELS == "yes")


def test_the_data_says_what_the_shape_is(models):
    module = models[0].instances_[0]
    loaded, source, _ = open_both(module, FRAME.to_numpy())
    assert loaded.network.input_shape == source.shape == (2,)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (FRAME.rename(columns={"dose": "weight"}), "needs 'dose', which the table does not have"),
        (FRAME.to_numpy()[:, :1], "takes 2 features, the table gives 1"),
    ],
)
def test_what_does_not_fit_is_named(models, rows, message):
    with pytest.raises(InputError, match=message):
        open_both(models[0], rows)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (RandomForestClassifier, "is RandomForestClassifier, a class; pass what it makes, fitted"),
        (RandomForestClassifier(), "RandomForestClassifier is not fitted; call fit first"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "Pipeline is not fitted"),
        (LinearRegression().fit(FRAME, FRAME["age"]), "predicts numbers .*; pass a classifier"),
    ],
)
def test_a_model_that_is_none_is_said_before_anything_of_the_data(model, message):
    gaps = FRAME.assign(dose=np.nan, outcome=LABELS)
    with pytest.raises(CaptureError, match=message):
        open_both(model, gaps, "outcome")


def test_a_file_that_is_never_opened_is_said_before_anything_of_the_data(tmp_path):
    (tmp_path / "m.pkl").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(CaptureError, match="never opens one"):
        open_both(tmp_path / "m.pkl", FRAME.assign(dose=np.nan, outcome=LABELS), "outcome")


def test_files_of_models_that_take_gaps_take_them(tmp_path):
    gaps = FRAME.assign(outcome=LABELS)
    gaps.loc[::5, "dose"] = np.nan
    skops = pytest.importorskip("skops.io", reason="a file of scikit-learn's objects")
    front = make_pipeline(SimpleImputer(strategy="most_frequent"), LogisticRegression())
    skops.dump(front.fit(FRAME, LABELS), tmp_path / "m.skops")
    lightgbm = pytest.importorskip("lightgbm", reason="trees that take missing values")
    trees = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1).fit(FRAME.to_numpy(), LABELS)
    trees.booster_.save_model(tmp_path / "m.txt")
    for name, fill in (("m.skops", "most frequent value"), ("m.txt", "median")):
        loaded, source, _ = open_both(tmp_path / name, gaps, "outcome")
        assert source.missing == {"dose": 12}
        assert any(f"filled with the {fill}" in note for note in source.notes)
        assert loaded.original is None


def test_truths_that_a_model_keeps_as_numbers_are_no_unknown_categories():
    frame = FRAME.assign(smokes=FRAME["dose"] > 0)
    labels = np.where(frame["smokes"], "yes", "no")
    forest = HistGradientBoostingClassifier(max_iter=3, categorical_features=["smokes"])
    model = forest.fit(frame.astype({"smokes": "category"}), labels)
    loaded, source, _ = open_both(model, frame.assign(outcome=labels), "outcome")
    found = loaded.network.probabilities(source.read().X)[0].numpy()
    own = model.predict_proba(frame.astype({"smokes": "category"}))
    np.testing.assert_allclose(found, own, atol=1e-9)


def coded_model(frame, column, labels):
    front = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), [column]), remainder="passthrough"
    )
    return make_pipeline(front, LogisticRegression()).fit(frame, labels)


def check_answers(model, frame, labels, path):
    """A model says of a table and of its file, read or asked, what it says of the frame."""
    table, own = frame.assign(outcome=labels), model.predict_proba(frame)
    table.to_csv(path, index=False)
    for data in (table, path):
        loaded, source, _ = open_both(model, data, "outcome")
        rows = source.read().X
        np.testing.assert_allclose(loaded.network.probabilities(rows)[0], own, atol=1e-9)
        asked = own_answers(loaded.original, source, data)(rows)
        np.testing.assert_allclose(asked, own, atol=1e-9)
        assert source.class_names == tuple(str(each).strip() for each in model.classes_)


def test_words_that_a_model_knows_with_spaces_around_them(tmp_path):
    frame = FRAME.assign(work=np.where(FRAME["dose"] > 0, " Private", " State-gov"))
    labels = np.where((FRAME["dose"] > 0) ^ (FRAME["age"] > 1), " >50K", " <=50K")
    model = coded_model(frame, "work", labels)
    check_answers(model, frame, labels, tmp_path / "adult.csv")
    both = frame.assign(work=np.where(FRAME["age"] > 0, "Private", frame["work"]))
    model.fit(both, labels)
    with pytest.raises(InputError, match="tells ' Private' from 'Private'"):
        open_both(model, both)


def test_words_of_digits_are_no_numbers(tmp_path):
    frame = FRAME.assign(grade=np.where(FRAME["dose"] > 0, "1", "2"))
    labels = ((FRAME["dose"] > 0) ^ (FRAME["age"] > 1)).astype(int)
    check_answers(coded_model(frame, "grade", labels), frame, labels, tmp_path / "grades.csv")


@pytest.mark.parametrize("known", ["as written", "cut off"])
def test_models_that_are_asked_get_words_as_they_know_them(tmp_path, known):
    frame = FRAME.assign(work=np.where(FRAME["dose"] > 0, " Private", "State-gov "))
    frame.assign(y=LABELS).to_csv(tmp_path / "adult.csv", index=False)
    seen = frame if known == "as written" else frame.assign(work=frame["work"].str.strip())
    front = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["work"]), remainder="passthrough"
    )
    model = make_pipeline(front, LogisticRegression()).fit(seen, LABELS)
    loaded, source, _ = open_both(model, tmp_path / "adult.csv", "y", evidence="sampled")
    said = loaded.network.probabilities(source.read().X)[0]
    np.testing.assert_allclose(said, model.predict_proba(seen), atol=1e-9)


def test_columns_that_are_missing_are_told_from_categories_that_are_there():
    frame = FRAME.assign(ward=np.where(FRAME["dose"] > 0, "A", "B"))
    front = make_column_transformer((OneHotEncoder(), ["ward"]), remainder="passthrough")
    model = make_pipeline(front, LogisticRegression()).fit(frame, LABELS)
    with pytest.raises(InputError) as caught:
        open_both(model, frame.rename(columns={"dose": "weight"}))
    assert "needs 'dose', which" in str(caught.value)
    assert "has 'weight', which" in str(caught.value)


def test_what_is_asked_for_is_checked(models):
    with pytest.raises(InputError, match="'auto', 'exact', 'sampled', got 'both'"):
        open_both(models[0], FRAME, evidence="both")
    with pytest.raises(InputError, match="'regression', got 'ranking'"):
        open_both(models[0], FRAME, task="ranking")


def test_codes_without_categories_are_a_warning_unless_the_data_names_them(tmp_path):
    lightgbm = pytest.importorskip("lightgbm", reason="a model that loses its categories")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"ward": rng.integers(0, 4, 120), "age": rng.normal(size=120)})
    labels = ((frame.ward == 1) ^ (frame.age > 0)).astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1)
    model.fit(frame, labels, categorical_feature=["ward"])
    model.booster_.save_model(tmp_path / "m.txt")
    table = frame.assign(died=labels)
    few = {"samples": 60, "directions": 10}
    plain = ff.audit(tmp_path / "m.txt", table, "died", **few)
    assert any("Categories of ward are not in the model" in each for each in plain.warnings)
    told = ff.audit(tmp_path / "m.txt", table, "died", categorical=["ward"], **few)
    assert not any("ward" in each for each in told.warnings)


def test_neighbours_that_tie_are_a_warning():
    rows = np.random.default_rng(0).integers(0, 4, size=(60, 2)).astype(float)
    labels = np.arange(60) % 2
    found = ff.audit(KNeighborsClassifier(3).fit(rows, labels), rows, labels, directions=10)
    assert any("neighbours tie for the last place" in each for each in found.warnings)
