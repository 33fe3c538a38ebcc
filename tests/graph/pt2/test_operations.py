"""How much work operations ask for, against the products that they are defined by."""

import math

import pytest
import torch
from torch import nn

from farfield.graph.pt2.operations import AT_ONCE, MOMENT, work, written_out

aten = torch.ops.aten


def zeros(*shape):
    return torch.zeros(shape, device="meta")


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ti,hij->thj", [(50, 6), (2, 6, 7)]),
        ("ti, si -> ts", [(5, 6), (1, 6)]),
        ("ij,kl->", [(3, 4), (5, 6)]),
        ("ij,ik,il->jkl", [(9, 2), (9, 3), (9, 4)]),
    ],
)
def test_products_of_einsum(equation, shapes):
    tensors = [zeros(*shape) for shape in shapes]
    result = aten.einsum.default(equation, tensors)
    sizes = {}
    for letters, shape in zip(
        equation.replace(" ", "").split("->")[0].split(","), shapes, strict=True
    ):
        for letter, length in zip(letters, shape, strict=True):
            sizes[letter] = max(length, sizes.get(letter, 1))
    found = work(aten.einsum.default, {"equation": equation}, tensors, result)
    assert found == sum(map(math.prod, shapes)) + math.prod(sizes.values()) // AT_ONCE


@pytest.mark.parametrize("equation", ["...i,ij->...j", "ti,ij"])
def test_letters_that_are_left_out_count_as_all_there_may_be(equation):
    tensors = [zeros(5, 6), zeros(6, 7)]
    result = aten.einsum.default(equation, tensors)
    found = work(aten.einsum.default, {"equation": equation}, tensors, result)
    assert found >= 5 * 6 * 7 // AT_ONCE


def test_attention_takes_pairs_of_tokens():
    query, key, value = zeros(2, 10, 8), zeros(2, 30, 8), zeros(2, 30, 4)
    target = aten.scaled_dot_product_attention.default
    found = work(target, {}, [query, key, value], zeros(2, 10, 4))
    read, pairs = 160 + 480 + 240, 2 * 10 * 30
    assert found == read + pairs + pairs * (8 + 4) // AT_ONCE


def test_recurrent_layers_take_every_weight_at_every_moment():
    layer = nn.LSTM(3, 4, num_layers=2, bidirectional=True, device="meta")
    weights, states = layer._flat_weights, [zeros(4, 1, 4), zeros(4, 1, 4)]
    rows, result = zeros(20, 1, 3), zeros(20, 1, 8)
    found = work(aten.lstm.input, {}, [rows, *states, *weights], result)
    used = sum(each.numel() for each in (*states, *weights))
    assert found == 60 + used + 160 + 20 * used // AT_ONCE
    bound = {"input": rows, "params": weights}
    assert written_out(aten.lstm.input, bound) == 20 * len(weights) * MOMENT
    assert written_out(aten.relu.default, {"self": rows}) == 0
