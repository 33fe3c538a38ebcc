"""K-means (Lloyd 1982), started at rows that are far from each other (Arthur, Vassilvitskii 2007).

The steps and draws are those of scikit-learn's ``KMeans``, which finds the same groups. Loading
scikit-learn takes longer than all that a guard is fitted with.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
# Centres that move less than this share of the variance have arrived.
ARRIVED = 1e-4
# How many distances are held at a time: what fits into a cache.
BLOCK = 1 << 16


def kmeans(
    rows: Floats, count: int, rng: np.random.RandomState, *, apart: bool = True, most: int = 300
) -> Labels:
    """Cut rows into groups, each around its mean.

    Args:
        rows: ``(rows, columns)``.
        count: How many groups; some may stay empty if rows are equal.
        rng: Draws where groups start.
        apart: Whether groups start at rows that are far from each other, or at any.
        most: Rounds, if the groups do not come to rest before.

    Returns:
        ``(rows,)`` the group of each row.

    >>> rows = np.array([[0.0], [9.0], [0.1], [9.2]])
    >>> labels = kmeans(rows, 2, np.random.RandomState(0))
    >>> (labels == labels[0]).tolist()
    [True, False, True, False]
    """
    near = ARRIVED * float(rows.var(axis=0).mean())
    rows = rows - rows.mean(axis=0)
    centres = rows[_scattered(rows, count, rng) if apart else _any(rows, count, rng)]
    labels = np.full(len(rows), -1)
    for _ in range(most):
        before, labels = labels, _nearest(rows, centres)
        old, centres = centres, _means(rows, centres, labels)
        if np.array_equal(before, labels):
            return labels
        if np.square(centres - old).sum() <= near:
            break
    return _nearest(rows, centres)


def _any(rows: Floats, count: int, rng: np.random.RandomState) -> Labels:
    """Rows at random, none twice."""
    return rng.choice(len(rows), size=count, replace=False, p=_evenly(rows))


def _scattered(rows: Floats, count: int, rng: np.random.RandomState) -> Labels:
    """Rows drawn by their distance from those before; of a few, the one that helps most."""
    tries, squares = 2 + int(np.log(count)), np.square(rows).sum(axis=1)
    chosen = [int(rng.choice(len(rows), p=_evenly(rows)))]
    closest = _squared(rows, squares, np.array(chosen))[0]
    for _ in range(1, count):
        drawn = rng.uniform(size=tries) * closest.sum()
        some = np.minimum(closest.cumsum().searchsorted(drawn), len(rows) - 1)
        closer = _squared(rows, squares, some)
        np.minimum(closest, closer, out=closer)
        best = int(closer.sum(axis=1).argmin())
        chosen.append(int(some[best]))
        closest = closer[best]
    return np.array(chosen)


def _evenly(rows: Floats) -> Floats:
    return np.full(len(rows), 1.0 / len(rows))


def _squared(rows: Floats, squares: Floats, some: Labels) -> Floats:
    """``(some, rows)`` squared distances of all rows from some of them; exactly 0 from itself."""
    found: Floats = squares[some, None] - 2.0 * (rows[some] @ rows.T) + squares
    np.maximum(found, 0.0, out=found)
    found[np.arange(len(some)), some] = 0.0
    return found


def _nearest(rows: Floats, centres: Floats) -> Labels:
    """``(rows,)`` the nearest centre, the first of several."""
    step, squares = max(1, BLOCK // len(centres)), np.square(centres).sum(axis=1)
    turned, labels = -2.0 * centres.T, np.empty(len(rows), dtype=np.int64)
    for start in range(0, len(rows), step):
        found = rows[start : start + step] @ turned
        found += squares
        found.argmin(axis=1, out=labels[start : start + step])
    return labels


def _means(rows: Floats, centres: Floats, labels: Labels) -> Floats:
    """The mean of every group; one that is empty starts anew at a row far from its own centre."""
    sizes = np.bincount(labels, minlength=len(centres))
    sums = sums_of(rows, labels, sizes)
    empty = np.flatnonzero(sizes == 0)
    if len(empty):
        away = np.square(rows - centres[labels]).sum(axis=1)
        if away.max() > 0:
            for group, row in zip(empty, np.argsort(away)[::-1], strict=False):
                sums[labels[row]] -= rows[row]
                sizes[labels[row]] -= 1
                sums[group], sizes[group] = rows[row], 1
    return sums / np.maximum(sizes, 1)[:, None]


def sums_of(rows: Floats, labels: Labels, sizes: Labels) -> Floats:
    """``(groups, columns)`` the sum of every group, of so many rows each."""
    found = np.zeros((len(sizes), rows.shape[1]))
    held = np.flatnonzero(sizes)
    starts = (np.cumsum(sizes) - sizes)[held]
    # Short numbers are put in order without comparing them.
    short = labels.astype(np.uint16) if len(sizes) <= 1 << 16 else labels
    found[held] = np.add.reduceat(rows[short.argsort(kind="stable")], starts, axis=0)
    return found
