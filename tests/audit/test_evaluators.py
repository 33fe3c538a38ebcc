"""Anything that gives probabilities can be audited; the library that made it is the referee."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn

import farfield as ff
from farfield.audit.evaluators import black_box
from farfield.data import open_data
from farfield.errors import CaptureError, InputError


@pytest.fixture(scope="module")
def patients():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 90, 80).astype(float),
            "ward": rng.choice(["north", "south", "west"], 80),
            "code": rng.choice([1, 2, 9], 80),
            "smoker": rng.choice([True, False], 80),
        }
    )
    sick = ((frame.age > 55) ^ (frame.ward == "west")).map({True: "ill", False: "well"})
    return frame, sick


@pytest.fixture(scope="module")
def pipeline(patients):
    frame, sick = patients
    columns = ColumnTransformer(
        [
            ("numbers", StandardScaler(), ["age"]),
            ("codes", OneHotEncoder(), ["ward", "code", "smoker"]),
        ]
    )
    return make_pipeline(columns, GradientBoostingClassifier(n_estimators=5, random_state=0)).fit(
        frame, sick
    )


def test_a_pipeline_is_asked_in_its_own_columns(patients, pipeline):
    frame, sick = patients
    source = open_data(frame, sick, categorical=["code"])
    box = black_box(pipeline, source, frame, "it is one")
    fitted = source.fit_to(len(box.features), feature_names=box.features, n_classes=2)
    rows = fitted.sample(80)
    expected = pipeline.predict_proba(frame.iloc[rows.index])
    assert np.array_equal(box.probabilities(rows.X)[0].numpy(), expected)
    assert box.labels == ("ill", "well")


def test_a_pipeline_is_audited_from_its_frame_and_from_a_file(patients, pipeline, tmp_path):
    frame, sick = patients
    whole = frame.assign(outcome=sick, row=np.arange(len(frame)))
    whole.to_csv(tmp_path / "patients.csv", index=False)
    few = {"categorical": ["code"], "directions": 10, "samples": 30}
    in_frame = ff.audit(pipeline, frame, sick, **few)
    in_file = ff.audit(pipeline, whole.drop(columns="row"), label="outcome", **few)
    assert in_frame.health.numbers["accuracy"].value == pipeline.score(frame, sick)
    assert in_file.blindness == in_frame.blindness
    moved = next(each for each in in_frame.features if each.name == "ward")
    assert {value.value for value in moved.values} == {"north", "south", "west"}


@pytest.mark.parametrize("names", [True, False])
def test_a_forest_that_is_asked_says_what_it_is_known_to_say(names):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.standard_normal((60, 3)), columns=["a", "b", "c"])
    rows = rows if names else rows.to_numpy()
    y = (np.asarray(rows)[:, 0] > 0).astype(int)
    forest = RandomForestClassifier(4, random_state=0).fit(rows, y)
    few = {"directions": 20, "samples": 30}
    asked = ff.audit(forest, rows, y, evidence="sampled", **few)
    assert asked.verdict.seen_to == 1e6
    assert asked.model.parameters == 0
    exact = ff.audit(forest, rows, y, evidence="exact", **few)
    assert exact.verdict.seen_to is None
    assert exact.model.parameters > 20
    for found in (asked, exact):
        assert found.health.numbers["accuracy"].value == forest.score(rows, y)
    known = {family.name: family for family in exact.families}
    assert set(known) == {family.name for family in asked.families} | {"orthants"}
    for one in asked.families:
        other = known[one.name]
        np.testing.assert_allclose(one.confidence, other.confidence, atol=1e-12)
        assert one.classes == other.classes


class Waves(nn.Module):
    """No rule: sine. Returns logits."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, x):
        return torch.sin(self.layer(x)) * 3


def test_a_module_without_a_rule_is_asked_and_its_logits_become_probabilities():
    rows = np.random.default_rng(0).standard_normal((30, 2))
    module = Waves()
    found = ff.audit(module, rows, directions=5)
    assert found.verdict.seen_to == 1e6
    assert any("softmax was applied" in note for note in found.model.notes)
    assert any("sin" in note for note in found.model.notes)


@pytest.fixture(scope="module")
def onnx_forest(tmp_path_factory):
    """A forest, its file, and its data."""
    onnx = pytest.importorskip("skl2onnx")
    pytest.importorskip("onnxruntime")
    rows = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32)
    y = np.where(rows[:, 0] > 0, "yes", "no")
    forest = RandomForestClassifier(4, random_state=0).fit(rows, y)
    path = tmp_path_factory.mktemp("forest") / "forest.onnx"
    path.write_bytes(onnx.to_onnx(forest, rows[:1]).SerializeToString())
    return forest, path, rows, y


def test_an_onnx_forest_is_run_by_onnxruntime(onnx_forest):
    forest, path, rows, y = onnx_forest
    few = {"directions": 10, "samples": 30}
    found, own = (ff.audit(each, rows, y, **few) for each in (path, forest))
    assert found.model.classes == ("no", "yes")
    assert found.health.numbers["accuracy"].value == forest.score(rows, y)
    assert [each.classes for each in found.families] == [each.classes for each in own.families]


def test_an_onnx_pipeline_with_one_input_for_every_column(tmp_path, patients):
    skl2onnx = pytest.importorskip("skl2onnx")
    types = pytest.importorskip("skl2onnx.common.data_types")
    frame, sick = patients
    frame = frame[["age", "ward"]]
    columns = ColumnTransformer(
        [("numbers", StandardScaler(), ["age"]), ("codes", OneHotEncoder(), ["ward"])]
    )
    model = make_pipeline(columns, LogisticRegression()).fit(frame, sick)
    inputs = [
        ("age", types.FloatTensorType([None, 1])),
        ("ward", types.StringTensorType([None, 1])),
    ]
    made = skl2onnx.convert_sklearn(model, initial_types=inputs)
    path = tmp_path / "pipeline.onnx"
    path.write_bytes(made.SerializeToString())
    found = ff.audit(path, frame, sick, directions=5, samples=30)
    assert found.health.numbers["accuracy"].value == model.score(frame, sick)


def test_a_function_of_frames_gets_frames(patients):
    frame, _ = patients

    def score(given):
        p = np.where(given["ward"] == "west", 0.9, 0.2)
        return np.stack([1 - p, p], axis=1)

    found = ff.audit(score, frame, categorical=["code"], directions=5)
    ward = next(each for each in found.features if each.name == "ward")
    assert {value.value: value.changed for value in ward.values}["west"] > 0


def test_a_factory_may_return_any_classifier(tmp_path, monkeypatch):
    (tmp_path / "my_models.py").write_text(
        "import numpy as np\ndef make():\n    return lambda X: np.full((len(X), 2), 0.5)\n"
    )
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).standard_normal((20, 2))
    found = ff.audit("my_models:make", rows, directions=10, allow_code=True)
    assert found.verdict.blind == 0
    assert found.model.kind == "factory"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lambda X: np.zeros((len(X), 2)) - 1, "softmax"),
        (lambda X: "no", "failed|shape"),
        (lambda X: np.ones((len(X), 2, 2)), "shape"),
        (RandomForestClassifier(), "not fitted"),
    ],
)
def test_what_gives_no_probabilities_is_refused_or_named(model, said):
    rows = np.random.default_rng(0).standard_normal((50, 2))
    try:
        found = ff.audit(model, rows, directions=5)
    except (InputError, CaptureError) as error:
        assert re.search(said, str(error))  # noqa: PT017 - either way
    else:
        assert any(said in note for note in found.model.notes)


def test_a_forgotten_label_is_found_for_models_that_can_only_be_asked(onnx_forest, tmp_path):
    forest, path, rows, y = onnx_forest
    data = tmp_path / "rows.csv"
    pd.DataFrame(rows, columns=["a", "b", "c"]).assign(verdict=y).to_csv(data, index=False)
    found = ff.audit(path, data, directions=5, samples=30)
    assert found.health.numbers["accuracy"].value == forest.score(rows, y)
    assert any("verdict" in note for note in found.data.notes)


def test_a_black_box_is_guarded_in_its_audit(short_attack):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((80, 3))
    y = (rows[:, 0] > 0).astype(int)
    forest = RandomForestClassifier(4, random_state=0).fit(rows, y)
    found = ff.audit(forest, rows, y, directions=5, samples=40, guard=True)
    assert found.guard.certificate["largest probability an attack found there"] <= 0.51
    assert found.guard.features[0].certified[0] < rows[:, 0].min()


def test_missing_values_are_allowed_where_the_model_fills_them(tmp_path):
    skl2onnx = pytest.importorskip("skl2onnx")
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.standard_normal((70, 3)), columns=["a", "b", "c"])
    y = (rows["a"] > 0).astype(int)
    rows.loc[::7, "b"] = np.nan
    scaled = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()).fit(rows, y)
    few = {"directions": 5, "samples": 30}
    found = ff.audit(scaled, rows, y, **few)
    assert found.health.numbers["accuracy"].value == scaled.score(rows, y)
    assert any("takes missing values" in note and "mean" in note for note in found.data.notes)
    boosted = HistGradientBoostingClassifier(max_iter=3).fit(rows, y)
    assert ff.audit(boosted, rows, y, **few).data.missing == {"b": 10}
    network = make_pipeline(SimpleImputer(), MLPClassifier((4,), max_iter=30, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(rows.to_numpy(), y)
    example = rows.to_numpy(np.float32)[:1]
    (tmp_path / "m.onnx").write_bytes(skl2onnx.to_onnx(network, example).SerializeToString())
    exact = ff.audit(tmp_path / "m.onnx", rows, y, **few)
    assert exact.verdict.seen_to is None
    assert any("takes missing values" in note for note in exact.data.notes)
    forest = LogisticRegression().fit(rows.fillna(0), y)
    with pytest.raises(InputError, match="missing values in 1 of 3 columns"):
        ff.audit(forest, rows, y)
