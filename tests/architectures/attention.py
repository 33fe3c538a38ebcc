"""Attention over tokens, and what pools by it."""

import math

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

from architectures.blocks import Apply, Residual, feed_forward
from architectures.registry import architecture

TOKENS = (4, 6)


class SelfAttention(nn.Module):
    """Vaswani et al. 2017, as it is usually written."""

    def __init__(self, width, heads=2):
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def weights(self, scores):
        return scores.softmax(dim=-1)

    def forward(self, x):
        rows, tokens, width = x.shape
        qkv = self.qkv(x).reshape(rows, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        weights = self.weights(q @ k.transpose(-2, -1) * self.scale)
        return self.out((weights @ v).transpose(1, 2).reshape(rows, tokens, width))


def block(width=6, attention=SelfAttention, norm=nn.LayerNorm, hidden=12):
    """A pre-norm block."""
    return nn.Sequential(
        Residual(norm(width), attention(width)), Residual(norm(width), feed_forward(width, hidden))
    )


def classified(*body, width=6, classes=3, norm=True):
    """Blocks, the mean over tokens, a head with or without a norm."""
    return nn.Sequential(
        *body,
        Apply(lambda x: x.mean(1)),
        nn.LayerNorm(width) if norm else nn.Identity(),
        nn.Linear(width, classes),
    )


@architecture(*TOKENS)
def transformer_pre_norm():
    """PyTorch's own encoder, norms first."""
    layer = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(6), enable_nested_tensor=False)
    return classified(encoder, norm=False)


@architecture(*TOKENS)
def transformer_post_norm():
    """PyTorch's own encoder as it is by default."""
    layer = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True)
    return classified(nn.TransformerEncoder(layer, 2), norm=False)


@architecture(*TOKENS)
def transformer_sequence_first():
    """Tokens before rows, as PyTorch has it unless told otherwise."""
    layer = nn.TransformerEncoderLayer(6, 2, 12, activation="gelu", norm_first=True)
    encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    return nn.Sequential(
        Apply(lambda x: x.transpose(0, 1)), encoder, Apply(lambda x: x[0]), nn.Linear(6, 3)
    )


@architecture(*TOKENS)
def pre_norm_blocks():
    """Written by hand, two blocks."""
    return classified(block(), block())


@architecture(*TOKENS)
def attention_without_norms():
    """Scores of the second order; two of them in a row."""
    return classified(Residual(SelfAttention(6)), Residual(SelfAttention(6)), norm=False)


@architecture(*TOKENS)
class MultiheadAttention(nn.Module):
    """PyTorch's own module, with a residual."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.norm, self.head = nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x):
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head(self.norm(x).mean(1))


class _Fused(SelfAttention):
    """By PyTorch's scaled dot product."""

    causal = False

    def forward(self, x):
        rows, tokens, width = x.shape
        q, k, v = (
            part.view(rows, tokens, self.heads, -1).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(rows, tokens, width))


class _Causal(_Fused):
    causal = True


@architecture(*TOKENS)
def fused_attention():
    return classified(block(attention=_Fused))


@architecture(*TOKENS)
def causal_attention():
    """A decoder; the last token is read."""
    return nn.Sequential(
        block(attention=_Causal), nn.LayerNorm(6), Apply(lambda x: x[:, -1]), nn.Linear(6, 3)
    )


class _Masked(SelfAttention):
    def weights(self, scores):
        tokens = scores.shape[-1]
        later = torch.triu(torch.ones(tokens, tokens, dtype=torch.bool), 1)
        return scores.masked_fill(later, float("-inf")).softmax(-1)


@architecture(*TOKENS)
def masked_attention():
    """A causal mask written out with minus infinity."""
    return classified(block(attention=_Masked))


class _Einsum(SelfAttention):
    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)) for part in self.qkv(x).tensor_split(3, dim=-1)
        )
        weights = torch.einsum("bqhd,bkhd->bhqk", q, k).mul(self.scale).softmax(-1)
        return self.out(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2))


@architecture(*TOKENS)
def einsum_attention():
    return classified(block(attention=_Einsum))


class _Cosine(SelfAttention):
    """Liu et al. 2022: Swin V2's scores."""

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        return self.out(((scores / 0.1).softmax(-1) @ v).transpose(1, 2).flatten(2))


@architecture(*TOKENS)
def cosine_attention():
    return classified(Residual(_Cosine(6)), norm=False)


class _Linear(SelfAttention):
    """Katharopoulos et al. 2020: elu + 1 in place of the softmax."""

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        y = q @ (k.transpose(-2, -1) @ v)
        return self.out(y / (q @ k.sum(dim=1, keepdim=True).transpose(-2, -1) + 1e-6))


@architecture(*TOKENS)
def linear_attention():
    return classified(block(attention=_Linear))


class _Sigmoid(SelfAttention):
    """Ramapuram et al. 2024."""

    def weights(self, scores):
        return torch.sigmoid(scores - math.log(4))


class _Squared(SelfAttention):
    """Hua et al. 2022: squared ReLU of the scores."""

    def weights(self, scores):
        return F.relu(scores) ** 2 / scores.shape[-1]


@architecture(*TOKENS)
def squared_attention():
    return classified(block(attention=_Squared))


class _TalkingHeads(SelfAttention):
    """Shazeer et al. 2020: heads are mixed before and after the softmax."""

    def __init__(self, width):
        super().__init__(width)
        self.before, self.after = nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 1)

    def weights(self, scores):
        return self.after(self.before(scores).softmax(-1))


@architecture(*TOKENS)
def talking_heads():
    return classified(block(attention=_TalkingHeads))


@architecture(*TOKENS)
class Rotary(nn.Module):
    """Su et al. 2021: pairs of features are turned by their position."""

    def __init__(self):
        super().__init__()
        self.norm, self.q, self.k, self.v = nn.LayerNorm(6), *(nn.Linear(6, 6) for _ in range(3))
        self.head = nn.Linear(6, 3)
        angles = torch.arange(4)[:, None] * 10.0 ** -torch.arange(3)
        self.register_buffer("cos", torch.cos(angles).repeat(1, 2))
        self.register_buffer("sin", torch.sin(angles).repeat(1, 2))

    def turn(self, x):
        one, two = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat([-two, one], dim=-1) * self.sin

    def forward(self, x):
        h = self.norm(x)
        scores = self.turn(self.q(h)) @ self.turn(self.k(h)).transpose(1, 2) / 6**0.5
        return self.head((x + scores.softmax(-1) @ self.v(h)).mean(1))


class _Distant(SelfAttention):
    """Press et al. 2022: scores fall with the distance of tokens."""

    def weights(self, scores):
        place = torch.arange(scores.shape[-1], dtype=scores.dtype)
        distance = (place[:, None] - place).abs()
        slopes = torch.tensor([0.5, 0.25], dtype=scores.dtype)[:, None, None]
        return (scores - slopes * distance).softmax(-1)


@architecture(*TOKENS)
class Differential(nn.Module):
    """Ye et al. 2024: the difference of two attentions."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(6, 6) for _ in range(3))
        self.head, self.share = nn.Linear(6, 3), nn.Parameter(torch.tensor([0.3]))

    def forward(self, x):
        h = F.rms_norm(x, (6,))
        (q1, q2), (k1, k2) = self.q(h).chunk(2, -1), self.k(h).chunk(2, -1)
        first, second = ((q @ k.transpose(1, 2)).softmax(-1) for q, k in ((q1, k1), (q2, k2)))
        return self.head((x + (first - self.share * second) @ self.v(h)).mean(1))


@architecture(*TOKENS)
class AttentionPooling(nn.Module):
    """Bahdanau's scores: a softmax over tokens pools them."""

    def __init__(self):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head((x * self.score(x).softmax(dim=1)).sum(dim=1))


@architecture(*TOKENS)
class GatedPooling(nn.Module):
    """Ilse et al. 2018: multiple instances, gated."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
        self.v, self.u, self.w = nn.Linear(8, 5), nn.Linear(8, 5), nn.Linear(5, 1)

    def forward(self, x):
        h = F.relu(self.body(x))
        weights = self.w(torch.tanh(self.v(h)) * torch.sigmoid(self.u(h))).softmax(1)
        return self.head(torch.bmm(weights.transpose(1, 2), h).squeeze(1))


@architecture(*TOKENS)
class LearntQuery(nn.Module):
    """Lee et al. 2019: a seed attends to the set."""

    def __init__(self):
        super().__init__()
        self.seed = nn.Parameter(torch.randn(1, 1, 6))
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        seed = self.seed.expand(len(x), -1, -1)
        return self.head(self.attention(seed, x, x)[0].squeeze(1))


@architecture(*TOKENS)
class Perceiver(nn.Module):
    """Jaegle et al. 2021: a few latents read the input twice."""

    def __init__(self):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(2, 6))
        self.q, self.k, self.v = (nn.Linear(6, 6) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x):
        z = self.latents.unsqueeze(0).repeat(x.shape[0], 1, 1)
        h = self.norm(x)
        for _ in range(2):
            z = z + (self.q(z) @ self.k(h).mT / 6**0.5).softmax(-1) @ self.v(h)
        return self.head(z.mean(1))


@architecture(*TOKENS)
class Memory(nn.Module):
    """Ramsauer et al. 2021: a Hopfield layer of stored patterns."""

    def __init__(self):
        super().__init__()
        self.stored, self.head = nn.Parameter(torch.randn(7, 24)), nn.Linear(24, 3)

    def forward(self, x):
        x = x.flatten(1)
        return self.head(F.softmax(0.5 * x @ self.stored.T, dim=1) @ self.stored)
