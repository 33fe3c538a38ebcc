"""Pipelines from raw columns: frames go in as they are, categories become codes."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
    TargetEncoder,
)

import farfield as ff
from farfield.errors import InputError, NotFollowed
from farfield.graph.columns import encode_rows
from farfield.graph.program import forward
from farfield.graph.reading import InputColumn

NUMBERS, WORDS = ["age", "income"], ["city", "grade"]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    count = 80
    table = pd.DataFrame(
        {
            "age": rng.normal(50, 10, count),
            "city": rng.choice(["Oslo", "Rome", "Bonn", "Lima"], count, p=[0.5, 0.3, 0.15, 0.05]),
            "smokes": rng.choice([True, False], count),
            "income": rng.lognormal(0, 1, count),
            "grade": pd.Categorical(rng.choice(["lo", "mid", "hi"], count)),
            "rooms": rng.integers(1, 5, count),
            "note": [f"x{row}" for row in range(count)],
        }
    )
    table.loc[::7, "age"] = np.nan
    table.loc[::9, "city"] = np.nan
    return table


@pytest.fixture(scope="module")
def labels(frame):
    found = (frame["income"] > 1).to_numpy().astype(int)
    found[::11] = 2
    return found


def probabilities(network, rows):
    """What a network says of raw rows."""
    group = network.groups[0]
    encoded = torch.from_numpy(encode_rows(network.columns, rows))
    value = forward(group.program, encoded, group.shared)
    if network.one_logit:
        value = torch.cat([torch.zeros_like(value), value], dim=-1)
    return (torch.softmax(value, dim=-1) if network.link == "softmax" else value).numpy()


def usual(**others):
    return ColumnTransformer(
        [
            ("num", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), NUMBERS),
            (
                "cat",
                make_pipeline(
                    SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
                ),
                WORDS,
            ),
        ],
        **others,
    )


def only(encoder, columns=WORDS, **others):
    return ColumnTransformer([("cat", encoder, columns)], **others)


ORDINAL = {"handle_unknown": "use_encoded_value", "unknown_value": -1, "encoded_missing_value": -2}
NONE = SimpleImputer(strategy="constant", fill_value="none")
FRONTS = {
    "usual": usual(),
    "rest": usual(remainder="passthrough", transformer_weights={"cat": 2.0}),
    "constant": only(make_pipeline(NONE, OneHotEncoder(handle_unknown="ignore", drop="first"))),
    "with gaps": only(OneHotEncoder(drop="if_binary"), [*WORDS, "smokes"]),
    "rare": only(
        OneHotEncoder(min_frequency=10, handle_unknown="infrequent_if_exist"), [*WORDS, "rooms"]
    ),
    "rare, dropped": only(
        OneHotEncoder(min_frequency=10, drop="first", handle_unknown="ignore"), [*WORDS, "smokes"]
    ),
    "few": only(OneHotEncoder(max_categories=3, handle_unknown="warn")),
    "places": only(OrdinalEncoder(**ORDINAL)),
    "rare places": only(OrdinalEncoder(**ORDINAL, min_frequency=15)),
    "means": only(TargetEncoder()),
    "twice": ColumnTransformer(
        [
            ("means", TargetEncoder(), WORDS),
            (
                "codes",
                OneHotEncoder(handle_unknown="ignore", categories=[["Rome", "Mars"]]),
                ["city"],
            ),
        ]
    ),
    "bins": ColumnTransformer(
        [
            (
                "bins",
                make_pipeline(
                    SimpleImputer(strategy="median"), KBinsDiscretizer(3, strategy="uniform")
                ),
                NUMBERS,
            ),
            ("codes", OneHotEncoder(), ["rooms", "smokes"]),
        ]
    ),
    "numbers and codes": FeatureUnion(
        [
            ("numbers", only(StandardScaler(), ["rooms"])),
            ("codes", only(OneHotEncoder(handle_unknown="ignore"), ["rooms"])),
        ]
    ),
    "filled, then coded": Pipeline(
        [
            ("fill", only(SimpleImputer(strategy="most_frequent"))),
            ("code", OneHotEncoder()),
        ]
    ),
    "codes of codes": only(make_pipeline(OrdinalEncoder(), OneHotEncoder()), ["grade", "smokes"]),
    "masks and slices": ColumnTransformer(
        [
            ("mask", StandardScaler(), [False, False, False, True, False, True, False]),
            ("slice", SimpleImputer(), slice(0, 1)),
            ("kind", OneHotEncoder(), make_column_selector(dtype_include="category")),
            ("none", StandardScaler(), []),
        ]
    ),
    "remainder": ColumnTransformer(
        [("codes", OneHotEncoder(), ["grade"]), ("drop", "drop", ["note", "city"])],
        remainder=SimpleImputer(),
    ),
    "marks": only(
        make_pipeline(
            SimpleImputer(missing_values="lo", strategy="most_frequent"), OneHotEncoder()
        ),
        ["grade"],
    ),
}


@pytest.mark.parametrize("name", FRONTS)
def test_frames_go_in_as_they_are(name, frame, labels):
    rows = frame if name != "rest" else frame.drop(columns="note")
    model = make_pipeline(FRONTS[name], LogisticRegression(max_iter=1000)).fit(rows, labels)
    network = ff.capture(model)
    np.testing.assert_allclose(probabilities(network, rows), model.predict_proba(rows), atol=1e-9)
    assert network.features == tuple(rows.columns)


@pytest.mark.filterwarnings("ignore:Found unknown categories")
@pytest.mark.parametrize("name", FRONTS)
def test_values_that_nobody_has_seen(name, frame, labels):
    rows = frame if name != "rest" else frame.drop(columns="note")
    model = make_pipeline(FRONTS[name], LogisticRegression(max_iter=1000)).fit(rows, labels)
    network = ff.capture(model)
    for column, value in (("city", "Mars"), ("grade", "none")):
        strange = rows.astype({column: object}).copy()
        strange.loc[3, column] = value
        known = next(each for each in network.columns if each.name == column)
        try:
            expected = model.predict_proba(strange)
        except ValueError:
            with pytest.raises(InputError, match=f"column '{column}': row 3 has the value"):
                encode_rows(network.columns, strange)
            continue
        assert not known.used or known.unseen or value in known.categories
        np.testing.assert_allclose(probabilities(network, strange), expected, atol=1e-9)


ENSEMBLES = {
    "vote": VotingClassifier(
        [
            ("a", make_pipeline(usual(), LogisticRegression())),
            ("b", make_pipeline(usual(), RandomForestClassifier(3, random_state=0))),
        ],
        voting="soft",
    ),
    "stack": StackingClassifier(
        [
            ("a", make_pipeline(usual(), LogisticRegression())),
            ("b", make_pipeline(usual(), RidgeClassifier())),
        ],
        cv=2,
    ),
    "calibrated": CalibratedClassifierCV(make_pipeline(usual(), RidgeClassifier()), cv=2),
    "calibrated boosting": CalibratedClassifierCV(
        make_pipeline(usual(), HistGradientBoostingClassifier(max_iter=3)), cv=2
    ),
    "bayes": make_pipeline(
        only(
            make_pipeline(SimpleImputer(strategy="most_frequent"), OrdinalEncoder()),
            [*WORDS, "smokes"],
        ),
        CategoricalNB(),
    ),
}


def test_values_that_become_missing_where_none_may_be(frame, labels):
    """Unseen values become NaN, which the last step refuses: so they are refused at the start."""
    gaps = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    strange = frame.astype({"grade": object})
    strange.loc[0, "grade"] = "none"
    for last, takes in ((LogisticRegression(), False), (HistGradientBoostingClassifier(), True)):
        model = make_pipeline(ColumnTransformer([("codes", gaps, ["grade"])]), last)
        network = ff.capture(model.fit(frame, labels))
        if takes:
            expected = model.predict_proba(strange)
            np.testing.assert_allclose(probabilities(network, strange), expected, atol=1e-9)
            continue
        with pytest.raises(ValueError, match="NaN"):
            model.predict_proba(strange)
        with pytest.raises(InputError, match="'none'"):
            encode_rows(network.columns, strange)


@pytest.mark.parametrize("name", ENSEMBLES)
def test_compositions_of_pipelines(name, frame, labels):
    model = ENSEMBLES[name].fit(frame, labels)
    network = ff.capture(model)
    np.testing.assert_allclose(probabilities(network, frame), model.predict_proba(frame), atol=1e-9)


@pytest.mark.parametrize("package", ["xgboost", "lightgbm", "catboost"])
def test_boosted_trees_of_other_libraries(package, frame, labels):
    library = pytest.importorskip(package, reason=f"{package} is not installed")
    last = {
        "xgboost": lambda: library.XGBClassifier(n_estimators=3, n_jobs=1),
        "lightgbm": lambda: library.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1),
        "catboost": lambda: library.CatBoostClassifier(
            iterations=3, verbose=0, allow_writing_files=False, thread_count=1
        ),
    }[package]()
    front = usual().set_params(cat__onehotencoder__sparse_output=False)
    model = make_pipeline(front, last).fit(frame, labels)
    network = ff.capture(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model.predict_proba(frame)
    np.testing.assert_allclose(probabilities(network, frame), expected, atol=1e-6)
    assert network.columns[1].categories == ("Bonn", "Lima", "Oslo", "Rome")


def test_boosted_trees_that_know_categories(frame, labels):
    rows = frame.drop(columns=["note", "city"])
    model = HistGradientBoostingClassifier(max_iter=4).fit(rows, labels)
    network = ff.capture(model)
    np.testing.assert_allclose(probabilities(network, rows), model.predict_proba(rows), atol=1e-9)
    assert network.columns[3].categories == ("hi", "lo", "mid")


def test_what_is_known_of_the_columns(frame, labels):
    model = make_pipeline(usual(), LogisticRegression()).fit(frame, labels)
    age, city, smokes, income, grade, *_ = ff.capture(model).columns
    assert age == InputColumn("age", missing=True)
    assert city == InputColumn("city", ("Bonn", "Lima", "Oslo", "Rome"), missing=True, unseen=True)
    assert grade.categories == ("hi", "lo", "mid")
    assert income.missing
    assert not smokes.used
    codes = only(OneHotEncoder(), ["smokes", "rooms"])
    network = ff.capture(make_pipeline(codes, LogisticRegression()).fit(frame, labels))
    smokes, rooms = network.columns[2], network.columns[5]
    assert smokes == InputColumn("smokes", (False, True))
    assert rooms == InputColumn("rooms", (1, 2, 3, 4))


def test_far_away_in_numbers_with_categories_at_rest(frame, labels):
    model = make_pipeline(usual(), LogisticRegression()).fit(frame, labels)
    network = ff.capture(model)
    complete = frame.dropna()
    for name in NUMBERS:
        place = list(frame.columns).index(name)
        for sign in (-1.0, 1.0):
            way = sign * np.eye(7)[place]
            far = ff.at_infinity(network, complete[:6], way).probabilities[0].numpy()
            moved = complete[:6].copy()
            moved[name] += sign * 1e9
            np.testing.assert_allclose(far, model.predict_proba(moved), atol=1e-6)


def test_arrays_of_objects_and_mappings(frame, labels):
    rows = frame[["age", "city"]].fillna({"city": "Oslo"})
    front = ColumnTransformer([("n", SimpleImputer(), [0]), ("c", OneHotEncoder(), [1])])
    model = make_pipeline(front, LogisticRegression(max_iter=1000))
    model.fit(rows.to_numpy(dtype=object), labels)
    network = ff.capture(model)
    expected = model.predict_proba(rows.to_numpy(dtype=object))
    np.testing.assert_allclose(
        probabilities(network, rows.to_numpy(dtype=object)), expected, atol=1e-9
    )
    mapping = {name: rows[name].tolist() for name in rows}
    np.testing.assert_allclose(probabilities(network, mapping), expected, atol=1e-9)
    assert network.features is None


def test_frames_of_polars(frame, labels):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    complete = frame.fillna({"city": "Oslo"})
    rows = polars.DataFrame({n: complete[n].tolist() for n in ("city", "income", "smokes")})
    front = ColumnTransformer(
        [("n", StandardScaler(), ["income"]), ("c", OneHotEncoder(), ["city", "smokes"])]
    )
    model = make_pipeline(front, LogisticRegression()).fit(rows, labels)
    network = ff.capture(model)
    expected = model.predict_proba(rows)
    np.testing.assert_allclose(probabilities(network, rows), expected, atol=1e-9)
    turned = rows.select(["smokes", "income", "city"])
    np.testing.assert_allclose(probabilities(network, turned), expected, atol=1e-9)


def test_samplers_of_imbalanced_learn_do_nothing_at_prediction(frame, labels):
    pipelines = pytest.importorskip("imblearn.pipeline", reason="imbalanced-learn is missing")
    from imblearn.over_sampling import RandomOverSampler

    model = pipelines.Pipeline(
        [
            ("front", usual()),
            ("sampler", RandomOverSampler(random_state=0)),
            ("last", LogisticRegression()),
        ]
    ).fit(frame, labels)
    network = ff.capture(model)
    np.testing.assert_allclose(probabilities(network, frame), model.predict_proba(frame), atol=1e-9)


def test_numbers_in_one_place_and_text_in_another(frame, labels):
    rows = frame[["rooms"]].assign(rooms=frame["rooms"].astype(str).astype(object))
    union = FeatureUnion([("numbers", StandardScaler()), ("codes", OneHotEncoder())])
    model = make_pipeline(union, LogisticRegression()).fit(rows, labels)
    with pytest.raises(NotFollowed, match="column 'rooms' is read as categories by OneHotEncoder"):
        ff.capture(model)


COLUMNS = (
    InputColumn("size"),
    InputColumn("city", ("Oslo", "Rome")),
    InputColumn("note", used=False),
)
GOOD = {"size": [1.0, 2.0], "city": ["Rome", "Oslo"], "note": ["a", None]}


def test_rows_are_encoded_by_name():
    assert encode_rows(COLUMNS, GOOD).tolist() == [[1.0, 1.0, 0.0], [2.0, 0.0, 0.0]]
    unordered = pd.DataFrame(GOOD)[["note", "city", "size"]]
    assert encode_rows(COLUMNS, unordered).tolist() == [[1.0, 1.0, 0.0], [2.0, 0.0, 0.0]]
    without = {name: GOOD[name] for name in ("size", "city")}
    assert encode_rows(COLUMNS, without).tolist() == [[1.0, 1.0, 0.0], [2.0, 0.0, 0.0]]
    gaps = (InputColumn("size", missing=True), InputColumn("city", ("Oslo",), missing=True))
    found = encode_rows(gaps, {"size": [None, 1], "city": ["Oslo", float("nan")]})
    assert np.isnan(found).tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"size": None}, "lacks 'size'"),
        ({"extra": [1, 2]}, "unknown to the model, 'extra'"),
        ({"size": ["1", "two"]}, "column 'size': row 1 has the value 'two', which is no number"),
        ({"size": [1.0, np.inf]}, "row 1 has the value .*inf.*, which is infinite"),
        ({"size": [np.nan, 1.0]}, "row 0 has no value"),
        ({"size": [1.0]}, "different lengths"),
        ({"size": np.array(["2020", "2021"], dtype="datetime64[Y]")}, "holds times"),
        ({"city": ["Oslo", "Mars"]}, "row 1 has the value 'Mars'; the model knows 'Oslo', 'Rome'"),
        ({"city": ["Oslo", None]}, "row 1 has the value None"),
        ({"city": [[], "Oslo"]}, "row 0 has the value"),
    ],
)
def test_rows_that_do_not_fit(change, words):
    rows = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    with pytest.raises(InputError, match=words):
        encode_rows(COLUMNS, rows)
    with pytest.raises(InputError, match=r"has shape \(2, 2\)"):
        encode_rows(COLUMNS, np.zeros((2, 2)))
