"""Detection of out-of-distribution points by a score: out-of-distribution is positive.

Everything is a function of ranks. Scores are compared as float64, never squashed into [0, 1],
so scores of 1e30 are as good as any; infinite scores are the largest or smallest. Ties are exact:
points with equal scores are never ordered.

With ``u`` the distinct scores:

* AUROC: ``P(out > in) + P(out = in) / 2``, counted in whole numbers and divided once.
* AUPR: average precision, the sum over ``u`` of the recall gained there times the precision at
  that threshold. ``aupr_out`` finds the out-points from the most uncertain down, ``aupr_in``
  the in-points from the most confident down.
* FPR at 95% TPR (Hein et al.): the threshold is the 5th percentile of in-distribution
  confidence; an out-point counts when its confidence is at or above it. Confidence is the
  negative score here. The percentile interpolates linearly between neighbours; next to an
  infinite score it is the more uncertain neighbour, which counts more out-points.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import InputError
from farfield.estimate import Estimate
from farfield.evaluate.bootstrap import (
    RandomState,
    check_bootstrap,
    chunks,
    generator,
    percentile_estimates,
)

_NAMES = ("auroc", "aupr_out", "aupr_in", "fpr95")
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Detection:
    """How well a score separates in- from out-of-distribution; out is positive.

    Attributes:
        auroc: Chance that an out-point scores higher than an in-point, ties counting half.
        aupr_out: Average precision with out-points positive.
        aupr_in: Average precision with in-points positive, ranked by confidence.
        fpr95: Share of out-points at least as confident as the 5th percentile of in-points.
        in_points: Number of in-distribution points.
        out_points: Number of out-of-distribution points.
        intervals: Name of a number above to its `Estimate`; empty unless asked for.
    """

    auroc: float
    aupr_out: float
    aupr_in: float
    fpr95: float
    in_points: int
    out_points: int
    intervals: Mapping[str, Estimate] = field(default_factory=dict)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={getattr(self, name):.6g}" for name in _NAMES)
        return (
            f"Detection({numbers}; out-of-distribution is positive, higher score = more uncertain; "
            f"{self.in_points} in, {self.out_points} out)"
        )


def detection(
    in_scores: NDArray[Any] | Tensor,
    out_scores: NDArray[Any] | Tensor,
    *,
    interval: float | None = None,
    resamples: int = 1000,
    random_state: RandomState = 0,
) -> Detection:
    """Measure how well uncertainty scores detect out-of-distribution points.

    Args:
        in_scores: Uncertainty of in-distribution points, ``(points,)``; higher = more uncertain.
        out_scores: Uncertainty of out-of-distribution points, ``(points,)``.
        interval: Confidence level of intervals, or None for none. In- and out-points are
            resampled separately (bootstrap). No resample of a perfect separation is less than
            perfect, so the interval is widened to what further points, scored beyond all
            others, would give: as many as can have been missed by chance.
        resamples: Number of bootstrap resamples.
        random_state: Seed or generator of the bootstrap.

    Returns:
        A `Detection`; its ``intervals`` are filled when ``interval`` is given.

    >>> detection(np.array([0.1, 0.2, 0.3]), np.array([0.3, 0.9]))
    Detection(auroc=0.916667, aupr_out=0.833333, aupr_in=0.916667, fpr95=0;
              out-of-distribution is positive, higher score = more uncertain; 3 in, 2 out)
    """
    inside, outside = _as_scores(in_scores, "in_scores"), _as_scores(out_scores, "out_scores")
    values, index = np.unique(np.concatenate([inside, outside]), return_inverse=True)
    index_in, index_out = index[: len(inside)], index[len(inside) :]
    size = len(values)
    exact = _measure(
        values,
        np.bincount(index_in, minlength=size)[None],
        np.bincount(index_out, minlength=size)[None],
    )
    numbers = {name: float(exact[name][0]) for name in _NAMES}
    intervals: Mapping[str, Estimate] = {}
    if interval is not None:
        check_bootstrap(interval, resamples)
        rng = generator(random_state)
        parts = [
            _measure(
                values, _resample(index_in, size, some, rng), _resample(index_out, size, some, rng)
            )
            for some in chunks(resamples, len(index))
        ]
        resampled = {name: np.concatenate([part[name] for part in parts]) for name in _NAMES}
        bootstrapped = percentile_estimates(numbers, resampled, interval)
        unseen = _unseen(values, index_in, index_out, interval)
        intervals = {
            name: replace(
                found,
                low=min(found.low, *unseen[name]),
                high=max(found.high, *unseen[name]),
                method=f"{found.method}, widened by points not seen",
            )
            for name, found in bootstrapped.items()
        }
    return Detection(
        **numbers,
        in_points=len(inside),
        out_points=len(outside),
        intervals=intervals,
    )


def _as_scores(scores: NDArray[Any] | Tensor, name: str) -> NDArray[np.float64]:
    """Return ``(points,)`` float64 scores without NaN."""
    if isinstance(scores, Tensor):
        scores = scores.detach().cpu().double().numpy()
    array = np.asarray(scores)
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name} must be real numbers, got dtype {array.dtype}.")
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"{name} must have shape (points,) with at least one point, got shape {array.shape}. "
            "Turn probabilities into one score per point first, for example with "
            "farfield.scores.predictive_entropy."
        )
    values = array.astype(np.float64)
    if np.isnan(values).any():
        where = int(np.flatnonzero(np.isnan(values))[0])
        raise InputError(f"{name} holds NaN, first at point {where}. Remove or repair such points.")
    return values


def _unseen(
    values: NDArray[np.float64], inside: NDArray[np.intp], outside: NDArray[np.intp], level: float
) -> dict[str, list[float]]:
    """Measure with further points of either kind, below or above all others: four of each number.

    Of ``n`` points none lies there. A share of ``q`` that does is missed by all of them with
    probability ``(1 - q)^n``; so up to ``q = 1 - tail^(1/n)`` may do, Clopper and Pearson's bound.
    """
    tail = (1.0 - level) / 2.0
    around = np.concatenate([[-np.inf], values, [np.inf]])
    kinds = [np.bincount(index + 1, minlength=len(around)) for index in (inside, outside)]
    made = []
    for kind, counts in enumerate(kinds):
        points = int(counts.sum())
        share = 1.0 - tail ** (1.0 / points)
        for end in (0, -1):
            more = [each.copy() for each in kinds]
            more[kind][end] = math.ceil(points * share / (1.0 - share))
            made.append(_measure(around, more[0][None], more[1][None]))
    return {name: [float(each[name][0]) for each in made] for name in _NAMES}


def _resample(index: NDArray[np.intp], size: int, some: int, rng: np.random.Generator) -> Counts:
    """Count the distinct scores in resamples of points: ``(some, size)``."""
    drawn = index[rng.integers(len(index), size=(some, len(index)))]
    drawn += np.arange(some)[:, None] * size
    return np.bincount(drawn.ravel(), minlength=some * size).reshape(some, size)


def _measure(
    values: NDArray[np.float64], inside: Counts, outside: Counts
) -> dict[str, NDArray[np.float64]]:
    """Compute the numbers from counts ``(resamples, distinct scores)``, ascending scores."""
    upto_in, upto_out = inside.cumsum(axis=1), outside.cumsum(axis=1)
    total_in, total_out = int(upto_in[0, -1]), int(upto_out[0, -1])
    wins = (outside * (2 * upto_in - inside)).sum(axis=1)
    from_out = total_out - upto_out + outside
    from_in = total_in - upto_in + inside
    return {
        "auroc": wins / (2 * total_in * total_out),
        "aupr_out": _average_precision(outside, from_out, from_in, total_out),
        "aupr_in": _average_precision(inside, upto_in, upto_out, total_in),
        "fpr95": _false_positives(values, upto_in, upto_out),
    }


def _average_precision(
    gained: Counts, true_positives: Counts, false_positives: Counts, total: int
) -> NDArray[np.float64]:
    """Sum precision over the positives gained at every distinct score."""
    # Scores that a resample missed have gained nothing, so their 0 / 0 may be anything.
    found = np.maximum(true_positives + false_positives, 1)
    precision: NDArray[np.float64] = (gained * (true_positives / found)).sum(axis=1) / total
    return precision


def _false_positives(
    values: NDArray[np.float64], upto_in: Counts, upto_out: Counts
) -> NDArray[np.float64]:
    """Share of out-points whose score is at most the 95th percentile of the in-points' scores."""
    total_in, total_out = int(upto_in[0, -1]), int(upto_out[0, -1])
    rank, hundredths = divmod(95 * (total_in - 1), 100)
    below = values[(upto_in <= rank).sum(axis=1)]
    above = values[(upto_in <= min(rank + 1, total_in - 1)).sum(axis=1)]
    part = hundredths / 100
    if part == 0:
        above = below
    # Weighted like this, two finite numbers cannot overflow.
    with np.errstate(invalid="ignore"):
        between = np.clip((1 - part) * below + part * above, below, above)
    settled = (below == above) | np.isinf(below) | np.isinf(above)
    position = np.searchsorted(values, np.where(settled, above, between), side="right")
    counted = np.take_along_axis(upto_out, position[:, None] - 1, axis=1)[:, 0]
    share: NDArray[np.float64] = counted / total_out
    return share
