"""ONNX files are extended: same interface, same bits inside, nothing far away, and read back."""

import contextlib

import numpy as np
import pytest
import torch
from torch import nn

from farfield.errors import InputError
from farfield.guard import guard
from farfield.guard.files import open_guard
from farfield.guard.onnx_file import extend
from farfield.guard.onnx_read import is_guarded, read_guarded
from onnx_models import COLUMNS, FILES, as_probabilities, graph_of, network, onnx, run, session

pytestmark = pytest.mark.usefixtures("few_folds")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, COLUMNS)).astype(np.float32)
    return X, (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int) + (X[:, 2] > 1)


@pytest.fixture(scope="module", params=FILES)
def files(request, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    plain, out = folder / "plain.onnx", folder / "safe.onnx"
    plain.write_bytes(FILES[request.param](data).SerializeToString())

    def predict(X):
        return as_probabilities(request.param, run(plain, X)[-1])

    safe = guard(predict, data[0])
    extend(plain, out, safe.covered, safe.columns, safe.certificate)
    return request.param, plain, out, safe


def test_the_interface_and_the_bits_stay(files, data):
    _, plain, out, safe = files
    for which in ("get_inputs", "get_outputs"):
        before, after = (getattr(session(path), which)() for path in (plain, out))
        assert [(i.name, i.type) for i in before] == [(i.name, i.type) for i in after]
    rows = data[0][safe.is_inside(data[0])]
    for before, after in zip(run(plain, rows), run(out, rows), strict=True):
        assert np.array_equal(before, after)
    assert out.stat().st_size - plain.stat().st_size < 100_000


def test_nothing_is_left_far_away_and_classes_stay(files, data):
    name, plain, out, safe = files
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(500, COLUMNS)) * 10.0 ** rng.uniform(0, 20, (500, 1))
    rows = rows.astype(np.float32)
    before, after = run(plain, rows), run(out, rows)
    p = as_probabilities(name, after[-1].astype(np.float64))
    far = safe.distance(rows) >= 1.0
    assert far.sum() > 300
    allowed = safe.certificate.largest_probability + 1e-6
    assert p[far].max() <= allowed
    assert np.abs(p - safe.predict_proba(rows)).max() <= 2e-6
    if len(before) > 1:
        assert np.array_equal(before[0], after[0]) or name == "both"
    own = as_probabilities(name, before[-1])
    assert (own.argmax(axis=1) == p.argmax(axis=1)).all()


def test_values_that_are_no_numbers(files):
    name, _, out, _ = files
    if name in ("forest", "boosted"):
        pytest.skip("trees of onnxruntime answer to anything; the guard does not depend on it")
    rows = np.array([[np.nan, 0, 0], [np.inf, 0, 0], [-np.inf, 0, 0]], dtype=np.float32)
    p = as_probabilities(name, run(out, rows)[-1].astype(np.float64))
    assert p.max() <= 1 / p.shape[1] + 1e-5


def test_reading_back_proves_it(files):
    _, plain, out, safe = files
    assert is_guarded(out)
    assert not is_guarded(plain)
    found = read_guarded(out)
    assert found.verify()
    assert found.certificate == safe.certificate
    assert found.columns == safe.columns
    inside, own = found.inside, onnx.load(str(plain))
    assert [n.SerializeToString() for n in inside.graph.node] == [
        n.SerializeToString() for n in own.graph.node
    ]
    certificate, proof = open_guard(out)
    assert proof
    assert certificate == safe.certificate
    with pytest.raises(InputError, match="no certificate"):
        read_guarded(plain)


@pytest.fixture(scope="module")
def guarded_file(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tampered")
    plain, out = folder / "plain.onnx", folder / "safe.onnx"
    plain.write_bytes(network(3, ("Softmax", {"axis": 1}), outputs=["softmax"]).SerializeToString())
    safe = guard(lambda X: run(plain, X)[0], data[0])
    extend(plain, out, safe.covered, safe.columns, safe.certificate)
    return out


def numbers(model):
    return [each for each in model.graph.initializer if each.name.startswith("farfield/")]


def test_every_number_that_is_tampered_with_is_noticed(guarded_file, tmp_path):
    """Any change of any number of the guard is refused."""
    count = len(numbers(onnx.load(str(guarded_file))))
    assert count > 20
    for index in range(count):
        model = onnx.load(str(guarded_file))
        tensor = numbers(model)[index]
        values = onnx.numpy_helper.to_array(tensor)
        changed = (values * 1e30 if values.dtype.kind == "f" else values + 1).astype(values.dtype)
        if np.array_equal(changed, values, equal_nan=values.dtype.kind == "f"):
            continue
        tensor.CopyFrom(onnx.numpy_helper.from_array(changed, tensor.name))
        path = tmp_path / "tampered.onnx"
        onnx.save(model, str(path))
        with contextlib.suppress(InputError):
            assert not read_guarded(path).verify(), tensor.name


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.graph.node.pop(5),
        lambda m: setattr(m.graph.node[-1], "op_type", "Identity"),
        lambda m: m.graph.node[-1].input.__setitem__(1, "farfield/own"),
        lambda m: m.graph.output[0].CopyFrom(
            onnx.helper.make_tensor_value_info("farfield/own", 1, [None, 3])
        ),
        lambda m: m.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("z", 1, [None, 3])),
        lambda m: m.graph.node.add(
            op_type="Identity", input=["farfield/own"], output=["other"], name="aside"
        ),
        lambda m: m.metadata_props.__delitem__(slice(None)),
        lambda m: setattr(m.metadata_props[0], "value", "{}"),
        lambda m: setattr(m.metadata_props[1], "value", "{}"),
    ],
)
def test_a_graph_that_goes_around_the_guard(guarded_file, tmp_path, change):
    model = onnx.load(str(guarded_file))
    change(model)
    path = tmp_path / "changed.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError):
        read_guarded(path)


def test_files_that_cannot_be_extended(data, tmp_path):
    safe = guard(lambda X: np.full((len(X), 2), 0.5), data[0])
    plain = tmp_path / "plain.onnx"
    plain.write_bytes(network(3, outputs=["z"]).SerializeToString())
    with pytest.raises(InputError, match="2 classes"):
        extend(plain, tmp_path / "safe.onnx", safe.covered, safe.columns, safe.certificate)
    plain.write_bytes(network(2, outputs=["z"], opset=8).SerializeToString())
    with pytest.raises(InputError, match="operator set 8"):
        extend(plain, tmp_path / "safe.onnx", safe.covered, safe.columns, safe.certificate)
    assert not (tmp_path / "safe.onnx").exists()


def test_categories_and_wide_inputs(tmp_path, table):
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(300, 80)) @ rng.normal(size=(80, 80))
    for rows, blocks in ((table, [(3, 4, 5, 6), 7]), (wide, None)):
        weights = {"w": rng.normal(size=(rows.shape[1], 3)).astype(np.float32)}
        model = graph_of([onnx.helper.make_node("MatMul", ["in", "w"], ["z"])], ["z"], weights)
        shape = model.graph.input[0].type.tensor_type.shape.dim[1]
        shape.dim_value = rows.shape[1]
        plain, out = tmp_path / "plain.onnx", tmp_path / "safe.onnx"
        plain.write_bytes(model.SerializeToString())
        net = nn.Linear(rows.shape[1], 3, bias=False)
        net.weight.data = torch.from_numpy(weights["w"].T.copy())
        safe = guard(net, rows, categorical=blocks)
        extend(plain, out, safe.covered, safe.columns, safe.certificate)
        x = torch.from_numpy(np.vstack([rows, rows * 1.5, rows * 30])).float()
        assert float((torch.from_numpy(run(out, x)[0]) - safe(x)).detach().abs().max()) <= 1e-4
        assert read_guarded(out).verify()
