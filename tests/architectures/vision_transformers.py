"""Transformers of images, and hybrids with convolutions."""

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

from architectures.attention import SelfAttention, block, classified
from architectures.blocks import Apply, Residual, Scaled, conv, feed_forward, patches, pooled
from architectures.registry import architecture

IMAGE = (3, 8, 8)
WIDTH = 6


class _Tokens(nn.Module):
    """Patches with positions behind one or more learnt tokens."""

    def __init__(self, extra=1):
        super().__init__()
        self.embed = patches(WIDTH)
        self.extra = nn.Parameter(torch.randn(1, extra, WIDTH))
        self.place = nn.Parameter(torch.randn(1, 4 + extra, WIDTH))

    def forward(self, x):
        x = self.embed(x)
        return torch.cat([self.extra.expand(x.shape[0], -1, -1), x], dim=1) + self.place


@architecture(*IMAGE)
def vit():
    """Dosovitskiy et al. 2021: the class token, normalised, is read."""
    return nn.Sequential(
        _Tokens(), block(), block(), nn.LayerNorm(WIDTH), Apply(lambda x: x[:, 0]),
        nn.Linear(WIDTH, 4),
    )  # fmt: skip


@architecture(*IMAGE)
def vit_mean_pooled():
    """Beyer et al. 2022: plain ViT, mean over patches."""
    return classified(patches(WIDTH), block(), block(), width=WIDTH, classes=4)


@architecture(*IMAGE)
class DeiT(nn.Module):
    """Touvron et al. 2021: the mean of the heads of two tokens."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(_Tokens(2), block(), block(), nn.LayerNorm(WIDTH))
        self.head, self.distilled = nn.Linear(WIDTH, 4), nn.Linear(WIDTH, 4)

    def forward(self, x):
        x = self.body(x)
        return (self.head(x[:, 0]) + self.distilled(x[:, 1])) / 2


@architecture(*IMAGE)
def deit_3():
    """Touvron et al. 2022: layer scale."""
    scaled = [
        Residual(nn.LayerNorm(WIDTH), inner, Scaled(WIDTH))
        for inner in (SelfAttention(WIDTH), feed_forward(WIDTH, 12))
    ]
    return nn.Sequential(
        _Tokens(), *scaled, nn.LayerNorm(WIDTH), Apply(lambda x: x[:, 0]), nn.Linear(WIDTH, 4)
    )


@architecture(*IMAGE)
class CaiT(nn.Module):
    """Touvron et al. 2021: a class token that joins late and alone asks."""

    def __init__(self):
        super().__init__()
        self.body, self.token = nn.Sequential(patches(WIDTH), block()), nn.Parameter(torch.randn(6))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)
        self.q, self.kv = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x):
        x = self.body(x)
        token = self.token.expand(len(x), 1, -1)
        h = self.norm(torch.cat([token, x], dim=1))
        k, v = self.kv(h).chunk(2, dim=-1)
        token = token + ((self.q(h[:, :1]) @ k.transpose(1, 2)) / 6**0.5).softmax(-1) @ v
        return self.head(token[:, 0])


class _Windows(nn.Module):
    """Liu et al. 2021: attention in windows, shifted or not, with relative positions."""

    def __init__(self, width, shift, size=2, side=4):
        super().__init__()
        self.shift, self.size, self.side = shift, size, side
        self.norm, self.qkv, self.out = (
            nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        )  # fmt: skip
        self.bias = nn.Parameter(torch.randn(2, size * size, size * size))
        self.register_buffer("mask", self.neighbours() if shift else None)

    def neighbours(self):
        """Which tokens of a shifted window come from the same part of the image."""
        line = torch.arange(self.side)
        part = (line >= self.side - self.size).long() + (line >= self.side - self.shift).long()
        labels = self.cut((part[:, None] * 3 + part)[None, :, :, None]).squeeze(-1)
        return torch.where(labels[:, None] == labels[:, :, None], 0.0, -100.0)

    def cut(self, x):
        rows, side, _, width = x.shape
        n = side // self.size
        x = x.view(rows, n, self.size, n, self.size, width).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(-1, self.size * self.size, width)

    def join(self, x, rows, width):
        n = self.side // self.size
        x = x.view(rows, n, n, self.size, self.size, width).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(rows, self.side, self.side, width)

    def forward(self, x):
        rows, _, _, width = x.shape
        h = torch.roll(self.norm(x), (-self.shift, -self.shift), dims=(1, 2))
        h = self.cut(h)
        qkv = self.qkv(h).view(len(h), -1, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        scores = q @ k.transpose(-2, -1) / (width // 2) ** 0.5 + self.bias
        if self.mask is not None:
            windows = len(self.mask)
            scores = scores.view(-1, windows, 2, *scores.shape[-2:]) + self.mask[:, None]
            scores = scores.flatten(0, 1)
        y = self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        y = torch.roll(self.join(y, rows, width), (self.shift, self.shift), dims=(1, 2))
        return x + y


class _Merge(nn.Module):
    """Four neighbours become one."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.reduce = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width)

    def forward(self, x):
        parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.reduce(self.norm(torch.cat(parts, dim=-1)))


@architecture(*IMAGE)
def swin():
    """Liu et al. 2021."""
    embed = nn.Sequential(nn.Conv2d(3, 4, 2, 2), Apply(lambda x: x.permute(0, 2, 3, 1)))
    return nn.Sequential(
        embed, _Windows(4, 0), _Windows(4, 1), Residual(nn.LayerNorm(4), feed_forward(4, 8)),
        _Merge(4), nn.LayerNorm(8), Apply(lambda x: x.mean((1, 2))), nn.Linear(8, 4),
    )  # fmt: skip


class _Reduced(nn.Module):
    """Wang et al. 2021: keys and values of a smaller image."""

    def __init__(self, width):
        super().__init__()
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.reduce, self.norm = nn.Conv2d(width, width, 2, 2), nn.LayerNorm(width)

    def forward(self, x):
        small = x.transpose(1, 2).unflatten(2, (4, 4))
        small = self.norm(self.reduce(small).flatten(2).transpose(1, 2))
        k, v = self.kv(small).chunk(2, dim=-1)
        return (self.q(x) @ k.transpose(1, 2) / 6**0.5).softmax(-1) @ v


@architecture(*IMAGE)
def pyramid_transformer():
    """Wang et al. 2021."""
    return classified(patches(WIDTH, 2), block(attention=_Reduced), width=WIDTH, classes=4)


class _LevitAttention(nn.Module):
    """Graham et al. 2021: batch norms, biases by distance, hard swish before the output."""

    def __init__(self, width, tokens):
        super().__init__()
        self.qkv, self.norm = nn.Linear(width, 3 * width, bias=False), nn.BatchNorm1d(3 * width)
        self.bias = nn.Parameter(torch.randn(tokens, tokens))
        self.out = nn.Sequential(nn.Hardswish(), nn.Linear(width, width, bias=False))

    def forward(self, x):
        qkv = self.qkv(x)
        qkv = self.norm(qkv.flatten(0, 1)).reshape_as(qkv)
        q, k, v = qkv.chunk(3, dim=-1)
        return self.out((q @ k.transpose(1, 2) * 0.4 + self.bias).softmax(-1) @ v)


@architecture(*IMAGE)
def levit():
    """Graham et al. 2021."""
    stem = nn.Sequential(conv(3, 4, stride=2, act=nn.Hardswish), conv(4, WIDTH, stride=2, act=None))
    tokens = Apply(lambda x: x.flatten(2).transpose(1, 2))
    blocks = Residual(_LevitAttention(WIDTH, 4)), Residual(feed_forward(WIDTH, 12, nn.Hardswish))
    return nn.Sequential(
        stem, tokens, *blocks, Apply(lambda x: x.mean(1)), nn.BatchNorm1d(WIDTH),
        nn.Linear(WIDTH, 4),
    )  # fmt: skip


class _CrossCovariance(nn.Module):
    """El-Nouby et al. 2021: channels attend to channels."""

    def __init__(self, width):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.temperature = nn.Parameter(torch.ones(2, 1, 1))

    def forward(self, x):
        rows, tokens, width = x.shape
        q, k, v = self.qkv(x).reshape(rows, tokens, 3, 2, width // 2).permute(2, 0, 3, 4, 1)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        y = (q @ k.transpose(-2, -1) * self.temperature).softmax(-1) @ v
        return self.out(y.permute(0, 3, 1, 2).reshape(rows, tokens, width))


@architecture(*IMAGE)
def xcit():
    """El-Nouby et al. 2021."""
    return classified(patches(WIDTH), block(attention=_CrossCovariance), width=WIDTH, classes=4)


class _OverImage(nn.Module):
    """A transformer's block on the places of an image."""

    def __init__(self, width):
        super().__init__()
        self.block = block(width)

    def forward(self, x):
        tokens = self.block(x.flatten(2).transpose(1, 2))
        return tokens.transpose(1, 2).reshape(x.shape)


@architecture(*IMAGE)
def coatnet():
    """Dai et al. 2021: convolutions, then attention."""
    return pooled(conv(3, 4, stride=2), conv(4, 6, stride=2), _OverImage(6), width=6)


class _MobileBlock(nn.Module):
    """Mehta & Rastegari 2022: unfold into patches, attend across them, fold."""

    def __init__(self, width):
        super().__init__()
        self.local, self.block, self.mix = conv(width, width), block(width), conv(2 * width, width)

    def forward(self, x):
        rows, width, side, _ = x.shape
        y = self.local(x).reshape(rows * width * side // 2, 2, side // 2, 2).transpose(1, 2)
        y = y.reshape(rows, width, side * side // 4, 4).transpose(1, 3)
        y = self.block(y.reshape(rows * 4, side * side // 4, width))
        y = y.view(rows, 4, side * side // 4, width).transpose(1, 3)
        y = y.reshape(rows * width * side // 2, side // 2, 2, 2).transpose(1, 2)
        return self.mix(torch.cat([x, y.reshape(x.shape)], 1))


@architecture(*IMAGE)
def mobilevit():
    """Mehta & Rastegari 2022."""
    return pooled(conv(3, 6, stride=2, act=nn.SiLU), _MobileBlock(6), width=6)


class _NonLocal(nn.Module):
    """Wang et al. 2018: the embedded Gaussian version."""

    def __init__(self, width):
        super().__init__()
        self.theta, self.phi, self.g = (nn.Conv2d(width, 3, 1) for _ in range(3))
        self.out = nn.Conv2d(3, width, 1)

    def forward(self, x):
        q, k, v = (part(x).flatten(2) for part in (self.theta, self.phi, self.g))
        weights = F.softmax(torch.bmm(q.transpose(1, 2), k), dim=-1)
        y = torch.bmm(weights, v.transpose(1, 2)).transpose(1, 2)
        return x + self.out(y.reshape(x.shape[0], 3, *x.shape[2:]))


@architecture(3, 4, 4)
def non_local():
    """Wang et al. 2018, behind a convolution without a norm: scores of the second order."""
    return pooled(conv(3, 6), _NonLocal(6), conv(6, 6), width=6)


@architecture(3, 4, 4)
class BottleneckTransformer(nn.Module):
    """Srinivas et al. 2021: attention in place of the convolution of a bottleneck."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.head = conv(3, 6, 1), conv(6, 3, 1, act=None), nn.Linear(3, 4)
        self.attention, self.norm = SelfAttention(6), nn.BatchNorm2d(6)

    def forward(self, x):
        h = self.first(x)
        h = self.attention(h.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(h.shape)
        return self.head(F.relu(x + self.last(F.relu(self.norm(h)))).mean((2, 3)))
