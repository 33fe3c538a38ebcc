"""Distances, prototypes, radial functions and splines."""

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import nn

from architectures.registry import architecture

COLUMNS, CLASSES = 4, 3


class _Centres(nn.Module):
    def __init__(self, count=6):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(count, COLUMNS))
        self.head = nn.Linear(count, CLASSES)

    def squared(self, x):
        return (x.unsqueeze(1) - self.centres).pow(2).sum(-1)


@architecture(COLUMNS)
class RadialBasis(_Centres):
    """Broomhead & Lowe 1988."""

    def forward(self, x):
        return self.head(torch.exp(-0.5 * self.squared(x)))


@architecture(COLUMNS)
class Multiquadric(_Centres):
    def forward(self, x):
        return self.head(torch.sqrt(1 + self.squared(x)))


@architecture(COLUMNS)
class StudentKernel(_Centres):
    """van der Maaten's kernel, normalised over the centres: DEC."""

    def forward(self, x):
        q = 1 / (1 + self.squared(x))
        return self.head(q / q.sum(1, keepdim=True))


def _features():
    return nn.Sequential(nn.Linear(COLUMNS, 8), nn.ReLU(), nn.Linear(8, 4))


@architecture(COLUMNS)
class Prototypes(nn.Module):
    """Snell et al. 2017: minus squared distances to one prototype for each class."""

    def __init__(self):
        super().__init__()
        self.body, self.prototypes = _features(), nn.Parameter(torch.randn(CLASSES, 4))

    def forward(self, x):
        return -(self.body(x)[:, None] - self.prototypes).square().sum(-1)


@architecture(COLUMNS)
class PrototypesByCdist(nn.Module):
    """The same with plain distances."""

    def __init__(self):
        super().__init__()
        self.body, self.prototypes = _features(), nn.Parameter(torch.randn(CLASSES, 4))

    def forward(self, x):
        return -torch.cdist(self.body(x), self.prototypes)


@architecture(COLUMNS)
class NearestPrototypes(nn.Module):
    """Learning vector quantisation: the nearest of several prototypes for each class."""

    def __init__(self):
        super().__init__()
        self.prototypes = nn.Parameter(torch.randn(CLASSES * 2, COLUMNS))

    def forward(self, x):
        distances = (x[:, None] - self.prototypes).pow(2).sum(-1)
        return -distances.view(-1, CLASSES, 2).amin(-1)


@architecture(COLUMNS)
class UncertaintyKernels(nn.Module):
    """Van Amersfoort et al. 2020: DUQ, a kernel around one centroid per class."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(COLUMNS, 6), nn.ReLU())
        self.weight = nn.Parameter(torch.randn(5, CLASSES, 6) * 0.4)
        self.centroids = nn.Parameter(torch.randn(5, CLASSES))

    def forward(self, x):
        z = torch.einsum("ij,mnj->imn", self.body(x), self.weight)
        return torch.exp(-((z - self.centroids) ** 2).mean(1) / 0.5)


@architecture(COLUMNS)
class Mahalanobis(nn.Module):
    """Lee et al. 2018: distances by a shared precision matrix, plus a bias for each class."""

    def __init__(self):
        super().__init__()
        self.means, self.root = nn.Parameter(torch.randn(CLASSES, COLUMNS)), torch.randn(4, 4)
        self.root = nn.Parameter(self.root + 2 * torch.eye(4))

    def forward(self, x):
        away = x.unsqueeze(1) - self.means
        precision = self.root @ self.root.T
        return -0.5 * torch.einsum("bki,ij,bkj->bk", away, precision, away)


@architecture(COLUMNS)
class Discriminant(nn.Module):
    """Quadratic discriminants: a precision matrix for each class."""

    def __init__(self):
        super().__init__()
        self.means = nn.Parameter(torch.randn(CLASSES, COLUMNS))
        self.roots = nn.Parameter(torch.randn(CLASSES, COLUMNS, COLUMNS))

    def forward(self, x):
        away = torch.einsum("bki,kij->bkj", x[:, None] - self.means, self.roots)
        return -0.5 * away.pow(2).sum(-1)


@architecture(COLUMNS)
class Mixture(nn.Module):
    """A Gaussian mixture for each class, by log-sum-exp."""

    def __init__(self):
        super().__init__()
        self.means = nn.Parameter(torch.randn(CLASSES, 2, COLUMNS))
        self.weights = nn.Parameter(torch.randn(CLASSES, 2))

    def forward(self, x):
        squared = (x[:, None, None] - self.means).pow(2).sum(-1)
        return torch.logsumexp(self.weights.log_softmax(-1) - 0.5 * squared, dim=-1)


class _Splines(nn.Module):
    """Liu et al. 2024: B-splines of each edge, by the Cox-de Boor recursion."""

    def __init__(self, inputs, outputs, bins=3, degree=2):
        super().__init__()
        self.degree = degree
        step = 2 / bins
        knots = torch.arange(-degree, bins + degree + 1) * step - 1
        self.register_buffer("knots", knots)
        self.base = nn.Linear(inputs, outputs)
        self.weight = nn.Parameter(torch.randn(outputs, inputs, bins + degree) * 0.3)

    def basis(self, x):
        x, t = x.unsqueeze(-1), self.knots
        b = ((x >= t[:-1]) & (x < t[1:])).to(x.dtype)
        for k in range(1, self.degree + 1):
            left = (x - t[: -k - 1]) / (t[k:-1] - t[: -k - 1]) * b[..., :-1]
            right = (t[k + 1 :] - x) / (t[k + 1 :] - t[1:-k]) * b[..., 1:]
            b = left + right
        return b

    def forward(self, x):
        return self.base(F.silu(x)) + torch.einsum("bik,oik->bo", self.basis(x), self.weight)


@architecture(COLUMNS)
def kan():
    """Liu et al. 2024: Kolmogorov-Arnold networks of splines and SiLU."""
    return nn.Sequential(_Splines(COLUMNS, 5), _Splines(5, CLASSES))


class _RadialEdges(nn.Module):
    """Li 2024: FastKAN, Gaussians in place of splines behind a norm."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm, self.base = nn.LayerNorm(inputs), nn.Linear(inputs, outputs)
        self.register_buffer("grid", torch.linspace(-2, 2, 5))
        self.edges = nn.Linear(5 * inputs, outputs)

    def forward(self, x):
        radial = torch.exp(-((self.norm(x).unsqueeze(-1) - self.grid) ** 2))
        return self.base(F.silu(x)) + self.edges(radial.flatten(1))


@architecture(COLUMNS)
def fast_kan():
    """Li 2024."""
    return nn.Sequential(_RadialEdges(COLUMNS, 5), _RadialEdges(5, CLASSES))


class _Chebyshev(nn.Module):
    """SS et al. 2024: Chebyshev polynomials of tanh, by their recursion."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs, 4) * 0.4)

    def forward(self, x):
        x = torch.tanh(x)
        terms = [torch.ones_like(x), x]
        for _ in range(2):
            terms.append(2 * x * terms[-1] - terms[-2])
        return torch.einsum("bik,iok->bo", torch.stack(terms, -1), self.weight)


@architecture(COLUMNS)
def chebyshev_kan():
    return nn.Sequential(_Chebyshev(COLUMNS, 5), _Chebyshev(5, CLASSES))


@architecture(COLUMNS)
class Polynomial(nn.Module):
    """All monomials up to the second degree, then a linear layer."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(COLUMNS + COLUMNS**2, CLASSES)

    def forward(self, x):
        squares = torch.bmm(x.unsqueeze(2), x.unsqueeze(1)).flatten(1)
        return self.head(torch.cat([x, squares], 1))


@architecture(COLUMNS)
class RandomFeatures(nn.Module):
    """Rahimi & Recht 2008: cosines of a value that grows; no limit exists."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(COLUMNS, 8), nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.head(torch.cos(self.first(x)))
