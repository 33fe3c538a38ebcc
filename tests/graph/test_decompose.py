"""Programs taken apart quickly, beside what PyTorch's public function makes of them."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

from farfield.graph import decompose
from farfield.graph.export import export_module, kept_whole, quiet_export, read_exported


class Mixed(nn.Module):
    """Operations that stay, that fall apart by themselves, and that PyTorch takes apart its way."""

    def __init__(self):
        super().__init__()
        self.entry = nn.Conv2d(1, 4, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.LayerNorm(4)])
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        y = self.norms[1](self.norms[0](F.relu(self.entry(x))))
        y = F.pixel_unshuffle(y, 2).chunk(2, 1)[0][:, :4]
        tokens = self.norms[2](y.flatten(2).mT)
        tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
        pooled = F.adaptive_avg_pool1d(tokens.mT, 1).squeeze(-1)
        other = F.hardshrink(tokens.reshape(len(x), -1)).narrow(1, 0, 4)
        return self.head(F.dropout(pooled, 0.5, self.training)) + F.rrelu(other[..., :3])


@pytest.fixture(scope="module")
def exported():
    return export_module(Mixed(), torch.zeros(2, 1, 4, 4))


def test_quickly_taken_apart_is_what_pytorch_makes_of_it(exported):
    assert decompose._is_known()
    with quiet_export():
        quick = decompose.take_apart(exported, kept_whole())
        slow = decompose.taken_apart_slowly(exported, kept_whole())
    assert str(quick.graph) == str(slow.graph)
    assert quick.graph_signature == slow.graph_signature
    assert str(quick.graph) != str(exported.graph)


def test_few_operations_have_to_be_told():
    told, _ = decompose.told(kept_whole())
    composite, _ = decompose.torchs._split_decomp_table_to_cia_and_python_decomp(
        dict(decompose._table(kept_whole()))
    )
    assert 10 < len(told) < len(composite) / 4


def test_another_pytorch_is_asked_in_public(monkeypatch):
    exported = export_module(nn.Sequential(nn.Flatten(), nn.Linear(6, 2)), torch.randn(3, 2, 3))
    quick = read_exported(exported)
    monkeypatch.setattr(decompose, "NEEDED", ())
    decompose._is_known.cache_clear()
    try:
        assert not decompose._is_known()
        assert read_exported(exported).program == quick.program
    finally:
        decompose._is_known.cache_clear()
