"""Files of boosted trees behind a guard, as ONNX."""

import numpy as np
import pytest

from farfield.errors import InputError
from farfield.graph.models import capture
from farfield.graph.trees.boosters import read_booster_file
from farfield.graph.trees.ensemble import TreeBuilder
from farfield.guard import envelope, guard
from farfield.guard.onnx_file import extend
from farfield.guard.onnx_read import read_guarded
from farfield.guard.onnx_trees import as_onnx, holds_trees, onnx_of

pytestmark = pytest.mark.usefixtures("few_folds")

pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")


def _rows(count=400):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(count, 3)).astype(np.float32).astype(np.float64)
    return rows, np.digitize(rows[:, 0] + rows[:, 1] ** 2, [0.0, 1.0])


def _xgboost(folder, classes):
    xgboost = pytest.importorskip("xgboost")
    rows, labels = _rows()
    rows = np.where(np.random.default_rng(1).random(rows.shape) < 0.1, np.nan, rows)
    model = xgboost.XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1)
    model.fit(rows, np.minimum(labels, classes - 1))
    path = folder / "model.json"
    model.save_model(path)
    return path, model.predict_proba


def _lightgbm(folder):
    lightgbm = pytest.importorskip("lightgbm")
    rows, labels = _rows()
    model = lightgbm.LGBMClassifier(n_estimators=6, n_jobs=1, verbose=-1)
    model.fit(rows, labels)
    path = folder / "model.txt"
    model.booster_.save_model(path)
    return path, model.predict_proba


def _run(path, rows):
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: rows})


MAKERS = {
    "two": lambda folder: _xgboost(folder, 2),
    "three": lambda folder: _xgboost(folder, 3),
    "text": _lightgbm,
}


@pytest.mark.parametrize("which", MAKERS)
def test_trees_are_guarded_in_a_file_that_others_run(which, tmp_path):
    path, own = MAKERS[which](tmp_path)
    rows, _ = _rows()
    safe = guard(capture(path), rows)
    out = tmp_path / "safe.onnx"
    extend(path, out, safe.covered, safe.columns, safe.certificate)
    (found,) = _run(out, rows)
    inside = safe.is_inside(rows)
    assert inside.mean() > 0.95
    np.testing.assert_allclose(found[inside], own(rows)[inside], atol=1e-6)
    (far,) = _run(out, 1e6 * rows)
    assert far.max() <= 1 / far.shape[1] + 0.01
    assert (far.argmax(axis=1) == own(1e6 * rows).argmax(axis=1)).all()
    assert read_guarded(out).verify()


def test_a_file_of_trees_is_guarded_by_its_path(tmp_path):
    path, own = MAKERS["three"](tmp_path)
    rows = _rows()[0]
    safe = guard(path, rows)
    assert np.allclose(safe.own_proba(rows), own(rows), atol=1e-6)
    assert safe.predict_proba(1e6 * rows).max() <= 1 / 3 + 0.01
    with as_onnx(path) as file:
        assert np.array_equal(guard(str(file), rows).is_inside(rows), safe.is_inside(rows))


def test_an_envelope_of_trees_has_their_own_answers(tmp_path):
    path, own = _xgboost(tmp_path, 2)
    rows, _ = _rows()
    beside = envelope(capture(path), rows)
    out = tmp_path / "beside.onnx"
    beside.to_onnx(out, source=path)
    found, inside, *_ = _run(out, np.concatenate([rows, 1e6 * rows]))
    np.testing.assert_allclose(found, own(np.concatenate([rows, 1e6 * rows])), atol=1e-6)
    assert (inside[: len(rows)] == beside.is_inside(rows)).all()
    assert not inside[len(rows) :].any()


def test_what_onnx_cannot_say_is_refused():
    builder = TreeBuilder(2, [0.0])
    common = {"feature": [0, -1, -1], "left": [1, 0, 0], "right": [2, 0, 0]}
    values = [0.0, 1.0, -1.0]
    builder.add(**common, threshold=[0.0] * 3, values=values, sets=[frozenset({1}), None, None])
    builder.add(**common, threshold=[0.0] * 3, values=values, zero_missing=True)
    with pytest.raises(InputError, match="sets of categories and zeros that count as missing"):
        onnx_of(builder.build(), "model.txt")


def test_other_files_stay_as_they_are(tmp_path):
    other = tmp_path / "model.onnx"
    other.write_bytes(b"")
    assert not holds_trees(other)
    assert not holds_trees(tmp_path / "nothing.json")
    with as_onnx(other) as same:
        assert same is other


def test_a_file_that_says_something_else_never_appears(tmp_path, monkeypatch):
    path, _ = _xgboost(tmp_path, 2)
    trees = read_booster_file(path).trees
    trees.threshold[trees.feature >= 0] += 1e-9
    wrong = onnx_of(trees, "model.json")
    monkeypatch.setattr("farfield.guard.onnx_trees.onnx_of", lambda *_: wrong)
    with pytest.raises(InputError, match="says other things as ONNX"), as_onnx(path):
        pass
