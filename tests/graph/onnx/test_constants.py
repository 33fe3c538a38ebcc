"""What depends on weights alone is computed once, whatever it is; onnxruntime is the judge."""

import numpy as np
import pytest

import farfield as ff
from farfield.errors import CaptureError, UnsupportedOperation

onnx = pytest.importorskip("onnx", reason="reading .onnx files needs the onnx package")
make_node = onnx.helper.make_node
RNG = np.random.default_rng(0)
W = RNG.normal(size=(4, 3)).astype(np.float32)


def i(*numbers):
    return np.array(numbers, dtype=np.int64)


# operator -> (inputs, attributes, further weights); its first output has the shape of W or fits it.
CASES = {
    "ReduceL2": (["w", "a"], {}, {"a": i(0)}),
    "ReduceProd": (["w", "a"], {}, {"a": i(1)}),
    "ReduceLogSumExp": (["w", "a"], {}, {"a": i(0)}),
    "ReduceSumSquare": (["w", "a"], {"keepdims": 1}, {"a": i(0)}),
    "ScatterND": (["w", "a", "u"], {}, {"a": i([0], [2]), "u": W[:2] * 0 + 7}),
    "ScatterElements": (["w", "a", "u"], {}, {"a": i([0, 1, 2]), "u": W[:1] * 0 + 7}),
    "GatherElements": (["w", "a"], {}, {"a": np.tile(i([3], [0], [1], [2]), (1, 3))}),
    "GatherND": (["w", "a"], {}, {"a": i([3], [0], [1], [2])}),
    "CumSum": (["w", "a"], {}, {"a": np.array(1)}),
    "Trilu": (["w"], {"upper": 0}, {}),
    "Sign": (["w"], {}, {}),
    "Round": (["w"], {}, {}),
    "Sin": (["w"], {}, {}),
    "Shrink": (["w"], {"lambd": 0.3}, {}),
    "Hardmax": (["w"], {}, {}),
    "LpNormalization": (["w"], {"axis": 1, "p": 2}, {}),
    "LayerNormalization": (["w", "a"], {}, {"a": W[0]}),
    "ThresholdedRelu": (["w"], {"alpha": 0.2}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_constants_are_computed_whatever_makes_them(name, save, agrees):
    inputs, attributes, weights = CASES[name]
    nodes = [
        make_node(name, inputs, ["c"], **attributes),
        make_node("Mul", ["w", "c"], ["m"]),
        make_node("MatMul", ["x", "m"], ["y"]),
    ]
    agrees(save(nodes, (4,), {"w": W, **weights}))


def test_the_same_operators_on_data_are_refused_by_name(save):
    nodes = [
        make_node("Sin", ["x"], ["s"]),
        make_node("CumProd", ["x", "a"], ["n"]),
        make_node("Add", ["s", "n"], ["y"]),
    ]
    with pytest.raises(UnsupportedOperation, match=r"(?s)onnx\.Sin.*onnx\.CumProd"):
        ff.capture(save(nodes, (4,), {"a": i(1)}))


def test_what_the_standard_does_not_allow_is_a_refusal(save):
    nodes = [make_node("Det", ["w"], ["d"]), make_node("Mul", ["x", "d"], ["y"])]
    with pytest.raises(UnsupportedOperation, match=r"onnx\.Det .*cannot be computed"):
        ff.capture(save(nodes, (4,), {"w": W}))


@pytest.mark.parametrize(
    "node",
    [
        make_node("RandomNormal", [], ["c"], shape=[4]),
        make_node("OneHot", ["i", "n", "v"], ["c"]),
        make_node("NoSuch", ["w"], ["c"]),
    ],
    ids=["random", "unbounded", "unknown"],
)
def test_random_unbounded_and_unknown_operators_are_not_run(node, save):
    weights = {"w": W, "i": i(0), "n": i(4), "v": np.array([0, 1], np.float32)}
    nodes = [node, make_node("Mul", ["x", "c"], ["y"])]
    with pytest.raises(UnsupportedOperation, match=node.op_type):
        ff.capture(save(nodes, (4,), weights))


def test_pairs_of_constants_are_counted_before_they_are_made(save):
    nodes = [
        make_node("Greater", ["a", "zero"], ["p"]),
        make_node("Reshape", ["p", "across"], ["q"]),
        make_node("Xor", ["p", "q"], ["c"]),
        make_node("Cast", ["c"], ["f"], to=1),
        make_node("ReduceSum", ["f"], ["s"], keepdims=0),
        make_node("Mul", ["x", "s"], ["y"]),
    ]
    weights = {"a": np.zeros((2**15, 1), np.float32), "zero": np.float32(0), "across": i(1, -1)}
    with pytest.raises(CaptureError, match="may ask for"):
        ff.capture(save(nodes, (4,), weights))
