"""Networks for tables."""

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

from architectures.attention import SelfAttention
from architectures.blocks import Residual
from architectures.registry import architecture

COLUMNS, CLASSES = 5, 3


def mlp(inputs, width=8, outputs=CLASSES):
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))


class _Tokens(nn.Module):
    """Gorishniy et al. 2021: each column times a vector, behind a class token."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(COLUMNS, width))
        self.shift = nn.Parameter(torch.randn(COLUMNS, width))
        self.token = nn.Parameter(torch.randn(1, 1, width))

    def forward(self, x):
        x = x.unsqueeze(-1) * self.weight + self.shift
        return torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)


class _ReGlu(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, 16), nn.Linear(8, width)

    def forward(self, x):
        value, gate = self.first(x).chunk(2, -1)
        return self.second(value * F.relu(gate))


@architecture(COLUMNS)
class FTTransformer(nn.Module):
    """Gorishniy et al. 2021: the first norm is left out."""

    def __init__(self, width=6):
        super().__init__()
        self.tokens = _Tokens(width)
        self.blocks = nn.Sequential(
            Residual(SelfAttention(width)), Residual(nn.LayerNorm(width), _ReGlu(width)),
            Residual(nn.LayerNorm(width), SelfAttention(width)),
            Residual(nn.LayerNorm(width), _ReGlu(width)),
        )  # fmt: skip
        self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, CLASSES))

    def forward(self, x):
        return self.head(self.blocks(self.tokens(x))[:, 0])


@architecture(COLUMNS, categories=(3, 4))
class TabTransformer(nn.Module):
    """Huang et al. 2020: categories through attention, numbers through a norm."""

    def __init__(self, width=4):
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(n, width) for n in (3, 4)])
        layer = nn.TransformerEncoderLayer(width, 2, 8, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.norm, self.head = nn.LayerNorm(3), mlp(2 * width + 3)

    def forward(self, x):
        codes = x[:, :2].long()
        tokens = torch.stack([e(codes[:, n]) for n, e in enumerate(self.embeddings)], 1)
        h = self.encoder(tokens).flatten(1)
        return self.head(torch.cat([h, self.norm(x[:, 2:])], -1))


@architecture(COLUMNS, categories=(3, 4))
class Embeddings(nn.Module):
    """Guo & Berkhahn 2016: embeddings of integer columns beside numbers."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Embedding(3, 2), nn.Embedding(4, 3)
        self.head = mlp(2 + 3 + 3)

    def forward(self, x):
        a, b = x[:, 0].long(), x[:, 1].to(torch.int64)
        return self.head(torch.cat([self.first(a), self.second(b), x[:, 2:]], dim=1))


@architecture(COLUMNS, categories=(3,))
class OneHotInside(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = mlp(3 + COLUMNS - 1)

    def forward(self, x):
        code = F.one_hot(x[:, 0].long(), 3).to(x.dtype)
        return self.head(torch.cat([code, x[:, 1:]], dim=1))


def sparsemax(z):
    """Martins & Astudillo 2016: the nearest point of the simplex."""
    ordered = torch.sort(z, dim=-1, descending=True).values
    place = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype, device=z.device)
    total = ordered.cumsum(-1) - 1
    support = place * ordered > total
    size = support.sum(-1, keepdim=True)
    return torch.clamp(z - total.gather(-1, size - 1) / size.to(z.dtype), min=0)


class _Glu(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.layer, self.norm = nn.Linear(inputs, 2 * outputs), nn.BatchNorm1d(2 * outputs)

    def forward(self, x):
        return F.glu(self.norm(self.layer(x)))


@architecture(COLUMNS)
class TabNet(nn.Module):
    """Arik & Pfister 2021: columns are chosen step by step, by sparsemax."""

    def __init__(self, steps=2):
        super().__init__()
        self.norm, self.split = nn.BatchNorm1d(COLUMNS), _Glu(COLUMNS, 8)
        self.features = nn.ModuleList([_Glu(COLUMNS, 8) for _ in range(steps)])
        self.choose = nn.ModuleList([nn.Linear(4, COLUMNS) for _ in range(steps)])
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x):
        x = self.norm(x)
        prior, ask, out = torch.ones_like(x), self.split(x)[:, 4:], 0.0
        for features, choose in zip(self.features, self.choose, strict=True):
            mask = sparsemax(choose(ask) * prior)
            prior = prior * (1.5 - mask)
            h = features(mask * x)
            out, ask = out + F.relu(h[:, :4]), h[:, 4:]
        return self.head(out)


@architecture(COLUMNS)
class DeepCross(nn.Module):
    """Wang et al. 2017: DCN, cross layers of rank one beside a deep network."""

    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList([torch.randn(COLUMNS) for _ in range(2)])
        self.shifts = nn.ParameterList([torch.randn(COLUMNS) for _ in range(2)])
        self.deep, self.head = mlp(COLUMNS, outputs=6), nn.Linear(COLUMNS + 6, CLASSES)

    def forward(self, x0):
        x = x0
        for weight, shift in zip(self.weights, self.shifts, strict=True):
            x = x0 * (x @ weight).unsqueeze(-1) + shift + x
        return self.head(torch.cat([x, self.deep(x0)], -1))


@architecture(COLUMNS)
class DeepCrossV2(nn.Module):
    """Wang et al. 2021: full matrices."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(COLUMNS, COLUMNS) for _ in range(3)])
        self.head = mlp(COLUMNS)

    def forward(self, x0):
        x = x0
        for layer in self.layers:
            x = x0 * layer(x) + x
        return self.head(x)


class _Machine(nn.Module):
    """Rendle 2010: half of the square of a sum minus the sum of squares."""

    def __init__(self, outputs, rank=3):
        super().__init__()
        self.linear = nn.Linear(COLUMNS, outputs)
        self.factors = nn.Parameter(torch.randn(COLUMNS, outputs, rank) * 0.4)

    def forward(self, x):
        flat = self.factors.flatten(1)
        pairs = (x @ flat) ** 2 - (x**2) @ flat**2
        return self.linear(x) + 0.5 * pairs.view(x.shape[0], *self.factors.shape[1:]).sum(-1)


@architecture(COLUMNS)
def factorisation_machine():
    """Rendle 2010."""
    return _Machine(CLASSES)


@architecture(COLUMNS)
class DeepFM(nn.Module):
    """Guo et al. 2017."""

    def __init__(self):
        super().__init__()
        self.machine, self.deep = _Machine(1), mlp(COLUMNS, outputs=1)

    def forward(self, x):
        return torch.sigmoid(self.machine(x) + self.deep(x))


@architecture(COLUMNS)
class AutoInt(nn.Module):
    """Song et al. 2019: attention between columns without norms."""

    def __init__(self, width=4):
        super().__init__()
        self.embed = nn.Parameter(torch.randn(COLUMNS, width))
        self.attention, self.skip = SelfAttention(width), nn.Linear(width, width)
        self.head = nn.Linear(COLUMNS * width, CLASSES)

    def forward(self, x):
        h = x.unsqueeze(-1) * self.embed
        return self.head(F.relu(self.attention(h) + self.skip(h)).flatten(1))


@architecture(COLUMNS)
class CompressedInteraction(nn.Module):
    """Lian et al. 2018: xDeepFM's outer products, by einsum."""

    def __init__(self, width=3):
        super().__init__()
        self.embed = nn.Parameter(torch.randn(COLUMNS, width))
        self.mix, self.head = nn.Parameter(torch.randn(4, COLUMNS, COLUMNS) * 0.3), nn.Linear(4, 3)

    def forward(self, x):
        h = x.unsqueeze(-1) * self.embed
        return self.head(torch.einsum("bid,bjd,kij->bkd", h, h, self.mix).sum(-1))


@architecture(COLUMNS)
class ProductNetwork(nn.Module):
    """Qu et al. 2016: inner products of embedded columns."""

    def __init__(self, width=3):
        super().__init__()
        self.embed = nn.Parameter(torch.randn(COLUMNS, width))
        rows, columns = torch.triu_indices(COLUMNS, COLUMNS, 1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)
        self.head = mlp(COLUMNS + len(rows))

    def forward(self, x):
        h = torch.tanh(x.unsqueeze(-1) * self.embed)
        pairs = (h[:, self.rows] * h[:, self.columns]).sum(-1)
        return self.head(torch.cat([x, pairs], -1))


@architecture(COLUMNS)
class Additive(nn.Module):
    """Agarwal et al. 2021: one small network per column."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([mlp(1) for _ in range(COLUMNS)])

    def forward(self, x):
        return sum(part(x[:, n : n + 1]) for n, part in enumerate(self.parts))


@architecture(COLUMNS)
class ObliviousTrees(nn.Module):
    """Popov et al. 2020: NODE, soft choices by sparsemax of constants, soft splits clamped."""

    def __init__(self, trees=3, depth=2):
        super().__init__()
        self.choice = nn.Parameter(torch.randn(trees * depth, COLUMNS))
        self.threshold = nn.Parameter(torch.randn(trees, depth))
        self.leaves = nn.Parameter(torch.randn(trees, 2**depth, CLASSES))

    def forward(self, x):
        splits = (x @ sparsemax(self.choice).T).view(x.shape[0], *self.threshold.shape)
        right = torch.clamp(0.5 * (splits - self.threshold) + 0.5, 0, 1)
        sides = torch.stack([1 - right, right], -1)
        paths = torch.einsum("bti,btj->btij", sides[:, :, 0], sides[:, :, 1]).flatten(2)
        return torch.einsum("btl,tlc->bc", paths, self.leaves)


@architecture(COLUMNS)
class SoftTree(nn.Module):
    """Frosst & Hinton 2017: a tree of sigmoids, depth two."""

    def __init__(self):
        super().__init__()
        self.splits, self.leaves = nn.Linear(COLUMNS, 3), nn.Parameter(torch.randn(4, CLASSES))

    def forward(self, x):
        root, left, right = torch.sigmoid(self.splits(x)).unbind(-1)
        shares = [root * left, root * (1 - left), (1 - root) * right, (1 - root) * (1 - right)]
        return torch.stack(shares, -1) @ self.leaves


@architecture(COLUMNS)
class PiecewiseLinearEmbedding(nn.Module):
    """Gorishniy et al. 2022: how far each column is in each of its bins."""

    def __init__(self, bins=4):
        super().__init__()
        self.register_buffer("edges", torch.linspace(-2, 2, bins + 1))
        self.head = mlp(COLUMNS * bins)

    def forward(self, x):
        low, high = self.edges[:-1], self.edges[1:]
        inside = (x.unsqueeze(-1) - low) / (high - low)
        first, middle, last = inside[..., :1], inside[..., 1:-1], inside[..., -1:]
        parts = [first.clamp_max(1.0), middle.clamp(0.0, 1.0), last.clamp_min(0.0)]
        return self.head(torch.cat(parts, -1).flatten(1))


@architecture(COLUMNS)
class Binned(nn.Module):
    """Columns are binned by their place among constant edges, then embedded."""

    def __init__(self):
        super().__init__()
        self.register_buffer("edges", torch.linspace(-1.5, 1.5, 4))
        self.embed, self.head = nn.Embedding(5, 3), mlp(COLUMNS * 3)

    def forward(self, x):
        return self.head(self.embed(torch.bucketize(x, self.edges)).flatten(1))


@architecture(COLUMNS)
class PeriodicEmbedding(nn.Module):
    """Gorishniy et al. 2022: sines of columns; no limit exists."""

    def __init__(self):
        super().__init__()
        self.rates, self.head = nn.Parameter(torch.randn(COLUMNS, 3)), mlp(COLUMNS * 6)

    def forward(self, x):
        angles = 2 * torch.pi * self.rates * x.unsqueeze(-1)
        return self.head(torch.cat([torch.cos(angles), torch.sin(angles)], -1).flatten(1))


@architecture(COLUMNS)
class Standardised(nn.Module):
    """Each row is standardised by its own mean and deviation."""

    def __init__(self):
        super().__init__()
        self.head = mlp(COLUMNS)

    def forward(self, x):
        spread, mean = torch.std_mean(x, dim=1, keepdim=True)
        return self.head((x - mean) / (spread + 1e-5))


@architecture(COLUMNS)
class Shares(nn.Module):
    """Composition data: every row is divided by its sum of sizes."""

    def __init__(self):
        super().__init__()
        self.head = mlp(COLUMNS)

    def forward(self, x):
        return self.head(x / (x.abs().sum(1, keepdim=True) + 1.0))


@architecture(COLUMNS)
class LogScaled(nn.Module):
    """Signed logarithms of the columns: the logarithm of a value that grows."""

    def __init__(self):
        super().__init__()
        self.head = mlp(COLUMNS)

    def forward(self, x):
        return self.head(torch.sign(x) * torch.log1p(x.abs()))
