"""Models as users name them: files, folders, factories, objects."""

import sys

import numpy as np
import pytest
import torch
from sklearn.neural_network import MLPClassifier
from torch import nn

import farfield as ff
from farfield.audit.models import call_factories, load_model
from farfield.audit.opening import open_both
from farfield.errors import CaptureError, FarfieldError, InputError


def network(inputs=2, classes=3):
    return nn.Sequential(nn.Linear(inputs, 4), nn.ReLU(), nn.Linear(4, classes))


def write_pt2(path, model=None, inputs=2):
    shapes = ({0: torch.export.Dim.AUTO},)
    example = (torch.zeros(2, inputs),)
    torch.export.save(
        torch.export.export(model or network(inputs), example, dynamic_shapes=shapes), path
    )
    return path


def write_onnx(path, inputs=2, classes=3, labels=()):
    onnx = pytest.importorskip("onnx", reason="reading .onnx files needs the onnx package")
    weight = np.random.default_rng(len(path.name)).normal(size=(inputs, classes))
    helper = onnx.helper
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"])]
    if labels:
        nodes.append(
            helper.make_node(
                "ZipMap", ["z"], ["m"], domain="ai.onnx.ml", classlabels_strings=labels
            )
        )
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, ["rows", inputs])],
        [helper.make_tensor_value_info("z", 1, None)],
        [onnx.numpy_helper.from_array(weight.astype(np.float32), "w")],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    return path


@pytest.fixture(scope="module")
def estimator():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(40, 2))
    y = np.where(X[:, 0] > 0, "right", "left")
    return ff.EnsembleClassifier(members=2, hidden=(4,), epochs=1, random_state=0).fit(X, y)


def test_an_onnx_file_brings_its_labels(tmp_path):
    path = write_onnx(tmp_path / "m.onnx", labels=("a", "b", "c"))
    for named in (path, str(path)):
        model = load_model(named)
        assert (model.kind, model.network.labels, model.where) == (
            "onnx",
            ("a", "b", "c"),
            str(path),
        )
        assert model.network.input_shape == (2,)
        assert model.estimator is None


def test_an_example_that_does_not_fit_is_left_to_the_caller(tmp_path):
    path = write_onnx(tmp_path / "m.onnx")
    assert load_model(path, np.zeros((1, 7))).network.input_shape == (2,)


def test_a_pt2_file_is_read(tmp_path):
    model = load_model(write_pt2(tmp_path / "m.pt2"))
    assert (model.kind, model.network.labels, model.network.classes) == ("pt2", None, 3)


@pytest.mark.parametrize("name", ["model.safetensors", "model.farfield", "model"])
def test_a_saved_estimator_is_known_by_its_content(name, estimator, tmp_path):
    estimator.save(tmp_path / name)
    model = load_model(tmp_path / name)
    assert (model.kind, model.network.labels) == ("estimator", ("left", "right"))
    assert model.network.instances == 2
    X = np.random.default_rng(1).normal(size=(5, 2))
    np.testing.assert_allclose(model.estimator.predict_proba(X), estimator.predict_proba(X))
    np.testing.assert_allclose(
        model.network.probabilities(X).mean(0), estimator.predict_proba(X), atol=1e-5
    )


def test_objects_are_captured_with_their_names(estimator):
    X = np.random.default_rng(0).normal(size=(30, 2))
    import pandas as pd

    frame = pd.DataFrame(X, columns=["age", "dose"])
    fitted = MLPClassifier((3,), solver="lbfgs", max_iter=200, random_state=0)
    fitted.fit(frame, np.arange(30) % 2 + 5)
    model = load_model(fitted)
    assert (model.kind, model.network.labels, model.network.features) == (
        "object",
        (5, 6),
        ("age", "dose"),
    )
    assert model.estimator is fitted
    assert load_model(estimator, np.zeros((1, 9))).network.labels == ("left", "right")
    module = load_model(network(), np.zeros((1, 2)))
    assert (module.where, module.estimator) == ("Sequential", None)


def test_a_folder_is_an_ensemble(tmp_path):
    write_onnx(tmp_path / "b.onnx", labels=("a", "b", "c"))
    write_onnx(tmp_path / "aa.onnx")
    write_pt2(tmp_path / "c.pt2")
    (tmp_path / "README.md").write_text("about these")
    (tmp_path / ".hidden.onnx").write_bytes(b"")
    (tmp_path / "sub").mkdir()
    model = load_model(tmp_path)
    assert (model.kind, model.network.instances) == ("ensemble", 3)
    assert model.network.labels == ("a", "b", "c")
    x = np.ones((1, 2))
    expected = [load_model(tmp_path / name).network.logits(x)[0] for name in ("aa.onnx", "b.onnx")]
    np.testing.assert_allclose(model.network.logits(x)[:2], torch.stack(expected))


def test_a_folder_of_one_is_that_model(tmp_path):
    write_onnx(tmp_path / "m.onnx")
    assert load_model(tmp_path).kind == "onnx"


def test_a_list_is_an_ensemble(tmp_path):
    paths = [write_onnx(tmp_path / f"{'m' * i}.onnx") for i in (1, 2)]
    assert load_model(paths).network.instances == 2
    modules = load_model([network(), network()], np.zeros((1, 2)))
    assert (modules.kind, modules.network.instances) == ("ensemble", 2)
    mixed = load_model([paths[0], network()], np.zeros((1, 2)))
    assert mixed.network.instances == 2


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"inputs": 3}, {}, r"takes \(3,\)"),
        ({"classes": 2}, {}, "2 classes"),
        ({"labels": ("a", "b", "c")}, {"labels": ("a", "c", "b")}, "classes a, b, c"),
    ],
)
def test_models_that_do_not_fit_together_are_refused(first, second, message, tmp_path):
    paths = [write_onnx(tmp_path / "a.onnx", **first), write_onnx(tmp_path / "b.onnx", **second)]
    with pytest.raises(InputError, match=message):
        load_model(paths)


def test_nothing_to_load_is_said(tmp_path):
    (tmp_path / "notes.txt").write_text("no model")
    for named, message in (
        (tmp_path, "no model in the folder"),
        (tmp_path / "none.onnx", "there is no model"),
        (tmp_path / "notes.txt", "cannot tell what model"),
        ([], "empty"),
        ("no such thing", "there is no model"),
    ):
        with pytest.raises(FarfieldError, match=message):
            load_model(named)


@pytest.mark.parametrize("suffix", [".onnx", ".pt2", ".safetensors", ".bin", ""])
@pytest.mark.parametrize(
    "data", [b"", b"{}", b"\x02\0\0\0\0\0\0\0{}", b"PK\x05\x06" + b"\0" * 18, b"\xff" * 64]
)
def test_renamed_and_damaged_files_are_refused(suffix, data, tmp_path):
    path = tmp_path / f"model{suffix}"
    path.write_bytes(data)
    with pytest.raises(FarfieldError):
        load_model(path)


@pytest.fixture
def factory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made_here.py").write_text(
        "from torch import nn\n"
        "def model():\n    return nn.Linear(2, 3)\n"
        "def broken():\n    raise OSError('no weights')\n"
        "def path():\n    return 'model.onnx'\n"
        "number = 3\n"
    )
    yield "made_here"
    sys.modules.pop("made_here", None)


def test_a_factory_runs_only_when_asked(factory):
    with pytest.raises(InputError, match="--allow-code"):
        call_factories(f"{factory}:model", allow_code=False)
    assert factory not in sys.modules
    before = list(sys.path)
    model, _, _ = open_both(f"{factory}:model", np.zeros((3, 2)), allow_code=True)
    assert (model.kind, model.where, model.network.classes) == ("factory", f"{factory}:model", 3)
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("made_here:broken", "OSError: no weights"),
        ("made_here:path", "has to return a model"),
        ("made_here:absent", "absent"),
        ("made_here:number", "not callable"),
        ("no_such_module_here:model", "no_such_module_here"),
    ],
)
def test_a_factory_that_fails_is_reported(name, message, factory):
    with pytest.raises(InputError, match=message):
        call_factories(name, allow_code=True)


def test_a_factory_inside_a_list_needs_permission_too(factory, tmp_path):
    path = write_onnx(tmp_path / "m.onnx")
    with pytest.raises(InputError, match="--allow-code"):
        call_factories([path, f"{factory}:model"], allow_code=False)
    made = call_factories([path, f"{factory}:model"], allow_code=True)
    assert load_model(made, np.zeros((1, 2))).network.instances == 2


def test_an_unsupported_model_says_why(tmp_path):
    onnx = pytest.importorskip("onnx", reason="reading .onnx files needs the onnx package")
    path = write_onnx(tmp_path / "m.onnx")
    model = onnx.ModelProto.FromString(path.read_bytes())
    model.graph.node[0].op_type = "Det"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(CaptureError, match="Det"):
        load_model(path)
