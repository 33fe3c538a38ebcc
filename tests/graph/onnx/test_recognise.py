"""Activations that are written out in parts are recognised; near misses are not."""

import numpy as np
import pytest
import torch

import farfield as ff
from farfield.errors import UnsupportedOperation

onnx = pytest.importorskip("onnx", reason="reading .onnx files needs the onnx package")


def graph(text):
    """Nodes from lines such as ``b = Mul a half``."""
    nodes = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, call = line.partition(" = ")
        operator, *inputs = call.split()
        nodes.append(onnx.helper.make_node(operator, inputs, [name]))
    return nodes


NUMBERS = {
    name: np.float32(value)
    for name, value in {
        "half": 0.5,
        "one": 1,
        "three": 3,
        "root2": 2**0.5,
        "inverse": 0.5**0.5,
        "cubic": 0.044715,
        "scale": (2 / np.pi) ** 0.5,
        "twenty": 20,
        "slope": 1.1,
    }.items()
}
WRITTEN = {
    "silu": "s = Sigmoid x\ny = Mul x s",
    "silu, the other way round": "s = Sigmoid x\ny = Mul s x",
    "silu of a relu": "r = Relu x\ns = Sigmoid r\ny = Mul r s",
    "silu by exp": "n = Neg x\ne = Exp n\nd = Add e one\ny = Div x d",
    "gelu": "d = Div x root2\ne = Erf d\na = Add e one\nm = Mul x a\ny = Mul m half",
    "gelu, halved first": (
        "h = Mul half x\nd = Mul x inverse\ne = Erf d\na = Add one e\ny = Mul h a"
    ),
    "gelu, inner half": "d = Div x root2\ne = Erf d\na = Add e one\nh = Mul a half\ny = Mul h x",
    "gelu by tanh": (
        "p = Pow x three\nc = Mul p cubic\ns = Add x c\nt = Mul s scale\nh = Tanh t\n"
        "a = Add h one\nm = Mul x a\ny = Mul m half"
    ),
    "gelu by tanh and products": (
        "q = Mul x x\np = Mul q x\nc = Mul p cubic\ns = Add x c\nt = Mul s scale\nh = Tanh t\n"
        "a = Add h one\nb = Mul x half\ny = Mul b a"
    ),
    "mish": "p = Softplus x\nt = Tanh p\ny = Mul x t",
    "hardswish": "h = HardSigmoid6 x\ny = Mul x h",
    "softsign": "a = Abs x\nb = Add a one\ny = Div x b",
    "sigmoid by exp": "n = Neg x\ne = Exp n\nd = Add e one\nr = Reciprocal d\ny = Mul r three",
    "mirrored sigmoid by exp": "e = Exp x\nd = Add e one\nr = Reciprocal d\ny = Mul r three",
    "log sigmoid": "s = Sigmoid x\ny = Log s",
    "softplus with a threshold": (
        "e = Exp x\na = Add e one\nl = Log a\nc = Greater x twenty\ny = Where c x l"
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_written_out_activation_is_read(name, save, agrees):
    nodes = graph(WRITTEN[name])
    for node in nodes:
        if node.op_type == "HardSigmoid6":
            node.op_type = "HardSigmoid"
            node.attribute.append(onnx.helper.make_attribute("alpha", 1 / 6))
    network = agrees(save(nodes, (4,), NUMBERS))
    # Recognised, it is at most the activation, what came before it and a factor.
    assert len(network.groups[0].program.steps) <= 4


@pytest.mark.parametrize(
    "text",
    [
        "y = Mul x x",
        "t = Tanh x\ny = Mul x t",
        "b = Mul x slope\ns = Sigmoid b\ny = Mul x s",
        "d = Mul x half\ne = Erf d\na = Add e one\ny = Mul x a",
    ],
)
def test_a_near_miss_is_what_it_is(text, save, agrees):
    network = agrees(save(graph(text), (4,), NUMBERS))
    direction = torch.tensor([1.0, -1.0, 0.5, -2.0], dtype=torch.float64)
    far = ff.at_infinity(network, torch.zeros(4), direction)
    growth = 0.0 if far.growth is None else far.growth[0] * 1e6 ** far.powers[0]
    expected = network.logits(1e6 * direction[None])
    torch.testing.assert_close(growth + far.slope * 1e6 + far.intercept, expected)


def test_growth_without_a_power_has_no_limit(save):
    network = ff.capture(save(graph("e = Exp x\ny = Mul e one"), (4,), NUMBERS))
    with pytest.raises(UnsupportedOperation, match="outgrows every power"):
        ff.at_infinity(network, torch.zeros(4), torch.ones(4))


def test_a_choice_by_a_comparison_is_a_maximum(save, agrees):
    agrees(save(graph("c = Greater x one\ny = Where c x one"), (4,), NUMBERS))


def test_a_part_that_others_read_stays(save, agrees):
    text = "s = Sigmoid x\nm = Mul x s\ny = Add m s"
    agrees(save(graph(text), (4,), NUMBERS))


def test_a_product_of_two_features_is_not_one_of_a_number_with_itself(save):
    text = "a = Gather x p\ns = Sigmoid x\ny = Mul a s"
    nodes = graph(text)
    nodes[0].attribute.append(onnx.helper.make_attribute("axis", 1))
    network = ff.capture(save(nodes, (4,), {"p": np.array([1, 0, 3, 2])}))
    far = ff.at_infinity(network, torch.zeros(4), [1.0, 2.0, -1.0, 3.0])
    assert far.slope.tolist() == [[[2.0, 1.0, 0.0, -1.0]]]
