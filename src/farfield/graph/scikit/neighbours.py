"""Nearest neighbours: far away those that lie farthest in the direction.

On a ray ``b + t s`` the squared distance to a point ``p`` is
``t^2 |s|^2 - 2 t s (p - b) + |p - b|^2``: for all large ``t`` the nearest points are those with the
largest ``s p``, and among equal ones those nearest to ``b``. Weights by distance become equal.
"""

from __future__ import annotations

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
# Bounds the rounding of a sum of products as a share of the magnitudes that were summed.
ROUNDING = 1e-12
EUCLIDEAN = ("euclidean", "l2", "sqeuclidean")


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
        found = [
            self._votes(s, b) for s, b in zip(as_array(slope), as_array(intercept), strict=True)
        ]
        return as_tensor(np.array(found), slope)

    def _votes(self, slope: Floats, origin: Floats) -> Floats:
        """Votes on one ray: points that surely belong, then those in doubt, exactly ordered."""
        along = self.points @ slope
        doubt = ROUNDING * (np.abs(self.points) @ np.abs(slope))
        last = np.partition(along, -self.count)[-self.count]
        # The last of the chosen has a projection that close to this one, in exact numbers too.
        close = np.abs(along - last) <= 2 * doubt.max()
        sure = ~close & (along > last)
        votes = np.bincount(self.labels[sure], minlength=self.classes).astype(np.float64)
        left = self.count - int(sure.sum())
        candidates = np.flatnonzero(close)
        if left < len(candidates) and len(set(self.labels[candidates])) > 1:
            candidates = self._nearest(candidates, left, slope, origin)
        else:
            candidates = candidates[:left]
        if len(candidates) < left:
            return np.full(self.classes, np.nan)
        votes += np.bincount(self.labels[candidates], minlength=self.classes)
        return votes / self.count

    def _nearest(
        self, candidates: NDArray[np.intp], left: int, slope: Floats, origin: Floats
    ) -> NDArray[np.intp]:
        """The first ``left`` of some points; fewer if that hangs on a tie of different labels."""
        keys = {int(place): self._key(place, slope, origin) for place in candidates}
        order = sorted(keys, key=keys.__getitem__)
        last = keys[order[left - 1]]
        tied = [place for place in order if keys[place] == last]
        before = [place for place in order if keys[place] < last]
        if len(before) + len(tied) > left and len({int(self.labels[place]) for place in tied}) > 1:
            return np.array(before, dtype=np.intp)
        return np.array([*before, *tied][:left], dtype=np.intp)

    def _key(self, place: int, slope: Floats, origin: Floats) -> tuple[Fraction, Fraction]:
        """What orders a point for all large ``t``, exactly."""
        point = [Fraction(value) for value in self.points[place].tolist()]
        along = sum(
            (Fraction(s) * p for s, p in zip(slope.tolist(), point, strict=True)), Fraction(0)
        )
        apart = sum(
            ((p - Fraction(b)) ** 2 for b, p in zip(origin.tolist(), point, strict=True)),
            Fraction(0),
        )
        return -along, apart


class RadiusVotes(RowFunction):
    """The votes of all neighbours within a radius; an answer of its own where there is none.

    Args:
        model: A fitted ``RadiusNeighborsClassifier``.
        outlier: ``(classes,)`` the answer.
    """

    def __init__(self, model: Any, outlier: Floats) -> None:
        self.model = unnamed(model)
        self.outlier = torch.from_numpy(outlier)

    def __call__(self, rows: Tensor) -> Tensor:
        """Ask the model."""
        return ask(self.model, "predict_proba", rows)

    def limit(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Every point is left behind as soon as one column moves."""
        return self.outlier.to(slope).expand(len(slope), -1)


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
