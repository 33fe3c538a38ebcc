"""Features: rows of which the network makes something else than of training rows.

``score = min_k |s(f / scale) M - c_k|`` with f the values that the network's last layer reads, s a
square root that keeps the sign (features of ReLU networks have long tails), M what whitens the
spread around groups, and c_k the mean of group k: the rows that the network puts in one class.
Features of very many columns are projected on random directions first. The promise does not stand
on this view: a network may be still where its inputs move.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.guard.views.balls import lengths
from farfield.guard.views.view import Floats, Place, Say, View, plainly
from farfield.shrinkage import ledoit_wolf

# More features than this are projected on so many random directions.
MOST_UNITS = 256
# Variances are raised to this share of their mean.
LEAST_VARIANCE = 1e-3
# The root is a line up to about here, in what features usually are.
ROUNDED = 1e-4


class Described(NamedTuple):
    """What a network makes of rows: features ``(rows, features)``, classes ``(rows,)``."""

    features: Floats
    classes: NDArray[np.intp]

    def at(self, places: NDArray[np.intp]) -> Described:
        """The same of some rows."""
        return Described(self.features[places], self.classes[places])


@final
class Features(View):
    """``min_k |s(f / scale) M - c_k|``.

    Args:
        scale: How large features are on average.
        matrix: ``(features, units)``, M.
        centres: ``(groups, units)``.
    """

    name = "features"
    sees = "rows of which the network makes something else than of training rows"
    inner = True
    scale: Tensor
    matrix: Tensor
    centres: Tensor

    def __init__(self, scale: Tensor, matrix: Tensor, centres: Tensor) -> None:
        super().__init__()
        self.register_buffer("scale", scale.double())
        self.register_buffer("matrix", matrix.double())
        self.register_buffer("centres", centres.double())

    @classmethod
    def fit(cls, known: Described, min_rows: int, seed: int) -> Features:
        """Whiten what features vary around the means of classes."""
        scale = float(np.abs(known.features).mean()) or 1.0
        rooted = _root(torch.from_numpy(known.features) / scale).numpy()
        project = _directions(rooted.shape[1], seed)
        rooted = rooted if project is None else rooted @ project
        groups = [rooted[known.classes == each] for each in np.unique(known.classes)]
        groups = [each for each in groups if len(each) >= min_rows] or [rooted]
        means = np.stack([each.mean(axis=0) for each in groups])
        around = np.concatenate([each - each.mean(axis=0) for each in groups])
        whiten = _whitening(around)
        matrix = whiten if project is None else project @ whiten
        return cls(torch.tensor(scale), torch.from_numpy(matrix), torch.from_numpy(means @ whiten))

    @property
    def count(self) -> int:
        """Number of features."""
        return len(self.matrix)

    def score(self, place: Place) -> Tensor:
        """The distance from the nearest group."""
        if place.features is None:
            raise AssertionError("a covered set that looks at features is given them")
        return self.score_of(place.features)

    def score_of(self, features: Tensor) -> Tensor:
        """The score of features, ``(rows,)``."""
        rooted = _root(features.to(torch.float64) / self.scale)
        return lengths(rooted @ self.matrix, self.centres).amin(dim=1)

    def distance(self, features: Tensor) -> Tensor:
        """``d`` of features, ``(rows,)``; infinite where they are no numbers."""
        found = (self.score_of(features) - self.threshold) / self.width
        return torch.where(torch.isnan(found), torch.inf, found)

    def blame(self, place: Place) -> Tensor:
        """No column by itself."""
        return torch.zeros_like(place.rows)

    def explain(self, place: Place, say: Say, column: int) -> str:
        """Say how far what the network makes of it is from what it makes of training rows."""
        away = plainly(float(self.score(place)[0]))
        return (
            "what the network makes of it is unlike what it makes of training rows: its features "
            f"are {away} deviations from those of the nearest class (inside: up to "
            f"{plainly(float(self.threshold))})"
        )


def _root(values: Tensor) -> Tensor:
    """A square root that keeps the sign, and has a slope at zero."""
    above, below = values.clamp(min=0.0) + ROUNDED, (-values).clamp(min=0.0) + ROUNDED
    return above.sqrt() - below.sqrt()


def _directions(count: int, seed: int) -> Floats | None:
    """Random directions that stand for very many features, ``(features, units)``."""
    if count <= MOST_UNITS:
        return None
    random = np.random.default_rng([seed, 3]).standard_normal((count, MOST_UNITS))
    return np.asarray(np.linalg.qr(random)[0])


def _whitening(around: Floats) -> Floats:
    """Inverse square root of the shrunk covariance (Ledoit and Wolf 2004)."""
    size = float(around.std()) or 1.0
    covariance = ledoit_wolf(around / size, centred=True)
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, max(LEAST_VARIANCE * float(values.mean()), 1e-12))
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T / size)
