"""Envelopes in ONNX: the model's own outputs to the bit, and what the guard says beside them."""

import contextlib

import numpy as np
import pytest

from farfield.errors import InputError
from farfield.guard import guard, make
from farfield.guard.onnx_file import extend
from farfield.guard.onnx_read import read_guarded
from onnx_models import COLUMNS, FILES, as_probabilities, graph_of, network, onnx, run, session

pytestmark = pytest.mark.usefixtures("few_folds")

NAMES = ["inside", "distance", "view", "column", "guarded"]


@pytest.fixture(scope="module", autouse=True)
def _every_view():
    """Guards keep every view, whatever it notices."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make, "choose_views", lambda judge, *_: [*range(judge.scores.shape[1])])
        yield


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, COLUMNS)).astype(np.float32)
    return X, (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int) + (X[:, 2] > 1)


def envelope_of(model, name, X, folder):
    """The plain file, its envelope, and the guard in it."""
    plain, out = folder / "plain.onnx", folder / "safe.onnx"
    plain.write_bytes(model.SerializeToString())
    safe = guard(lambda rows: as_probabilities(name, run(plain, rows)[-1]), X)
    extend(plain, out, safe.covered, safe.columns, safe.certificate, envelope=True)
    return plain, out, safe


@pytest.fixture(scope="module", params=FILES)
def files(request, data, tmp_path_factory):
    name, folder = request.param, tmp_path_factory.mktemp("enveloped")
    return name, *envelope_of(FILES[name](data), name, data[0], folder)


def near_and_far(X):
    rng = np.random.default_rng(4)
    far = rng.normal(size=(300, COLUMNS)) * 10.0 ** rng.uniform(0, 20, (300, 1))
    return np.vstack([X, 1.5 * X, 3 * X, far]).astype(np.float32)


def test_own_outputs_are_untouched(files, data):
    _, plain, out, _ = files
    before, after = session(plain), session(out)
    assert [(i.name, i.type, i.shape) for i in before.get_inputs()] == [
        (i.name, i.type, i.shape) for i in after.get_inputs()
    ]
    own = [(o.name, o.type, o.shape) for o in before.get_outputs()]
    assert [(o.name, o.type, o.shape) for o in after.get_outputs()][: len(own)] == own
    assert [o.name for o in after.get_outputs()][len(own) :] == NAMES
    odd = np.array([[np.nan, 0, 0], [np.inf, 0, 0], [0, -np.inf, 3e38]])
    rows = np.vstack([near_and_far(data[0]), odd])
    for first, second in zip(run(plain, rows), run(out, rows), strict=False):
        assert first.dtype == second.dtype
        assert np.array_equal(first, second, equal_nan=first.dtype.kind == "f")


def test_what_is_said_beside_them(files, data):
    name, plain, out, safe = files
    rows = near_and_far(data[0])
    inside, distance, view, column, guarded = run(out, rows)[-5:]
    look = safe.look(rows)
    sure = np.abs(look.distance) > 1e-9
    assert np.array_equal(inside[sure], look.inside[sure])
    assert np.array_equal(inside, distance <= 0)
    assert np.allclose(distance, look.distance, rtol=1e-9, atol=1e-9)
    assert (view == look.view).mean() > 0.99
    assert (column == look.column).mean() > 0.99
    assert np.array_equal(view == "", inside)
    assert np.array_equal(column == "", inside)
    assert np.abs(guarded - look.guarded).max() <= 2e-6
    own = as_probabilities(name, run(plain, rows)[-1])
    assert np.array_equal(guarded.argmax(axis=1), own.argmax(axis=1))
    assert guarded[distance >= 1].max() <= safe.certificate.largest_probability + 1e-6
    assert (distance >= 1).sum() > 200
    if name in ("forest", "boosted", "logistic", "softmax"):
        assert np.array_equal(guarded[inside], own[inside])


def test_no_confident_class_for_values_that_are_no_numbers(files):
    _, _, out, safe = files
    rows = np.zeros((6, COLUMNS))
    rows[0, 0], rows[1, 1], rows[2, 2] = np.nan, np.inf, -np.inf
    rows[3, 1] = 1e300  # an infinity in single precision
    rows[4], rows[5, 1] = np.nan, 3e38
    inside, distance, view, column, guarded = run(out, rows)[-5:]
    assert not inside.any()
    assert np.isinf(distance[:5]).all()
    assert view.tolist() == ["values"] * 5 + [safe.look(rows[5:].astype(np.float32)).view[0]]
    assert column.tolist()[:5] == [f"column {place}" for place in (0, 1, 2, 1, 0)]
    assert np.abs(guarded - 1 / guarded.shape[1]).max() <= 1e-5


def test_an_empty_batch(files):
    _, _, out, _ = files
    assert all(len(each) == 0 for each in run(out, np.zeros((0, COLUMNS))))


def test_reading_back_proves_it(files):
    _, plain, out, safe = files
    found = read_guarded(out)
    assert found.verify()
    assert found.certificate == safe.certificate
    assert found.inside.graph.SerializeToString() == onnx.load(str(plain)).graph.SerializeToString()


@pytest.fixture(scope="module")
def envelope_file(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tampered")
    model = network(3, ("Softmax", {"axis": 1}), outputs=["z", "softmax"])
    return envelope_of(model, "softmax", data[0], folder)[1]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.graph.node.pop(-1),
        lambda m: setattr(m.graph.node[-1], "op_type", "Identity"),
        lambda m: m.graph.output.pop(-2),
        lambda m: m.graph.output[-1].CopyFrom(
            onnx.helper.make_tensor_value_info("softmax", 1, [None, 3])
        ),
        lambda m: m.graph.output[2].type.CopyFrom(m.graph.output[3].type),
        lambda m: m.graph.input.append(
            onnx.helper.make_tensor_value_info("farfield/covered.unit", 11, [])
        ),
        lambda m: m.graph.node.add(op_type="Identity", input=["z"], output=["inside"], name="me"),
        lambda m: setattr(
            m.metadata_props[1],
            "value",
            m.metadata_props[1].value.replace('"scores":"softmax"', '"scores":"z"'),
        ),
    ],
)
def test_an_envelope_that_was_changed(envelope_file, tmp_path, change):
    model = onnx.load(str(envelope_file))
    change(model)
    path = tmp_path / "changed.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError):
        read_guarded(path)


def test_every_number_that_is_tampered_with_is_noticed(envelope_file, tmp_path):
    plain = onnx.load(str(envelope_file))
    names = [each.name for each in plain.graph.initializer if each.name.startswith("farfield/")]
    assert {"farfield/names.view", "farfield/names.column"} < set(names)
    for name in names:
        model = onnx.load(str(envelope_file))
        (tensor,) = [each for each in model.graph.initializer if each.name == name]
        values = onnx.numpy_helper.to_array(tensor)
        changed = values[::-1].copy() if values.dtype.kind == "O" else values * 2 + 1
        if np.array_equal(changed, values, equal_nan=values.dtype.kind == "f"):
            continue  # NaN and infinity
        tensor.CopyFrom(onnx.numpy_helper.from_array(changed.astype(values.dtype), name))
        path = tmp_path / "tampered.onnx"
        path.write_bytes(model.SerializeToString())
        with contextlib.suppress(InputError):
            assert not read_guarded(path).verify(), name


def test_names_that_the_file_uses_itself(data, tmp_path):
    node = onnx.helper.make_node
    weights = {"distance": np.ones((COLUMNS, 2), dtype=np.float32)}
    model = graph_of([node("MatMul", ["in", "distance"], ["z"])], ["z"], weights)
    _, out, _ = envelope_of(model, "logits", data[0], tmp_path)
    assert [o.name for o in session(out).get_outputs()][1:] == [f"farfield_{n}" for n in NAMES]


def test_half_precision(data, tmp_path):
    """Guarded probabilities of a float16 model are float32; its own outputs stay."""
    node, helper = onnx.helper.make_node, onnx.helper
    weights = {"w": np.random.default_rng(1).normal(size=(COLUMNS, 2)).astype(np.float16)}
    nodes = [node("MatMul", ["in", "w"], ["z"]), node("Softmax", ["z"], ["p"], axis=1)]
    model = graph_of(nodes, ["p"], weights)
    model.graph.input[0].type.tensor_type.elem_type = 10
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("p", 10, [None, None]))
    plain, out, safe = envelope_of(model, "half", data[0], tmp_path)
    rows = np.vstack([data[0], 1e3 * data[0], np.full((2, COLUMNS), 1e5), [[np.nan, 0, 0]]])
    before, after = run(plain, rows)[0], run(out, rows)
    assert before.dtype == after[0].dtype == np.float16
    assert np.array_equal(before, after[0], equal_nan=True)
    guarded, inside = after[-1], after[1]
    assert guarded.dtype == np.float32
    assert not inside[-3:].any()
    assert np.abs(guarded[-3:] - 0.5).max() <= 1e-5
    assert guarded[after[2] >= 1].max() <= safe.certificate.largest_probability + 1e-6
    with pytest.raises(InputError, match="float16"):
        extend(plain, tmp_path / "no.onnx", safe.covered, safe.columns, safe.certificate)


def test_categories_and_wide_inputs(tmp_path, table):
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(300, 80)) @ rng.normal(size=(80, 80))
    for rows, blocks in ((table, [(3, 4, 5, 6), 7]), (table, [7, (5, 3, 6, 4)]), (wide, None)):
        weights = {"w": rng.normal(size=(rows.shape[1], 3)).astype(np.float32)}
        model = graph_of([onnx.helper.make_node("MatMul", ["in", "w"], ["z"])], ["z"], weights)
        model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = rows.shape[1]
        plain, out = tmp_path / "plain.onnx", tmp_path / "safe.onnx"
        plain.write_bytes(model.SerializeToString())
        safe = guard(
            lambda X: as_probabilities("logits", run(plain, X)[-1]),  # noqa: B023
            rows,
            categorical=blocks,
        )
        extend(plain, out, safe.covered, safe.columns, safe.certificate, envelope=True)
        assert read_guarded(out).verify()
        mixed = rows.copy()
        mixed[:, 3:] = rng.permuted(mixed[:, 3:], axis=0)
        x = np.vstack([rows, mixed, rows * 1.5, rows * 30, rows + 1]).astype(np.float32)
        inside, distance, view, column, _ = run(out, x)[-5:]
        look = safe.look(x)
        assert np.allclose(distance, look.distance, rtol=1e-7, atol=1e-7)
        sure = np.abs(look.distance) > 1e-7
        assert np.array_equal(inside[sure], look.inside[sure])
        assert (view == look.view).mean() > 0.99
        assert (column == look.column).mean() > 0.99
