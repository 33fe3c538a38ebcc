"""What is said of shapes is what PyTorch says of them, and nothing where it refuses."""

import pytest
import torch

from farfield.graph.shaped import shaped

aten = torch.ops.aten


def empty(*shape, dtype=torch.float64):
    return torch.empty(shape, dtype=dtype, device="meta")


X, IMAGE, C = empty(3, 4, 8), empty(3, 4, 5, 6), empty(4)
KNOWN = [
    (aten.linear.default, X, empty(5, 8), empty(5)),
    (aten.linear.default, X.transpose(1, 2), empty(5, 4)),
    (aten.linear.default, empty(8), empty(5, 8)),
    (aten.relu.default, X),
    (aten.leaky_relu.default, X, 0.1),
    (aten.clamp.default, X, None, 2),
    (aten.pow.Tensor_Scalar, X, 2),
    (aten.add.Tensor, X, X),
    (aten.sub.Tensor, X, empty(8)),
    (aten.mul.Tensor, empty(4, 8), X),
    (aten.mul.Tensor, X, empty()),
    (aten.div.Tensor, X, 3.0),
    (aten.layer_norm.default, X, [8], empty(8), empty(8)),
    (aten.layer_norm.default, X, [4, 8]),
    (aten.group_norm.default, IMAGE, 2, C, C),
    (aten.batch_norm.default, IMAGE, C, C, C, C, False, 0.1, 1e-5, False),
    (aten.batch_norm.default, X, None, None, C, C, False, 0.1, 1e-5, True),
]


@pytest.mark.parametrize("called", KNOWN, ids=lambda called: called[0].name())
def test_what_is_said_is_what_pytorch_says(called):
    func, *args = called
    said, torchs = shaped(func, args), func(*args)
    assert said.is_meta
    for kind in (torch.Tensor.size, torch.Tensor.stride, lambda each: each.dtype):
        assert kind(said) == kind(torchs)


SINGLE = empty(8, dtype=torch.float32)
LEFT = [
    (aten.add.Tensor, X, SINGLE),
    (aten.add.Tensor, X, empty(4, 1)),
    (aten.add.Tensor, X, empty(5)),
    (aten.add.Tensor, X.transpose(1, 2), 1.0),
    (aten.mul.Tensor, X, 1j),
    (aten.relu.default, empty(3, dtype=torch.int64)),
    (aten.relu.default, X.transpose(1, 2)),
    (aten.linear.default, X, empty(5, 7)),
    (aten.linear.default, X, empty(8)),
    (aten.linear.default, X, empty(5, 8), empty(4)),
    (aten.linear.default, X, empty(5, 8, dtype=torch.float32)),
    (aten.layer_norm.default, X, [4]),
    (aten.layer_norm.default, X, [8], empty(4)),
    (aten.group_norm.default, IMAGE, 3),
    (aten.batch_norm.default, empty(4), None, None, C, C, False, 0.1, 1e-5, False),
    (aten.batch_norm.default, IMAGE, C, C, C, C, True, 0.1, 1e-5, False),
    (aten.batch_norm.default, IMAGE, C, C, None, None, False, 0.1, 1e-5, False),
    (aten.batch_norm.default, IMAGE, C, C, C, empty(5), False, 0.1, 1e-5, False),
    (aten.exp.default, X),
    (aten.zeros.default, [3]),
]


@pytest.mark.parametrize("called", LEFT, ids=lambda called: called[0].name())
def test_the_rest_is_left_to_pytorch(called):
    func, *args = called
    assert shaped(func, args) is None
