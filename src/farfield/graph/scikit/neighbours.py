"""Nearest neighbours: far away those that lie farthest in the direction.

On a ray ``b + t s`` the squared distance to a point ``p`` is
``t^2 |s|^2 - 2 t s (p - b) + |p - b|^2``: for all large ``t`` the nearest points are those with the
largest ``s p``, and among equal ones those nearest to ``b``. Weights by distance become equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import NotFollowed
from farfield.graph.reading import Writer
from farfield.graph.rules import RowFunction
from farfield.graph.scikit.foreign import as_array, as_tensor, ask, dense, unnamed
from farfield.graph.scikit.registry import ClassScores, Table, classifier

Floats = NDArray[np.float64]
# Bounds the rounding of a sum of products, and of what is multiplied, as a share of the magnitudes
# that were summed.
ROUNDING = 1e-12
# Bounds what is lost of products that are too small for a float.
TINY = 1e-300
Places = NDArray[np.intp]
EUCLIDEAN = ("euclidean", "l2", "sqeuclidean")


@dataclass(frozen=True, eq=False)
class Keys:
    """What orders points.

    Attributes:
        rounded: ``(points,)``.
        doubt: How far any of these is from the key of exact arithmetic at most; 0 if they are it.
        tie: Whether the keys of some points are exactly the same.
    """

    rounded: Floats
    doubt: float
    tie: Callable[[Places], bool]


class NearestVotes(RowFunction):
    """The votes of the nearest neighbours.

    Args:
        model: A fitted ``KNeighborsClassifier``.
    """

    def __init__(self, model: Any) -> None:
        self.model = unnamed(model)
        self.points = dense(model._fit_X)
        self.labels = np.asarray(model._y).reshape(-1)
        self.count = int(model.n_neighbors)
        self.classes = len(model.classes_)

    def __call__(self, rows: Tensor) -> Tensor:
        """Ask the model, which has its own way with points at equal distances."""
        return ask(self.model, "predict_proba", rows)

    def limit(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Count the votes of the farthest; NaN where points that tie for the last place differ."""
        return self._each(slope, intercept, shared=False)

    def in_parts(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Let all points that tie for the last places share them."""
        return self._each(slope, intercept, shared=True)

    def _each(self, slope: Tensor, intercept: Tensor, *, shared: bool) -> Tensor:
        rays = zip(as_array(slope), as_array(intercept), strict=True)
        return as_tensor(np.array([self._votes(s, b, shared=shared) for s, b in rays]), slope)

    def _votes(self, slope: Floats, origin: Floats, *, shared: bool) -> Floats:
        """Votes on one ray: by projection, then by distance.

        What is closer than rounding is no order: directions and origins were rounded themselves,
        wherever scalers, splines or projections stand in front.
        """
        keys = self._behind(slope)
        chosen, tied = self._first(np.arange(len(self.points)), self.count, keys)
        left = self.count - len(chosen)
        if self._differ(tied, left) and keys.tie(tied):
            nearer, tied = self._first(tied, left, self._apart(tied, origin))
            chosen = np.concatenate([chosen, nearer])
            left = self.count - len(chosen)
        if self._differ(tied, left):
            parts = self._count(chosen) + self._count(tied) * (left / len(tied))
            return parts if shared else np.full(self.classes, np.nan)
        return self._count(np.concatenate([chosen, tied[:left]]))

    def _count(self, voters: Places) -> Floats:
        return np.bincount(self.labels[voters], minlength=self.classes) / self.count

    def _differ(self, places: Places, left: int) -> bool:
        """Whether the votes hang on which ``left`` of some points are taken."""
        return 0 < left < len(places) and len(set(self.labels[places].tolist())) > 1

    def _first(self, places: Places, count: int, keys: Keys) -> tuple[Places, Places]:
        """The points with the smallest keys: those that are surely among the first, and the rest.

        The rest are those that cannot be told from the last of the first.
        """
        last = np.partition(keys.rounded, count - 1)[count - 1]
        close = ~(np.abs(keys.rounded - last) > 2 * keys.doubt)
        return places[~close & (keys.rounded < last)], places[close]

    def _behind(self, slope: Floats) -> Keys:
        """How far points lie behind in a direction: what orders them first for all large ``t``."""
        moving = np.flatnonzero(slope)
        if len(moving) == 1:
            # A single column orders points by its values, which are not rounded.
            column = self.points[:, moving[0]]
            return Keys(-np.sign(slope[moving[0]]) * column, 0.0, lambda _: True)
        steps = [Fraction(each) for each in slope[moving].tolist()]

        def exact(place: int) -> Fraction:
            values = map(Fraction, self.points[place, moving].tolist())
            return sum((s * p for s, p in zip(steps, values, strict=True)), Fraction(0))

        doubt = ROUNDING * float((np.abs(self.points) @ np.abs(slope)).max()) + TINY
        return Keys(-(self.points @ slope), doubt, lambda tied: len(set(map(exact, tied))) == 1)

    def _apart(self, places: Places, origin: Floats) -> Keys:
        """How far some points are from the origin, squared: what orders those that tie."""
        rounded = ((self.points[places] - origin) ** 2).sum(axis=1)
        return Keys(rounded, ROUNDING * float(rounded.max()) + TINY, lambda _: True)


class RadiusVotes(RowFunction):
    """The votes of all neighbours within a radius; an answer of its own where there is none.

    Args:
        model: A fitted ``RadiusNeighborsClassifier``.
        outlier: ``(classes,)`` the answer.
    """

    by_order = True

    def __init__(self, model: Any, outlier: Floats) -> None:
        self.model = unnamed(model)
        self.outlier = torch.from_numpy(outlier)

    def __call__(self, rows: Tensor) -> Tensor:
        """Ask the model."""
        return ask(self.model, "predict_proba", rows)

    def limit(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Every point is left behind as soon as one column moves."""
        return self.outlier.to(slope).expand(len(slope), -1)

    def steady(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Where one moves; at rest a point may lie on the radius."""
        return (slope != 0).any(dim=1)


def _check(model: Any) -> None:
    metric = str(model.effective_metric_)
    plain = metric in EUCLIDEAN or (metric == "minkowski" and model.p == 2)
    others = {key: value for key, value in (model.metric_params or {}).items() if key != "p"}
    if not plain or others:
        raise NotFollowed(
            f"{type(model).__name__} measures distances by {metric}"
            f"{f' with {sorted(others)}' if others else ''}; use metric='euclidean'."
        )
    if callable(model.weights):
        raise NotFollowed(
            f"{type(model).__name__} weighs neighbours by a function of yours; use 'uniform' or "
            "'distance'."
        )


@classifier("KNeighborsClassifier")
def _nearest(writer: Writer, table: Table, model: Any) -> ClassScores:
    _check(model)
    return ClassScores(
        writer.apply(table.value, NearestVotes(model), len(model.classes_)), "identity"
    )


@classifier("RadiusNeighborsClassifier")
def _within_radius(writer: Writer, table: Table, model: Any) -> ClassScores:
    _check(model)
    label = None if model.outlier_label_ is None else model.outlier_label_[0]
    outlier = (np.asarray(model.classes_) == label).astype(np.float64)
    if label is None or outlier.sum() != 1:
        raise NotFollowed(
            "RadiusNeighborsClassifier has no answer where no neighbour is near; give it an "
            "outlier_label among the classes, or 'most_frequent'."
        )
    return ClassScores(
        writer.apply(table.value, RadiusVotes(model, outlier), len(outlier)), "identity"
    )
