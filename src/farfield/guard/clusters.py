"""Groups of rows that are no row: k-means clusters of at least ``min_rows`` rows.

What a file holds of the data are means of groups. The mean of one row is that row, so a group that
is too small is dissolved, and its rows go to their nearest others.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from farfield.guard.kmeans import kmeans, sums_of

Floats = NDArray[np.float64]
# Rounds of k-means; groups need not be optimal.
ROUNDS = 12
MANY = 100


@dataclass(frozen=True)
class Groups:
    """A partition of rows.

    Attributes:
        centres: ``(groups, columns)`` means.
        labels: ``(rows,)`` the group of each row.
        distances: ``(rows,)`` of each row to its group's mean.
    """

    centres: Floats
    labels: NDArray[np.int64]
    distances: Floats

    def quantiles(self, share: float) -> Floats:
        """``(groups,)``: a quantile of the distances in each group."""
        order = np.lexsort((self.distances, self.labels))
        sizes = np.bincount(self.labels, minlength=len(self.centres))
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        places = starts + np.minimum(np.ceil(share * sizes).astype(int), sizes - 1)
        found: Floats = self.distances[order][places]
        return found


@dataclass(frozen=True, eq=False)
class Grouping:
    """Cuts the same rows into as many groups as are asked for, once for each number of them.

    Attributes:
        units: ``(rows, columns)``.
        min_rows: The least rows of a group.
        seed: Of k-means.
        known: Groups by their number.
    """

    units: Floats
    min_rows: int
    seed: int
    known: dict[int, Groups] = field(default_factory=dict)

    def into(self, count: int) -> Groups:
        """At most so many groups.

        >>> rows = np.array([[0.0], [0.1], [0.2], [9.0]])
        >>> Grouping(rows, 2, 0).into(4).centres.round(3).tolist()
        [[2.325]]
        """
        count = max(1, min(count, len(self.units) // (2 * self.min_rows)))
        if count not in self.known:
            self.known[count] = _group(self.units, count, self.min_rows, self.seed)
        return self.known[count]


def _group(units: Floats, count: int, min_rows: int, seed: int) -> Groups:
    if count == 1 or units.shape[1] == 0 or bool((units == units[0]).all()):
        return _partition(units, np.zeros(len(units), dtype=np.int64))
    distinct = len(np.unique(units, axis=0)) if len(units) <= 4 * count * min_rows else len(units)
    count = min(count, distinct)
    rng = np.random.RandomState(seed % 2**32)
    # Many groups are everywhere in any case, and setting them apart takes longer than all rounds.
    labels = kmeans(units, count, rng, apart=count <= MANY, most=ROUNDS)
    return _partition(units, _dissolve(units, labels, min_rows))


def _dissolve(units: Floats, labels: NDArray[np.int64], min_rows: int) -> NDArray[np.int64]:
    """Give the rows of groups that are too small to their nearest others, the smallest first."""
    sizes = np.bincount(labels)
    sums = sums_of(units, labels, sizes)
    while len(np.flatnonzero(sizes)) > 1 and sizes[sizes > 0].min() < min_rows:
        small = int(np.where(sizes > 0, sizes, len(units) + 1).argmin())
        alive = np.flatnonzero(sizes)
        alive = alive[alive != small]
        centres = sums[alive] / sizes[alive][:, None]
        moved = np.flatnonzero(labels == small)
        apart = np.square(units[moved][:, None] - centres).sum(axis=2)
        labels[moved] = alive[apart.argmin(axis=1)]
        np.add.at(sums, labels[moved], units[moved])
        np.add.at(sizes, labels[moved], 1)
        sizes[small] = 0
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _partition(units: Floats, labels: NDArray[np.int64]) -> Groups:
    sizes = np.bincount(labels)
    centres = sums_of(units, labels, sizes) / sizes[:, None]
    return Groups(centres, labels, np.linalg.norm(units - centres[labels], axis=1))
