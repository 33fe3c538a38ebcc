"""Sets of points and graphs whose edges do not depend on the input."""

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

from architectures.registry import architecture

POINTS = (5, 3)
EDGES = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [0, 2]])


def shared(inputs=3, width=6):
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width))


@architecture(*POINTS)
class DeepSets(nn.Module):
    """Zaheer et al. 2017."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = shared(), nn.Sequential(nn.ReLU(), nn.Linear(6, 3))

    def forward(self, x):
        return self.outer(self.inner(x).sum(dim=1))


@architecture(*POINTS)
class PointNet(nn.Module):
    """Qi et al. 2017: shared layers and the largest over points."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(3, 6, 1), nn.BatchNorm1d(6), nn.ReLU())
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(torch.max(self.layers(x.transpose(2, 1)), 2)[0])


@architecture(*POINTS)
class TransformedPoints(nn.Module):
    """Qi et al. 2017 with their learnt transformation of the input."""

    def __init__(self):
        super().__init__()
        self.turn, self.body, self.head = nn.Linear(6, 9), shared(), nn.Linear(6, 3)
        self.look = shared()

    def forward(self, x):
        matrix = self.turn(self.look(x).amax(1)).view(-1, 3, 3) + torch.eye(3, dtype=x.dtype)
        return self.head(self.body(torch.bmm(x, matrix)).amax(1))


def adjacency(normalised=True):
    """The graph as a matrix with loops, its rows or both sides normalised."""
    a = torch.eye(5)
    a[EDGES[:, 0], EDGES[:, 1]] = a[EDGES[:, 1], EDGES[:, 0]] = 1.0
    d = a.sum(1)
    return a / (d[:, None] * d).sqrt() if normalised else a


@architecture(*POINTS)
class GraphConvolution(nn.Module):
    """Kipf & Welling 2017."""

    def __init__(self):
        super().__init__()
        self.register_buffer("near", adjacency())
        self.first, self.second = nn.Linear(3, 6), nn.Linear(6, 3)

    def forward(self, x):
        h = F.relu(self.near @ self.first(x))
        return (self.near @ self.second(h)).mean(1)


@architecture(*POINTS)
class Isomorphism(nn.Module):
    """Xu et al. 2019: GIN, sums over neighbours by index_add."""

    def __init__(self):
        super().__init__()
        self.register_buffer("edges", EDGES)
        self.inner, self.head, self.eps = shared(), nn.Linear(6, 3), nn.Parameter(torch.zeros(1))

    def forward(self, x):
        sums = torch.zeros_like(x).index_add(1, self.edges[:, 1], x[:, self.edges[:, 0]])
        return self.head(self.inner((1 + self.eps) * x + sums).sum(1))


@architecture(*POINTS)
class GraphAttention(nn.Module):
    """Velickovic et al. 2018: a softmax over neighbours."""

    def __init__(self):
        super().__init__()
        self.register_buffer("none", adjacency(normalised=False) == 0)
        self.layer, self.head = nn.Linear(3, 4), nn.Linear(4, 3)
        self.source, self.target = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        h = self.layer(x)
        scores = F.leaky_relu(self.source(h) + self.target(h).transpose(1, 2), 0.2)
        weights = scores.masked_fill(self.none, -torch.inf).softmax(-1)
        return self.head(F.elu(weights @ h).mean(1))


@architecture(*POINTS)
class Sage(nn.Module):
    """Hamilton et al. 2017: means of neighbours, rows of unit length."""

    def __init__(self):
        super().__init__()
        graph = adjacency(normalised=False)
        self.register_buffer("means", graph / graph.sum(1, keepdim=True))
        self.layer, self.head = nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, x):
        h = F.relu(self.layer(torch.cat([x, self.means @ x], -1)))
        return self.head(F.normalize(h, p=2, dim=-1).mean(1))


@architecture(*POINTS)
class Equivariant(nn.Module):
    """Satorras et al. 2021: messages by squared distances."""

    def __init__(self):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(1, 4), nn.SiLU(), nn.Linear(4, 4))
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        squared = (x.unsqueeze(1) - x.unsqueeze(2)).pow(2).sum(-1, keepdim=True)
        return self.head(self.message(squared).mean((1, 2)))


@architecture(*POINTS)
class Moments(nn.Module):
    """Corso et al. 2020: mean, deviation, largest and smallest."""

    def __init__(self):
        super().__init__()
        self.body, self.head = shared(), nn.Linear(24, 3)

    def forward(self, x):
        h = self.body(x)
        parts = [h.mean(1), torch.sqrt(F.relu((h**2).mean(1) - h.mean(1) ** 2) + 1e-5)]
        return self.head(torch.cat([*parts, h.amax(1), h.amin(1)], -1))
