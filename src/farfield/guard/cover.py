"""The covered set: balls around prototypes that hold the data.

``d(u) = min_k (|u - c_k| - rho_k)`` is at most zero inside. Prototypes are k-means centres; each
ball starts with the 90% quantile of its own rows, and all grow by one common margin: the conformal
quantile of ``d`` over rows that the prototypes have not seen, so that a new row from the same
source is inside with at least the stated probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from torch import Tensor, nn

Floats = NDArray[np.float64]
# Prototypes are found on a sample of at most so many rows, fewer of wide ones.
FITTED_ROWS, FITTED_NUMBERS, LEAST_FITTED = 20_000, 4_000_000, 1000
FOLDS = 5
OWN_QUANTILE = 0.9
# Radii are enlarged by this share, so that the row that sets the margin is inside after rounding.
ROOM = 1e-6


@dataclass(frozen=True)
class Cover:
    """Balls in whitened units.

    Attributes:
        prototypes: ``(balls, columns)`` float64.
        radii: ``(balls,)``.
    """

    prototypes: Tensor
    radii: Tensor

    def distance(self, units: Tensor) -> Tensor:
        """``d``, ``(rows,)``: how far rows are from the nearest ball; negative inside."""
        distance: Tensor = Balls(self)(units)
        return distance

    @property
    def reach(self) -> float:
        """Radius of a ball around the origin that holds all balls."""
        return float((self.prototypes.norm(dim=1) + self.radii).max())

    def grown(self, margin: float) -> Cover:
        """The same balls, all larger by a margin; a ball never shrinks below a point."""
        radii = (self.radii + margin).clamp(min=0.0)
        return replace(self, radii=radii + ROOM * (1.0 + self.prototypes.norm(dim=1) + radii))


class Balls(nn.Module):
    """Evaluates ``min_k (|u - c_k| - rho_k)``, ``(rows,)`` float64.

    Which ball is nearest is found in single precision, by one product of matrices; the distance to
    it is then computed in double precision from the difference, which does not cancel. Of two balls
    that single precision cannot tell apart either may be taken: proofs hold for both.

    >>> one = torch.tensor([[0.0, 0.0]], dtype=torch.float64)
    >>> Balls(Cover(one, one[0, :1] + 1.0))(one + 3.0).numpy().round(6).tolist()
    [3.242641]
    """

    prototypes: Tensor
    radii: Tensor
    product: Tensor
    squares: Tensor
    rough: Tensor

    def __init__(self, cover: Cover) -> None:
        super().__init__()
        self.register_buffer("prototypes", cover.prototypes.double())
        self.register_buffer("radii", cover.radii.double())
        rough = self.prototypes.float()
        # (u, |u|^2) times this, plus the squares, is |u - c|^2.
        product = torch.cat([-2.0 * rough.T, torch.ones(1, len(rough))])
        self.register_buffer("product", product, persistent=False)
        self.register_buffer("squares", rough.square().sum(dim=1), persistent=False)
        self.register_buffer("rough", self.radii.float(), persistent=False)

    @property
    def cover(self) -> Cover:
        """The balls as plain data."""
        return Cover(self.prototypes.detach().cpu(), self.radii.detach().cpu())

    def forward(self, units: Tensor) -> Tensor:
        """Measure ``(rows, columns)`` float64."""
        rows = units.float()
        rows = torch.cat([rows, rows.square().sum(dim=1, keepdim=True)], dim=1)
        squares = torch.addmm(self.squares, rows, self.product).clamp(min=0.0)
        nearest = (squares.sqrt() - self.rough).min(dim=1).indices
        apart = units - self.prototypes.index_select(0, nearest)
        lengths: Tensor = torch.linalg.vector_norm(apart, dim=1)
        return lengths - self.radii.index_select(0, nearest)


def fit_cover(units: Floats, prototypes: int, seed: int) -> tuple[Cover, Floats, NDArray[np.intp]]:
    """Find prototypes and their own radii, and the distances of rows that they have not seen.

    Args:
        units: ``(rows, columns)`` whitened rows.
        prototypes: How many; fewer where there are fewer distinct rows.
        seed: Of the sample, the folds and k-means.

    Returns:
        The cover without margin; distances of unseen rows to covers made without them; which rows.
    """
    if units.shape[1] == 0:
        nothing = torch.zeros(1, 0, dtype=torch.float64)
        return Cover(nothing, nothing.sum(dim=1)), np.zeros(len(units)), np.arange(len(units))
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(units))
    most = min(FITTED_ROWS, max(LEAST_FITTED, FITTED_NUMBERS // units.shape[1]))
    fitted, fresh = order[:most], order[most:]
    cover = _fit(units[fitted], prototypes, seed)
    if len(fresh) >= len(fitted) // FOLDS and len(fresh):
        return cover, _distances(cover, units[fresh]), fresh
    if len(fitted) < 2:
        return cover, np.zeros(len(fitted)), fitted
    scores = np.empty(len(fitted))
    for fold in range(min(FOLDS, len(fitted))):
        out = np.arange(len(fitted)) % FOLDS == fold
        part = _fit(units[fitted[~out]], prototypes, seed + fold + 1)
        scores[out] = _distances(part, units[fitted[out]])
    return cover, scores, fitted


def _fit(units: Floats, prototypes: int, seed: int) -> Cover:
    """k-means, and the quantile of each cluster's own distances."""
    distinct = len(np.unique(units, axis=0)) if len(units) <= 4 * prototypes else len(units)
    count = min(prototypes, distinct)
    means = KMeans(count, n_init=1, max_iter=50, random_state=seed % 2**32).fit(units)
    centres = means.cluster_centers_.astype(np.float64)
    apart = np.linalg.norm(units - centres[means.labels_], axis=1)
    radii = [
        float(np.quantile(own, OWN_QUANTILE)) if len(own := apart[means.labels_ == k]) else 0.0
        for k in range(count)
    ]
    return Cover(torch.from_numpy(centres), torch.tensor(radii, dtype=torch.float64))


def _distances(cover: Cover, units: Floats) -> Floats:
    parts = [
        cover.distance(torch.from_numpy(units[start : start + 65_536])).numpy()
        for start in range(0, len(units), 65_536)
    ]
    return np.concatenate(parts)


def conformal_margin(scores: Floats, coverage: float) -> float:
    """The smallest margin under which a new row is inside with probability ``coverage``.

    The ``ceil((n + 1) coverage)``-th smallest of n scores (Vovk et al. 2005); the largest, which
    promises ``n / (n + 1)``, if that is beyond the last.

    >>> conformal_margin(np.arange(99.0), 0.9), conformal_margin(np.arange(9.0), 0.99)
    (89.0, 8.0)
    """
    place = math.ceil((len(scores) + 1) * coverage)
    return float(np.sort(scores)[min(place, len(scores)) - 1])
