"""Files of boosted trees: told apart by what is in them; hostile ones are refused in one line."""

import os
import pickle
import random

import numpy as np
import pytest
import xgboost

import farfield as ff
from farfield.errors import CaptureError, FarfieldError, InputError
from farfield.formats import tell
from farfield.graph.trees.boosters import is_booster, read_booster_file
from fuzz.booster_files import (
    catboost_json,
    frame,
    lightgbm_text,
    xgboost_binary,
    xgboost_json,
    xgboost_models,
)

WHOLE = {
    "xgboost json": xgboost_json,
    "xgboost ubj": xgboost_binary,
    "lightgbm": lightgbm_text,
    "catboost": catboost_json,
}


@pytest.mark.parametrize("kind", WHOLE)
def test_files_are_told_by_their_content(tmp_path, kind):
    for data in WHOLE[kind]():
        path = tmp_path / "model.bin"
        path.write_bytes(data)
        assert tell(path).name == kind
        assert read_booster_file(path).program.output_shape[0] in (1, 3)


@pytest.mark.parametrize("kind", WHOLE)
def test_files_that_are_cut_short(tmp_path, kind):
    data = WHOLE[kind]()[0]
    path = tmp_path / "model"
    end = data.index(b"end of trees") if kind == "lightgbm" else len(data)
    for size in [*random.Random(0).sample(range(end), 60), 0, 1, 2, end - 1]:
        path.write_bytes(data[:size])
        with pytest.raises(FarfieldError) as caught:
            ff.capture(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"CBM1\x00\x00", "format='json'"),
        (b"binf\x00", "before 1.0"),
        (b"booster[0]:\n0:[f0<1]", "a dump of XGBoost"),
        (b'{"name":"tree","version":"v4"}', "a dump of LightGBM"),
        (b'{"learner":' * 20_000, "no JSON, or it is cut short"),
        (b'{"learner":' + b"[" * 10**5, "no JSON, or it is cut short"),
        (b'{"learner": 1' + b"0" * 10_000 + b"}", "no JSON, or it is cut short"),
        (b'{"learner": "\xff"}', "no JSON, or it is cut short"),
        (b"{L\x7f\xff\xff\xff\xff\xff\xff\xff", "no UBJSON, or it is cut short"),
        (b"{i\x01a" * 10**5, "levels deep"),
        (b'{"features_info": {}}', "no field"),
        (b"tree\nversion=v4\n", "cut short"),
        (b"tree\nversion=v4\n\nend of trees\n", "no field|gives no prob"),
    ],
)
def test_what_cannot_be_read(tmp_path, data, message):
    path = tmp_path / "model"
    path.write_bytes(data)
    assert tell(path).kind == "trees"
    with pytest.raises(CaptureError, match=message) as caught:
        ff.capture(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_other_files_are_left_to_others(tmp_path):
    path = tmp_path / "model"
    for data in (b"", b"{}", b"[]", b"tree", b'{"a": 1}', pickle.dumps({"a": 1}), b"a,b\n1,2\n"):
        path.write_bytes(data)
        found = tell(path)
        assert found is None or found.name == "pickle"
        with pytest.raises(CaptureError, match=r"text of LightGBM|pickle"):
            read_booster_file(path)
    assert tell(tmp_path) is None
    assert tell(tmp_path / "nothing") is None
    os.mkfifo(tmp_path / "pipe")
    assert tell(tmp_path / "pipe") is None
    with pytest.raises(InputError, match="FIFO"):
        read_booster_file(tmp_path / "pipe")


def test_a_file_that_is_too_large(tmp_path):
    path = tmp_path / "model.json"
    with path.open("wb") as file:
        file.write(b'{"learner": {}}')
        file.truncate(2**31 + 1)
    with pytest.raises(CaptureError, match="farfield reads models of up to"):
        ff.capture(path)


def test_sets_of_categories_that_would_fill_the_memory(tmp_path):
    text = lightgbm_text()[0].decode()
    line = next(line for line in text.splitlines() if line.startswith("decision_type="))
    nodes = len(line.split(" "))
    words = 200_000
    tree = {
        "num_cat": "1",
        "decision_type": " ".join(["1"] * nodes),
        "threshold": " ".join(["0"] * nodes),
        "cat_boundaries": f"0 {words}",
        "cat_threshold": " ".join(["1431655765"] * words),
    }
    lines = [
        f"{key}={tree[key]}" if (key := each.partition("=")[0]) in tree else each
        for each in text.splitlines()
    ]
    place = lines.index("Tree=0")
    lines[place + 1 : place + 1] = [f"{key}={value}" for key, value in tree.items()]
    path = tmp_path / "model.txt"
    path.write_text("\n".join(lines))
    with pytest.raises(CaptureError, match="are left of what a file of its size may ask for"):
        read_booster_file(path)


def test_models_in_memory_are_known_by_their_library():
    held, _ = frame()
    model = xgboost.XGBClassifier(n_estimators=1)
    assert is_booster(model)
    assert is_booster(next(iter(xgboost_models())).get_booster())
    assert not is_booster(held)
    assert not is_booster(np)


def test_a_folder_of_files_is_an_ensemble(tmp_path):
    data = xgboost_json()[1]
    (tmp_path / "a.json").write_bytes(data)
    (tmp_path / "b.ubj").write_bytes(xgboost_binary()[1])
    networks = [ff.capture(tmp_path / name) for name in ("a.json", "b.ubj")]
    joined = ff.capture(networks)
    rows = np.array([[0.0, 0.0, "u"], [1.0, 0.0, "w"]], dtype=object)
    assert np.allclose(joined.probabilities(rows)[0], networks[0].probabilities(rows)[0])
    assert joined.instances == 2
