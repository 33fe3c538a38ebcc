"""Files of skops: read by a list of types, hostile ones refused; pickles are never opened."""

import io
import json
import pickle
import zipfile

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, StandardScaler

import farfield as ff
from farfield.errors import CaptureError
from scikit_referee import check_values

skops = pytest.importorskip("skops.io", reason="skops is not installed")
ROWS, LABELS = load_iris(return_X_y=True)
MODELS = [
    make_pipeline(StandardScaler(), LogisticRegression()),
    make_pipeline(KBinsDiscretizer(3, strategy="uniform"), LogisticRegression()),
    RandomForestClassifier(3, random_state=0),
    HistGradientBoostingClassifier(max_iter=2),
    CalibratedClassifierCV(GaussianNB(), cv=2),
    GaussianProcessClassifier(RBF(), optimizer=None),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_saved_models_are_read(model, tmp_path):
    path = tmp_path / "model.skops"
    skops.dump(model.fit(ROWS[::3], LABELS[::3]), path)
    network = ff.capture(path)
    check_values(model, network, ROWS)
    assert network.labels == (0, 1, 2)


def danger():
    raise AssertionError("code of a file was run")


def test_types_that_are_not_on_the_list_are_named(tmp_path):
    path = tmp_path / "model.skops"
    model = make_pipeline(FunctionTransformer(danger, validate=False), LogisticRegression())
    skops.dump(model, path)
    with pytest.raises(CaptureError, match="danger") as caught:
        ff.capture(path)
    assert "skl2onnx" in str(caught.value)
    skops.dump(KNeighborsClassifier().fit(ROWS, LABELS), path)
    with pytest.raises(CaptureError, match="KDTree"):
        ff.capture(path)


def rewritten(model, change):
    """A file whose schema or arrays were changed."""
    content = io.BytesIO(skops.dumps(model))
    out = io.BytesIO()
    with zipfile.ZipFile(content) as source, zipfile.ZipFile(out, "w") as target:
        members = {name: source.read(name) for name in source.namelist()}
        schema = json.loads(members["schema.json"])
        change(schema, members)
        members["schema.json"] = json.dumps(schema).encode()
        for name, data in members.items():
            target.writestr(name, data)
    return out.getvalue()


def trees(item):
    """The trees within a schema."""
    if isinstance(item, dict):
        if item.get("__class__") == "Tree":
            yield item
        for value in item.values():
            yield from trees(value)
    elif isinstance(item, list):
        for value in item:
            yield from trees(value)


def larger(schema, _):
    for tree in trees(schema):
        tree["content"]["content"]["node_count"] = {
            **tree["content"]["content"]["node_count"],
            "content": "100000000",
            "__id__": 1,
        }


def wider(schema, _):
    for tree in trees(schema):
        tree["__reduce__"]["args"]["content"][2] = {
            **tree["__reduce__"]["args"]["content"][2],
            "content": "100000000",
            "__id__": 2,
        }


def double(schema, _):
    arguments = next(trees(schema))["__reduce__"]["args"]
    schema["again"] = {**arguments, "content": []}


@pytest.mark.parametrize("change", [larger, wider, double])
def test_trees_that_lie_about_their_size_are_refused(change, tmp_path):
    path = tmp_path / "model.skops"
    path.write_bytes(rewritten(RandomForestClassifier(2).fit(ROWS, LABELS), change))
    with pytest.raises(CaptureError, match="cannot be read as a file of skops"):
        ff.capture(path)


@pytest.mark.parametrize("content", [b"", b"PK", b"nonsense" * 10])
def test_broken_files(content, tmp_path):
    path = tmp_path / "model.skops"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match="skops"):
        ff.capture(path)


def test_bombs_are_not_unpacked(tmp_path):
    path = tmp_path / "model.skops"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", "{}")
        archive.writestr("zeros.npy", bytes(1 << 27))
    with pytest.raises(CaptureError, match="claims 2 members"):
        ff.capture(path)


def test_a_file_cut_short(tmp_path):
    path = tmp_path / "model.skops"
    whole = skops.dumps(GaussianNB().fit(ROWS, LABELS))
    for share in np.linspace(0.1, 0.9, 5):
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(CaptureError):
            ff.capture(path)


@pytest.mark.parametrize("suffix", [".pkl", ".pickle", ".joblib", ".sav"])
def test_pickles_are_never_opened(suffix, tmp_path):

    path = tmp_path / f"model{suffix}"
    path.write_bytes(pickle.dumps(danger))
    with pytest.raises(CaptureError, match="never opens one") as caught:
        ff.capture(path)
    for way in ("ff.audit(model, X, y)", "skl2onnx", "skops.io.dump"):
        assert way in str(caught.value)
    assert "\n" not in str(caught.value)
