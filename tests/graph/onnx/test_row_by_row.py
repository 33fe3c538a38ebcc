"""Files that move the rows of a batch about, against onnxruntime's numbers."""

import numpy as np
import pytest

import farfield as ff
from farfield.errors import CaptureError

onnx = pytest.importorskip("onnx", reason="reading .onnx files needs the onnx package")
make_node = onnx.helper.make_node
RNG = np.random.default_rng(3)


def f(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def test_rows_may_stand_last(save, agrees):
    nodes = [
        make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        make_node("MatMul", ["w", "t"], ["h"]),
        make_node("Relu", ["h"], ["r"]),
        make_node("Transpose", ["r"], ["y"], perm=[1, 0]),
    ]
    assert agrees(save(nodes, (4,), {"w": f(3, 4)})).groups[0].program.per_row


def test_time_may_be_folded_into_the_batch(save, agrees):
    weights = {"w": f(3, 5), "a": np.array([-1, 3]), "b": np.array([-1, 4, 5]), "c": f(5)}
    nodes = [
        make_node("Reshape", ["x", "a"], ["flat"]),
        make_node("MatMul", ["flat", "w"], ["h"]),
        make_node("Reshape", ["h", "b"], ["time"]),
        make_node("LayerNormalization", ["time", "c"], ["n"]),
        make_node("Flatten", ["n"], ["y"]),
    ]
    agrees(save(nodes, (4, 3), weights))


def test_attention_may_put_its_heads_first(save, agrees):
    weights = {
        "w": f(6, 18),
        "a": np.array([0, 4, 3, 2, 3]),
        "b": np.array([0, 4, 6]),
        "o": f(6, 2),
    }
    weights |= {f"{place}": np.array(place) for place in range(3)}
    nodes = [
        make_node("MatMul", ["x", "w"], ["qkv"]),
        make_node("Reshape", ["qkv", "a"], ["parts"]),
        make_node("Transpose", ["parts"], ["heads"], perm=[2, 0, 3, 1, 4]),
        *[make_node("Gather", ["heads", f"{n}"], [name], axis=0) for n, name in enumerate("qkv")],
        make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        make_node("MatMul", ["q", "kt"], ["scores"]),
        make_node("Softmax", ["scores"], ["shares"], axis=-1),
        make_node("MatMul", ["shares", "v"], ["mixed"]),
        make_node("Transpose", ["mixed"], ["back"], perm=[0, 2, 1, 3]),
        make_node("Reshape", ["back", "b"], ["joined"]),
        make_node("MatMul", ["joined", "o"], ["out"]),
        make_node("Flatten", ["out"], ["y"]),
    ]
    agrees(save(nodes, (4, 6), weights))


def test_rows_that_influence_one_another_are_refused(save):
    nodes = [
        make_node("ReduceMean", ["x", "rows"], ["mean"], keepdims=1),
        make_node("Sub", ["x", "mean"], ["y"]),
    ]
    with pytest.raises(CaptureError, match="rows of a batch influence one another"):
        ff.capture(save(nodes, (4,), {"rows": np.array([0])}))
