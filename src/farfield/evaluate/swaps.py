"""Columns whose values may end up in each other's fields.

Neighbours are swapped most easily. Farther apart, a swap is plausible where the two have the same
unit, or where most values of each would pass as values of the other: nobody is struck by them. Of
those no more are tried than there are columns, the most alike first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from farfield.data import TableColumn

Floats = NDArray[np.float64]
# The share of the values of each that must lie where most of the other's do.
ALIKE = 0.5
# Where most values lie: between these quantiles.
MOST = (0.01, 0.99)


@dataclass(frozen=True)
class Swaps:
    """Which columns are swapped.

    Attributes:
        partners: Name of a column to those that it is swapped with; every pair stands here once.
        possible: How many pairs of columns of numbers there are.
    """

    partners: dict[str, tuple[TableColumn, ...]]
    possible: int

    @property
    def tried(self) -> int:
        """How many pairs are swapped."""
        return sum(map(len, self.partners.values()))


def swaps(columns: Sequence[TableColumn], rows: Floats, every: Sequence[TableColumn]) -> Swaps:
    """Choose the pairs to swap.

    Args:
        columns: To make errors in; one of a pair is one of them.
        rows: Correct rows.
        every: All columns, in their order.
    """
    numeric = [each for each in every if not each.discrete]
    chosen = {each.name for each in columns if not each.discrete}
    place = {each.name: index for index, each in enumerate(numeric)}
    own = [place[name] for name in place if name in chosen]
    pairs = [pair for pair in pairwise(range(len(numeric))) if chosen & _names(numeric, pair)]
    pairs += _alike(numeric, rows, own)
    partners: dict[str, tuple[TableColumn, ...]] = {}
    for first, second in pairs:
        one, other = numeric[first], numeric[second]
        if one.name not in chosen:
            one, other = other, one
        partners[one.name] = (*partners.get(one.name, ()), other)
    return Swaps(partners, len(numeric) * (len(numeric) - 1) // 2)


def _names(columns: Sequence[TableColumn], pair: tuple[int, int]) -> set[str]:
    return {columns[place].name for place in pair}


def _alike(
    columns: Sequence[TableColumn], rows: Floats, own: Sequence[int]
) -> list[tuple[int, int]]:
    """Pairs that are no neighbours and can be taken for each other, the most alike first."""
    found: dict[tuple[int, int], float] = {}
    passing = _passing(rows[:, [each.places[0] for each in columns]], own)
    for index, first in enumerate(own):
        for second, share in enumerate(passing[index]):
            same = bool(columns[first].unit) and columns[first].unit == columns[second].unit
            if abs(first - second) > 1 and (same or share >= ALIKE):
                found[min(first, second), max(first, second)] = float(share) + same
    return sorted(found, key=lambda pair: -found[pair])[: len(own)]


def _passing(values: Floats, own: Sequence[int]) -> Floats:
    """``(own, columns)``: the share of values that pass as the other's, the smaller of both."""
    ordered = [np.sort(each[~np.isnan(each)]) for each in values.T]
    # A column without values is like no other.
    ends = [np.quantile(each, MOST) if len(each) else (np.inf, -np.inf) for each in ordered]
    low, high = np.array(ends).reshape(-1, 2).T
    within = np.array(
        [
            np.searchsorted(each, high, side="right") - np.searchsorted(each, low, side="left")
            for each in ordered
        ]
    ).reshape(len(low), len(low)) / [[max(1, len(each))] for each in ordered]
    smaller: Floats = np.minimum(within, within.T)[list(own)]
    return smaller
