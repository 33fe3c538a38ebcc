"""Small ONNX graphs, and onnxruntime as the judge of what they mean."""

import numpy as np
import pytest
import torch

import farfield as ff

onnx = pytest.importorskip("onnx", reason="reading .onnx files needs the onnx package")
HEADS = {"softmax": "softmax", "sigmoid": "softmax", "log-softmax": "log_softmax"}


def build(nodes, shape, weights=None, *, opset=20, rows="rows", output="y", dtype=np.float32):
    """Make a model of one input ``x`` and one output."""
    helper = onnx.helper
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ml = helper.make_opsetid("ai.onnx.ml", 3)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, [rows, *shape])],
        [helper.make_tensor_value_info(output, kind, None)],
        [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), ml]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.fixture
def save(tmp_path):
    """Write a model of nodes to a file."""

    def write(nodes, shape, weights=None, name="model.onnx", **options):
        path = tmp_path / name
        path.write_bytes(build(nodes, shape, weights, **options).SerializeToString())
        return path

    return write


def runtime_scores(path, rows):
    """What onnxruntime gives: the last output, probabilities as an array."""
    runtime = pytest.importorskip("onnxruntime", reason="the judge of these tests")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    inputs, feed, column = session.get_inputs(), {}, 0
    for item in inputs:
        width = rows.shape[1] if len(inputs) == 1 else item.shape[1]
        kind = {"tensor(double)": np.float64, "tensor(float16)": np.float16}.get(item.type)
        feed[item.name] = rows[:, column : column + width].astype(kind or np.float32)
        column += width
    result = session.run(None, feed)[-1]
    if isinstance(result, list):
        result = np.array([list(row.values()) for row in result])
    return np.asarray(result, dtype=np.float64)


@pytest.fixture
def agrees():
    """Check that a file is read as onnxruntime reads it, and can be followed to infinity."""

    def compare(path, example=None, tolerance=1e-5, rows=5, shape=None):
        network = ff.capture(path, example)
        generator = np.random.default_rng(0)
        x = generator.normal(size=(rows, *network.input_shape)) * 2
        x = x.astype(np.float16).astype(np.float64)
        expected = runtime_scores(path, x)
        got = network.logits(x)[0]
        if network.head != "none":
            got = getattr(torch, HEADS[network.head])(got, dim=-1)
        got = got.numpy()
        if expected.shape != got.shape:
            expected = expected.reshape(rows, -1)
            got = got[:, -expected.shape[1] :]
        error = np.abs(got - expected) / (1 + np.abs(expected))
        assert error.max() <= tolerance, (error.max(), got, expected)
        assert np.ptp(expected) > 0, "a constant output would agree with anything"
        direction = generator.normal(size=(2, *network.input_shape))
        far = ff.at_infinity(network, np.zeros((1, *network.input_shape)), direction)
        assert torch.isfinite(far.slope).all()
        return network

    return compare
