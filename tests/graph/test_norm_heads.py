"""The largest confidence anywhere, of heads that see normalised rows."""

import pytest
import torch
from torch import nn

import farfield as ff


class Pooled(nn.Module):
    """Tokens, a norm, the mean over tokens, a linear layer."""

    def __init__(self, norm, outputs):
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(4, 12), norm, nn.Linear(6, outputs)

    def forward(self, x):
        return self.head(self.norm(self.body(x).view(-1, 2, 6)).mean(1))


def scaled(module, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator).double() * 0.6
    return module


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("pooled", [False, True])
def test_no_input_exceeds_the_cap_and_some_come_close(norm, outputs, pooled):
    plain = nn.Sequential(nn.Linear(4, 6), norm(6), nn.Linear(6, outputs))
    module = scaled(Pooled(norm(6), outputs) if pooled else plain)
    network = ff.capture(module, torch.zeros(2, 4))
    cap = network.confidence_cap
    assert 0.5 < cap < 1
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 5
    x.requires_grad_(True)
    optimizer = torch.optim.Adam([x], 0.3)
    best = 0.0
    for _ in range(50):
        confidence = network.probabilities(x)[0].amax(1)
        best = max(best, float(confidence.detach().max()))
        optimizer.zero_grad()
        (-confidence.log().sum()).backward()
        optimizer.step()
    assert best <= cap
    assert cap - best < 0.15


def test_other_heads_have_no_cap():
    for model in (
        nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)),
        nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3)),
    ):
        assert ff.capture(model, torch.zeros(2, 4)).confidence_cap == 1.0


def test_transformers_are_capped_behind_their_last_norm():
    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 8, 0.0, batch_first=True, norm_first=True)
            norm = nn.LayerNorm(8)
            self.encoder = nn.TransformerEncoder(layer, 1, norm, enable_nested_tensor=False)
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            return self.head(self.encoder(x[..., None].expand(-1, -1, 8)).mean(1))

    network = ff.capture(scaled(Tokens()), torch.zeros(2, 4))
    x = torch.randn(500, 4, generator=torch.Generator().manual_seed(0)) * 10
    assert float(network.probabilities(x).max()) <= network.confidence_cap < 1
