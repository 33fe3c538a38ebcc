"""Files that look codes of categories up in a table."""

import numpy as np
import pytest

import farfield as ff

onnx = pytest.importorskip("onnx", reason="reading .onnx files needs the onnx package")
make_node = onnx.helper.make_node
RNG = np.random.default_rng(5)


def f(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def i(*values):
    return np.array(values, dtype=np.int64)


WEIGHTS = {"table": f(4, 2), "w": f(4, 3), "zero": i(0), "one": i(1), "end": i(9), "axis": i(1)}
NODES = [
    make_node("Slice", ["x", "zero", "one", "axis"], ["column"]),
    make_node("Cast", ["column"], ["code"], to=7),
    make_node("Squeeze", ["code", "axis"], ["codes"]),
    make_node("Gather", ["table", "codes"], ["embedded"]),
    make_node("Slice", ["x", "one", "end", "axis"], ["numbers"]),
    make_node("Concat", ["embedded", "numbers"], ["all"], axis=1),
    make_node("MatMul", ["all", "w"], ["y"]),
]


def test_codes_are_looked_up_and_known_as_categories(save):
    network = ff.capture(save(NODES, (3,), WEIGHTS))
    assert [column.categories for column in network.columns] == [(0, 1, 2, 3), None, None]
    rows = np.column_stack([np.arange(4.0), RNG.normal(size=(4, 2))])
    expected = np.concatenate([WEIGHTS["table"], rows[:, 1:]], 1) @ WEIGHTS["w"]
    np.testing.assert_allclose(network.logits(rows)[0], expected, atol=1e-6)


def test_codes_are_at_rest_on_every_ray(save):
    network = ff.capture(save(NODES, (3,), WEIGHTS))
    rows = np.array([[2.0, 0.5, -1.0]])
    far = ff.at_infinity(network, rows, np.array([[0.0, 1.0, 2.0]]))
    np.testing.assert_allclose(far.slope[0, 0], np.array([1.0, 2.0]) @ WEIGHTS["w"][2:], atol=1e-6)
    np.testing.assert_allclose(far.intercept[0], network.logits(rows)[0], atol=1e-6)
