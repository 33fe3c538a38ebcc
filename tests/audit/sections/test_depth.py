"""How many weights have no part in the limits, as an audit tells it."""

import numpy as np
import torch
from torch import nn

import farfield as ff

FEW = {"samples": 20, "directions": 8}
X = np.random.default_rng(0).normal(size=(30, 4))


class PreNorm(nn.Module):
    """Blocks behind norms beside a stream that grows, a norm at the end."""

    def __init__(self, blocks=2):
        super().__init__()
        self.embed = nn.Linear(4, 6)
        self.blocks = nn.ModuleList(
            [nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 6))] * blocks
        )
        self.norm, self.head = nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = h + block(h)
        return self.head(self.norm(h))


def test_an_audit_says_that_depth_drops_out():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = PreNorm().double()
    found = ff.audit(module, X, **FEW)
    block = sum(each.numel() for each in module.blocks.parameters())
    assert found.depth.idle == block + module.embed.bias.numel()
    assert found.depth.weights == sum(each.numel() for each in module.parameters())
    assert "FF605" in {each.code for each in found.findings}


def test_networks_without_growth_orders_are_not_asked():
    module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).double()
    assert ff.audit(module, X, **FEW).depth is None
