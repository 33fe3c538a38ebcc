"""How much work operations ask for, against the products that they are defined by."""

import torch
from torch import nn

from farfield.graph.pt2.operations import AT_ONCE, MOMENT, work, written_out

aten = torch.ops.aten


def zeros(*shape):
    return torch.zeros(shape, device="meta")


def test_einsum_takes_every_product_of_two_numbers():
    tensors = [zeros(50, 6), zeros(2, 6, 7)]
    found = work(aten.einsum.default, {"equation": "ti,hij->thj"}, tensors, zeros(50, 2, 7))
    assert found == 50 * 6 + 2 * 6 * 7 + 2 * (50 * 6 * 2 * 7) // AT_ONCE


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
