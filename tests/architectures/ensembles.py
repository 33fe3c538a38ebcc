"""Several members or experts inside of one module."""

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

from architectures.registry import architecture

COLUMNS, CLASSES = 4, 3


def member(outputs=CLASSES):
    return nn.Sequential(nn.Linear(COLUMNS, 6), nn.ReLU(), nn.Linear(6, outputs))


class _Members(nn.Module):
    def __init__(self, count=3):
        super().__init__()
        self.members = nn.ModuleList([member() for _ in range(count)])

    def logits(self, x, dim=0):
        return torch.stack([each(x) for each in self.members], dim)


@architecture(COLUMNS)
class MeanLogits(_Members):
    def forward(self, x):
        return self.logits(x).mean(0)


@architecture(COLUMNS)
class MeanProbabilities(_Members):
    """Lakshminarayanan et al. 2017."""

    def forward(self, x):
        return self.logits(x).softmax(-1).mean(0)


@architecture(COLUMNS)
class LogMeanProbabilities(_Members):
    def forward(self, x):
        return torch.log(self.logits(x, 1).softmax(-1).mean(1))


@architecture(COLUMNS)
class ProductOfExperts(_Members):
    """Hinton 2002: the normalised sum of log probabilities."""

    def forward(self, x):
        return self.logits(x).log_softmax(-1).sum(0)


@architecture(COLUMNS)
class MajorityMargin(_Members):
    """The median of the members' logits."""

    def forward(self, x):
        return self.logits(x).median(dim=0).values


@architecture(COLUMNS)
class Stacked(_Members):
    """A linear layer on the members' probabilities: Wolpert 1992."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(3 * CLASSES, CLASSES)

    def forward(self, x):
        return self.last(self.logits(x, 1).softmax(-1).flatten(1))


@architecture(COLUMNS)
class TabM(nn.Module):
    """Gorishniy et al. 2025: one network, scaled by vectors of each of k members."""

    def __init__(self, k=3):
        super().__init__()
        self.r, self.s = nn.Parameter(torch.randn(k, COLUMNS)), nn.Parameter(torch.randn(k, 6))
        self.layer = nn.Linear(COLUMNS, 6)
        self.heads = nn.Parameter(torch.randn(k, 6, CLASSES))

    def forward(self, x):
        x = x.unsqueeze(1).expand(-1, len(self.r), -1)
        h = F.relu(self.layer(x * self.r) * self.s)
        return torch.einsum("bkd,kdc->bkc", h, self.heads).softmax(-1).mean(1)


@architecture(COLUMNS)
class PackedMembers(nn.Module):
    """Members as a batch of matrices: the members' dimension comes first."""

    def __init__(self, k=3):
        super().__init__()
        self.first, self.second = (
            nn.Parameter(torch.randn(k, COLUMNS, 6)), nn.Parameter(torch.randn(k, 6, CLASSES))
        )  # fmt: skip

    def forward(self, x):
        h = torch.relu(torch.bmm(x.expand(3, -1, -1), self.first))
        return torch.bmm(h, self.second).mean(0)


@architecture(COLUMNS)
class BatchEnsemble(nn.Module):
    """Wen et al. 2020: rows are repeated for each member."""

    def __init__(self, k=3):
        super().__init__()
        self.r, self.s = (
            nn.Parameter(torch.randn(k, COLUMNS)),
            nn.Parameter(torch.randn(k, CLASSES)),
        )
        self.layer = nn.Linear(COLUMNS, CLASSES)

    def forward(self, x):
        rows, k = x.shape[0], len(self.r)
        x = x.repeat(k, 1) * self.r.repeat_interleave(rows, 0)
        z = self.layer(F.relu(x)) * self.s.repeat_interleave(rows, 0)
        return z.view(k, rows, -1).mean(0)


class _Experts(nn.Module):
    def __init__(self, count=4):
        super().__init__()
        self.experts = nn.ModuleList([member() for _ in range(count)])
        self.gate = nn.Linear(COLUMNS, count)

    def outputs(self, x):
        return torch.stack([expert(x) for expert in self.experts], dim=1)


@architecture(COLUMNS)
class MixtureOfExperts(_Experts):
    """Jacobs et al. 1991."""

    def forward(self, x):
        return (self.gate(x).softmax(-1).unsqueeze(-1) * self.outputs(x)).sum(1)


@architecture(COLUMNS)
class TopTwoExperts(_Experts):
    """Shazeer et al. 2017: a softmax over the two largest gates, the others masked."""

    def forward(self, x):
        scores = self.gate(x)
        second = scores.topk(2, dim=-1).values[:, -1:]
        weights = scores.masked_fill(scores < second, float("-inf")).softmax(-1)
        return torch.einsum("be,bec->bc", weights, self.outputs(x))


@architecture(COLUMNS)
class SwitchExperts(_Experts):
    """Fedus et al. 2022: the best expert alone, times its share."""

    def forward(self, x):
        share, best = self.gate(x).softmax(-1).max(dim=-1)
        chosen = self.outputs(x).gather(1, best[:, None, None].expand(-1, 1, CLASSES)).squeeze(1)
        return share.unsqueeze(-1) * chosen


@architecture(COLUMNS)
class SparseExperts(_Experts):
    """Top two as libraries write it: zeros scattered, then weighed."""

    def forward(self, x):
        values, places = self.gate(x).topk(2, dim=-1)
        weights = torch.zeros(x.shape[0], 4, dtype=x.dtype).scatter(1, places, values.softmax(-1))
        return (weights.unsqueeze(-1) * self.outputs(x)).sum(1)


@architecture(COLUMNS)
class Evidential(nn.Module):
    """Sensoy et al. 2018: evidence as a Dirichlet's parameters; the mean is returned."""

    def __init__(self):
        super().__init__()
        self.body = member()

    def forward(self, x):
        alpha = F.relu(self.body(x)) + 1
        return torch.log(alpha / alpha.sum(-1, keepdim=True))


@architecture(COLUMNS)
class Capsules(nn.Module):
    """Sabour et al. 2017: votes, squashed, two rounds of routing."""

    def __init__(self):
        super().__init__()
        self.votes = nn.Linear(COLUMNS, 4 * CLASSES * 3)

    @staticmethod
    def squash(s):
        size = (s**2).sum(-1, keepdim=True)
        return size / (1 + size) * s / torch.sqrt(size + 1e-8)

    def forward(self, x):
        votes = self.votes(x).view(-1, 4, CLASSES, 3)
        routes = torch.zeros_like(votes[..., 0])
        for _ in range(2):
            v = self.squash((routes.softmax(-1).unsqueeze(-1) * votes).sum(1))
            routes = routes + (votes * v.unsqueeze(1)).sum(-1)
        return 5 * v.norm(dim=-1)
