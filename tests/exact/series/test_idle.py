"""Weights without a part in the limit: those of the blocks of a pre-norm network."""

import torch
from torch import nn

import farfield as ff
from farfield.exact.series.idle import idle_weights

RAYS = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


class PreNorm(nn.Module):
    """Tokens of single columns, blocks behind norms, the mean, a norm, a linear layer."""

    def __init__(self, last):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.randn(2, 5, 6))
        self.norms = nn.ModuleList([nn.LayerNorm(6) for _ in range(2)])
        self.blocks = nn.ModuleList([nn.Linear(6, 6) for _ in range(2)])
        self.last, self.head = last, nn.Linear(6, 3)

    def forward(self, x):
        h = x.unsqueeze(-1) * self.scale + self.shift
        for norm, block in zip(self.norms, self.blocks, strict=True):
            h = h + torch.relu(block(norm(h)))
        return self.head(self.last(h.mean(1)))


def captured(last):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = PreNorm(last).double()
    return module, ff.capture(module, RAYS[0][:1])


def test_depth_drops_out_of_a_pre_norm_network():
    module, network = captured(nn.LayerNorm(6))
    blocks = [*module.norms.parameters(), *module.blocks.parameters(), module.shift]
    assert idle_weights(network, *RAYS) == sum(each.numel() for each in blocks)


def test_what_is_open_counts_as_having_a_part():
    _, network = captured(nn.LayerNorm(6))
    assert idle_weights(network, *RAYS, most_walks=1) == 0


def test_growing_logits_have_no_such_limit():
    _, network = captured(nn.Identity())
    assert idle_weights(network, *RAYS) is None


def test_of_a_saturated_layer_signs_alone_have_a_part():
    module = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.LayerNorm(6), nn.Linear(6, 3)).double()
    network = ff.capture(module, RAYS[0][:1])
    assert idle_weights(network, *RAYS) == 5 * 6 + 6
